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
#include <string_view>
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

// What the place of a tensor is counted from. A procedure runs in many steps, and each hands it
// memory of its own under the same names, as a call hands over arguments.
enum class Frame : std::uint8_t {
    none,      // the tensor lies in the block's scratch, or nothing touches it
    resident,  // one that is the same in all steps: a bucket's states, a slot of a ring, scalars, …
    stash,     // and those that the step says
    kept,
    deferred,
    received,
    input,
    output,
    stored
};
inline constexpr std::size_t kFrames = 9;
std::string_view name(Frame frame);

// Where one tensor of a use lies: so many bytes from the start of its frame. A slot knows it all,
// as XLA's BufferAllocation::Slice does; nothing is found out again from roles or names.
struct Slot {
    Frame frame = Frame::none;
    std::int32_t resident = -1;  // of Frame::resident
    // Which piece of the frame: accesses of different pieces are not ordered by each other. What
    // parts of a stage keep side by side are such pieces; most frames are one.
    std::int32_t piece = 0;
    std::int64_t offset = 0;
    // The members of this group share out what lies there, each with as many bytes as the tensor
    // has, in the order of their ranks; none: all have the same place.
    GroupKind share = GroupKind::none;
    bool operator==(const Slot&) const = default;
};

// One use of a block within a procedure.
struct BlockUse {
    std::int32_t block = 0;      // index into Plan::blocks
    std::int32_t layer = -1;     // model layer, −1: none
    std::int32_t position = -1;  // part of the stage, −1: none
    std::int32_t bucket = -1;    // bucket whose parameters, gradients and states it touches
    bool fence = false;          // starts after everything issued before it has ended
    std::vector<Slot> slots;     // by tensor of the block
    bool operator==(const BlockUse&) const = default;
};

struct Procedure {
    std::string name;
    std::vector<BlockUse> uses;
    bool operator==(const Procedure&) const = default;
};

// What a rank holds of its parameters from step to step.
enum class StateKind : std::uint8_t {
    parameters,
    gradients,
    first_moments,  // these the optimizer keeps …
    second_moments,
    masters  // … and, beside parameters of fewer bits, what it steps
};
inline constexpr std::size_t kStateKinds = 5;
std::string_view name(StateKind kind);
inline bool is_optimizer_state(StateKind kind) {
    return kind >= StateKind::first_moments;
}

// How much of a state is on one rank (Rajbhandari 2020).
enum class Extent : std::uint8_t {
    whole,     // all elements
    in_place,  // room for all elements, of which it keeps its shard at its place among them
    shard      // its shard alone
};
inline constexpr std::size_t kExtents = 3;
std::string_view name(Extent extent);

struct BucketState {
    StateKind kind = StateKind::parameters;
    Extent extent = Extent::whole;
    DType dtype = DType::fp32;
    std::int64_t offset = 0;  // bytes from the start of its resident
    bool operator==(const BucketState&) const = default;
};

// Elements of a bucket that the members of a group share out: each steps as many, in the order of
// ranks.
struct Share {
    GroupKind group = GroupKind::none;
    std::int64_t elements = 0;  // of all members, with padding
    bool operator==(const Share&) const = default;
};

// Gradients that are reduced, and parameters that are stepped and gathered, together: a contiguous
// range of a stage's parameters. Those that are frozen have buckets of their own, without gradients
// and optimizer states; so have those of experts, which other ranks share.
struct Bucket {
    std::int32_t stage = 0;
    bool frozen = false;
    bool experts = false;  // of experts' parameters, which other ranks hold, too, than the others
    std::int32_t first_position = 0;  // positions (parts of the stage) it covers
    std::int32_t last_position = 0;
    std::int64_t elements = 0;             // local to the rank, before padding
    std::int64_t tied_elements = 0;        // of a parameter that another bucket of this rank holds:
                                           // a second gradient accumulator, added once per step
    std::int64_t replicated_elements = 0;  // held whole by every rank of the tensor group; of these
    std::int64_t partial_elements = 0;     // the first so many, whose gradients are parts of a sum
                                           // over the group without sequence parallelism, too
    std::int64_t expert_elements = 0;  // of frozen ones: of experts, of which others hold others
    // Resident that holds each state, all that the optimizer keeps in one; −1: none.
    std::int32_t parameters = -1;
    std::int32_t gradients = -1;  // the second accumulator of a tied embedding comes last
    std::int32_t optimizer = -1;
    std::vector<Share> shares;  // the elements one after another; empty: every rank steps all
    std::vector<BucketState> states;

