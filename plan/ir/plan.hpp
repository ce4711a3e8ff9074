// The plan: what every rank does in one training step, and never when. One program per pipeline
// rank; the ranks of its tensor, context and data groups share it.
//
//   Plan ── blocks          distinct op lists (plan/ir/block.hpp)
//        └─ programs        one per pipeline rank
//             ├─ stages     which layers, and the buckets of their parameters
//             ├─ procedures what an action expands to: block uses in issue order
//             ├─ residents  memory that outlives a block: lifetimes in steps, offsets in the arena
//             └─ steps      actions in one total issue order, bound to procedures and residents
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir/action.hpp"
#include "plan/ir/block.hpp"
#include "plan/ir/mesh.hpp"

namespace orrery::plan {

// What the waterfall of a memory report calls the bytes.
enum class MemoryCategory : std::uint8_t {
    parameters,
    gradients,
    optimizer,
    activations,
    workspace,
    communication
};
inline constexpr std::size_t kMemoryCategories = 6;
std::string_view name(MemoryCategory category);

// Where memory is. Each tier of a rank is one arena, of which the disk's is a file.
enum class Tier : std::uint8_t { device, host, disk };
inline constexpr std::size_t kTiers = 3;
std::string_view name(Tier tier);

// One use of a block within a procedure.
struct BlockUse {
    std::int32_t block = 0;      // index into Plan::blocks
    std::int32_t layer = -1;     // model layer, −1: none
    std::int32_t position = -1;  // stash area within the stage's stash, −1: none
    std::int32_t bucket = -1;    // bucket whose parameters, gradients and states it touches
    std::int32_t gathered = -1;  // resident with the gathered parameters, −1: the bucket's own
    std::int32_t reducing = -1;  // resident with unreduced gradients, −1: the bucket's own
    bool fence = false;          // starts after everything issued before it has ended
    std::int32_t from = -1;      // residents that a copy between tiers reads and writes; −1: what
    std::int32_t to = -1;        // its step says
    bool operator==(const BlockUse&) const = default;
};

struct Procedure {
    std::string name;
    std::vector<BlockUse> uses;
    bool operator==(const Procedure&) const = default;
};

// Gradients that are reduced, and parameters that are stepped and gathered, together: a contiguous
// range of a stage's parameters.
struct Bucket {
    std::int32_t stage = 0;
    std::int32_t first_position = 0;  // positions (parts of the stage) it covers
    std::int32_t last_position = 0;
    std::int64_t elements = 0;             // local to the rank, before padding
    std::int64_t padded = 0;               // to a multiple of the ranks that share it
    std::int64_t tied_elements = 0;        // of a parameter that another bucket of this rank holds:
                                           // a second gradient accumulator, added once per step
    std::int64_t replicated_elements = 0;  // held whole by every rank of the tensor group; of these
    std::int64_t partial_elements = 0;     // the first so many, whose gradients are parts of a sum
                                           // over the group without sequence parallelism, too
    // Resident that holds each state; −1: none.
    std::int32_t parameters = -1;
    std::int32_t gradients = -1;
    std::int32_t optimizer = -1;
    bool operator==(const Bucket&) const = default;
};

// The blocks of a stage in forward order; index = position.
struct StagePart {
    std::int32_t forward = 0;   // block
    std::int32_t backward = 0;  // block
    std::int32_t layer = -1;
    // Of its stash area within the stage's stash. The first part of a later stage has the
    // activation that the stage received elsewhere: its area lacks that tensor, which comes first
    // in a block's area, and the others move down by its size.
    std::int64_t stash_offset = 0;
    std::int32_t bucket = -1;
    // Of a group of layers that keeps only its first one's input: the block that backward runs
    // again for each but the last, in order, before the group's first backward block, and where the
    // tensors that it makes or receives lie within Program::recomputed; −1: none.
    std::int32_t recompute = -1;
    std::int64_t recomputed_offset = -1;
    // Where backward is split in two: the block that is for the input (−1: it is `backward`, and
    // there is no whole one), the one that is for the weights (−1: nothing can wait for it), and
    // where the part's areas lie within the stage's kept and deferred tensors.
    std::int32_t backward_input = -1;
    std::int32_t backward_weight = -1;
    std::int64_t kept_offset = -1;
    std::int64_t deferred_offset = -1;
    // Eight-bit products: the block that makes the copies of its weights and the scales that a step
    // goes on with, before the step's first forward pass, and where these lie within
    // Program::quantized; −1: none.
    std::int32_t quantize = -1;
    std::int64_t quantized_offset = -1;
    bool operator==(const StagePart&) const = default;
};

struct Stage {
    std::int32_t index = 0;
    std::vector<StagePart> parts;
    std::int64_t stash_bytes = 0;
    std::int64_t kept_bytes = 0;
    std::int64_t deferred_bytes = 0;
    bool operator==(const Stage&) const = default;
};

struct Resident {
    std::string name;
    MemoryCategory category = MemoryCategory::activations;
    std::int64_t bytes = 0;
    std::int32_t first_step = 0;       // lives from the start of this step …
    std::int32_t last_step = 0;        // … to the end of this one
    std::int64_t offset = 0;           // in the arena
    std::vector<std::int32_t> reuses;  // residents whose memory it takes over: its first access
                                       // waits for every access of theirs
    Tier tier = Tier::device;
    // A resident may be a view of a slot in which others take turns: it lies at the slot's start.
    // What it then holds is a copy of another tier's resident.
    std::int32_t within = -1;   // the slot; −1: memory of its own
    std::int32_t copy_of = -1;  // the resident that keeps it between uses; −1: it does so itself
    // Copies that take turns from step to step, one after another in `bytes`: step c has the one
    // with number c mod turns, which the step c − turns has left.
    std::int32_t turns = 1;
    bool operator==(const Resident&) const = default;
};

struct Transfer {
    Action action;          // SEND_* or RECV_*
    std::int32_t peer = 0;  // pipeline rank
    std::int64_t bytes = 0;
    std::int32_t resident = -1;  // read or written
    bool operator==(const Transfer&) const = default;
};

// Whether b is the other side of a, which pipeline rank `owner_of_a` holds.
bool same_message(const Transfer& a, std::int32_t owner_of_a, const Transfer& b);

// Whether a pipeline rank counts another among those before it: in a ring of so many ranks, the
// nearer way round goes back. Halfway round the two count each other as after and before, the lower
// one as before. Each pair has one stream at either end, whichever way its messages go.
bool lies_before(std::int32_t rank, std::int32_t peer, std::int64_t ranks);

// A step is one action, or several transfers issued as one exchange.
struct Step {
    Action action;                // compute step; of the first transfer otherwise
    std::int32_t procedure = -1;  // −1: transfers
    std::vector<Transfer> transfers;
    std::int32_t stash = -1;  // resident: the stash of this stage and micro-batch
    std::int32_t input = -1;  // resident handed in from outside the stage: the activation received,
                              // which backward reads again, or the gradient received
    std::int32_t output = -1;      // resident handed out of the stage (to be sent)
    bool after_transfers = false;  // computes nothing until every transfer issued before has ended
    // Residents of this stage and micro-batch, where backward is split: what its part for the
    // weights reads, of the forward pass and of the part for the input.
    std::int32_t kept = -1;
    std::int32_t deferred = -1;
    // Moves: the resident that has the stash on the further tier. What the stage received goes from
    // input to output.
    std::int32_t stored = -1;
    bool operator==(const Step&) const = default;
};

struct Program {
    std::int32_t pipeline_rank = 0;
    std::vector<Stage> stages;  // chunks of this rank, ascending
    std::vector<Bucket> buckets;
    std::vector<Procedure> procedures;
    std::vector<Resident> residents;
    std::vector<Step> steps;
    // Residents with a fixed part: scratch of blocks, GEMM workspace, device scalars, and two
    // frames that the chain between blocks alternates between: backward gradients, each block
    // leaving its output in the frame that its input is not in (one that passes its input through
    // leaves it where it is), and forward activations that no backward block reads (of position n
    // in frame n mod 2).
    std::int32_t scratch = -1;
    std::int32_t workspace = -1;
    std::array<std::int32_t, 2> frames{-1, -1};
    std::int32_t scalars = -1;
    std::int32_t recomputed = -1;  // what a backward action makes again of one group of layers
    std::int32_t quantized = -1;   // eight-bit copies of weights, histories of scales
    // Where the optimizer does not wait for the other stages (plan/passes/post_validation.cpp): the
    // procedure that runs between steps if their statistics say otherwise than it took for granted;
    // −1: none.
    std::int32_t amendment = -1;
    std::vector<std::int32_t> parameter_ring;  // ZeRO-3: gathered parameters, slots in turn; one
                                               // by bucket where they are kept for backward
    std::vector<std::int32_t> gradient_ring;   // ZeRO-2 and 3: gradients on their way to shards
    std::int64_t arena_bytes = 0;              // of device memory
    std::int64_t host_bytes = 0;  // of the arena in host memory, and of the file, for what is
    std::int64_t disk_bytes = 0;  // kept off the device
    bool operator==(const Program&) const = default;
};

// Quantities that must be conserved from the scenario to the plan (DESIGN §7's definitions).
struct Conserved {
    std::int64_t layers = 0;
    std::int64_t parameters = 0;  // unique, unpadded, tied ones once
    std::int64_t tokens_per_step = 0;
    double model_flops_per_step = 0;
    double hardware_flops_per_step = 0;  // of the ops in the plan
    bool operator==(const Conserved&) const = default;
};

// What the rows of activations are, and which random numbers drop them.
struct TokenLayout {
    std::int64_t samples = 1;   // of a micro-batch, of a data-parallel rank
    std::int64_t sequence = 1;  // tokens of a sequence, over all ranks of its context group
    bool zigzag = false;        // each rank has one piece from either end, for equal causal work
    std::int64_t seed = 0;      // of what is dropped
    bool operator==(const TokenLayout&) const = default;
};

struct Plan {
    Mesh mesh;
    TokenLayout tokens;
    std::int32_t micro_batches = 0;
    std::string schedule;
    // Blocks of one exchange op each: of activations and their gradients, and by number of the
    // statistics that are handed on. `…_before`: on the stream of the pipeline rank before; none
    // where all transfers of a rank share one stream.
    std::int32_t exchange_block = 0;
    std::int32_t exchange_before = -1;
    std::vector<std::int32_t> statistics;
    std::vector<std::int32_t> statistics_before;
    std::vector<Block> blocks;
    std::vector<Program> programs;  // by pipeline rank
    Conserved conserved;
    bool operator==(const Plan&) const = default;

    // The block of a transfer step of this program.
    std::int32_t exchange_of(const Program& program, const Step& step) const;

    // Ops are numbered across blocks: first_op[b] + index within the block.
    std::vector<std::uint32_t> first_ops() const;
    const Program& program_of(Rank rank) const {
        return programs[static_cast<std::size_t>(mesh.coordinates(rank).pipeline)];
    }
};

}  // namespace orrery::plan