    // Whether a part's parameter belongs to it, of the part's two buckets. Those of experts that
    // are frozen lie among the other frozen ones.
    bool takes(const ParameterSpec& parameter) const {
        return parameter.frozen == frozen && (frozen || (parameter.experts > 0) == experts);
    }
    // The ranks that hold the same parameters, without sharding of these.
    GroupKind copies() const { return experts ? GroupKind::expert_data : GroupKind::data; }
    // Those of them that share out states between them, and those that have the same shard.
    GroupKind sharing() const { return experts ? GroupKind::expert_shard : GroupKind::shard; }
    GroupKind replicas() const { return experts ? GroupKind::expert_replica : GroupKind::replica; }
    const BucketState* state(StateKind kind) const;  // nullptr: there is none
    std::vector<BucketState> optimizer_states() const;
    std::int32_t resident(StateKind kind) const;
    std::int64_t padded() const;  // elements, with what makes them divide among the ranks
    // Elements that a rank steps, and how many a rank has of a state.
    std::int64_t stepped(const Mesh& mesh) const;
    std::int64_t room(StateKind kind, const Mesh& mesh) const;
    // The first of them, for the rank that is member `number` of the group that shares them out.
    std::int64_t first_stepped(const Mesh& mesh, std::int64_t number) const;
    bool operator==(const Bucket&) const = default;
};

bool of_one_type(const std::vector<BucketState>& states);

// The blocks of a stage in forward order; index = position.
struct StagePart {
    std::int32_t forward = 0;   // block
    std::int32_t backward = 0;  // block
    std::int32_t layer = -1;
    std::int32_t bucket = -1;
    // The bucket of its frozen parameters, or of its experts', where it has others, too, which are
    // in `bucket`; −1: none, and all are in that one.
    std::int32_t other_bucket = -1;
    // Of a group of layers that keeps only its first one's input: the block that backward runs
    // again for each but the last, in order, before the group's first backward block; −1: none.
    std::int32_t recompute = -1;
    // Where backward is split in two: the block that is for the input (−1: it is `backward`, and
    // there is no whole one), and the one that is for the weights (−1: nothing can wait for it).
    std::int32_t backward_input = -1;
    std::int32_t backward_weight = -1;
    // Eight-bit products: the block that makes the copies of its weights and the scales that a step
    // goes on with, before the step's first forward pass; −1: none.
    std::int32_t quantize = -1;
    bool operator==(const StagePart&) const = default;
};

struct Stage {
    std::int32_t index = 0;
    std::vector<StagePart> parts;
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
    std::int32_t resident = -1;         // read or written: from its start, or
    GroupKind share = GroupKind::none;  // this rank's share of it, as in Slot
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
    std::int32_t stash = -1;   // resident: the stash of this stage and micro-batch
    std::int32_t input = -1;   // resident handed in from outside the stage: the activation or the
                               // gradient received
    std::int32_t output = -1;  // resident handed out of the stage (to be sent)
    bool after_transfers = false;  // computes nothing until every transfer issued before has ended
    // A backward step that is issued in turns with the forward step before it: to an exchange of
    // experts' rows each, so that the one computes while the other's rows are on their way. What
    // either touches is there for both, and the scratch of its blocks is `beside_scratch`.
    bool beside_last = false;
    // Residents of this stage and micro-batch, where backward is split: what its part for the
    // weights reads, of the forward pass and of the part for the input.
    std::int32_t kept = -1;
    std::int32_t deferred = -1;
    std::int32_t received = -1;  // backward: what the stage's forward action had as its input
    // Moves: the resident that has the stash on the further tier. What the stage received goes from
    // input to output.
    std::int32_t stored = -1;

    // The resident that a frame is in this step, −1: none.
    std::int32_t resident(Frame frame) const {
        switch (frame) {
            case Frame::stash:
                return stash;
            case Frame::kept:
                return kept;
            case Frame::deferred:
                return deferred;
            case Frame::received:
                return received;
            case Frame::input:
                return input;
            case Frame::output:
                return output;
            case Frame::stored:
                return stored;
            case Frame::none:
            case Frame::resident:
                break;
        }
        return -1;
    }
    std::int32_t resident(const Slot& slot) const {
        return slot.frame == Frame::resident ? slot.resident : resident(slot.frame);
    }
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
    // Where steps are issued in turns: scratch of those beside another, and the frames of forward
    // activations, which are not those of gradients then; −1: none are.
    std::int32_t beside_scratch = -1;
    std::array<std::int32_t, 2> beside_frames{-1, -1};
    std::int32_t scalars = -1;
    std::int32_t recomputed = -1;  // what a backward action makes again of one group of layers
    std::int32_t quantized = -1;   // eight-bit copies of weights, histories of scales
    // Where the optimizer does not wait for the other stages (plan/passes/post_validation.cpp): the
    // procedure that runs between steps if their statistics say otherwise than it took for granted;
    // −1: none.
    std::int32_t amendment = -1;
    std::vector<std::int32_t> parameter_ring;  // ZeRO-3: gathered parameters, slots in turn, and
                                               // behind them as many for other buckets of parts,
                                               // if any; one by bucket where they are kept for
                                               // backward
    std::vector<std::int32_t> gradient_ring;   // ZeRO-2 and 3: gradients on their way to shards
    std::int64_t arena_bytes = 0;              // of device memory
    std::int64_t host_bytes = 0;  // of the arena in host memory, and of the file, for what is
    std::int64_t disk_bytes = 0;  // kept off the device
    bool operator==(const Program&) const = default;
};

// Quantities that must be conserved from the scenario to the plan (docs/simulate-json.md).
struct Conserved {
    std::int64_t layers = 0;
    std::int64_t parameters = 0;  // unique, unpadded, tied ones once, frozen ones, too
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
