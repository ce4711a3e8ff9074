// What the passes work on while a plan is built: the plan's blocks, shared, and the program of one
// pipeline rank with its stages, buckets and procedures. build_plan runs the passes in order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/blocks/backward.hpp"
#include "plan/blocks/dims.hpp"
#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"
#include "plan/schedule/placement.hpp"

namespace orrery::plan {

class ChosenPasses;  // plan/passes/pass_table.hpp

// The blocks of a plan, each kept once.
class BlockLibrary {
  public:
    BlockLibrary() = default;
    // Of blocks that another library has had, from its first one on.
    explicit BlockLibrary(std::vector<Block> blocks) : blocks_(std::move(blocks)) {}
    // Plans its scratch and returns its index; an equal block is not added twice.
    std::int32_t add(Block block);
    const Block& block(std::int32_t index) const {
        return blocks_[static_cast<std::size_t>(index)];
    }
    const std::vector<Block>& blocks() const { return blocks_; }
    std::vector<Block> take() { return std::move(blocks_); }

  private:
    std::vector<Block> blocks_;
};

// A kind of part (embedding, layer, head) with both its blocks.
struct PartKind {
    std::int32_t forward = -1;
    std::int32_t backward = -1;
    std::int64_t stash_bytes = 0;
    std::int64_t input_bytes = 0;  // of the stash: the activation handed in, which comes first
    std::int64_t parameters = 0;   // elements, local to the rank …
    std::int64_t eight_bit = 0;    // … of which so many are held in eight bits
    std::int64_t replicated = 0;
    std::int64_t partial = 0;
    std::int64_t frozen = 0;  // beside them
    std::int64_t frozen_replicated = 0;
    std::int64_t frozen_experts = 0;
    std::int64_t experts = 0;            // beside them, too: of experts, on this rank …
    std::int64_t eight_bit_experts = 0;  // … of which so many are held in eight bits
    std::int32_t recompute = -1;         // block that backward runs first, −1: none
    std::int64_t recomputed_bytes = -1;  // what it makes or receives again, −1: nothing
    std::int32_t backward_input = -1;    // StagePart says what these are
    std::int32_t backward_weight = -1;
    std::int64_t kept_bytes = 0;
    std::int64_t deferred_bytes = 0;
    std::int64_t handed_bytes =
        0;                       // of what is deferred: the gradient handed in, which comes first
    std::int32_t quantize = -1;  // StagePart says what it is
    std::int64_t quantized_bytes = 0;
    bool tied = false;         // its parameter is the tied embedding
    bool held_before = false;  // … which an earlier part of the same rank holds
};

// Which blocks of backward a schedule has use for.
struct PartForms {
    bool whole = true;   // of a full backward pass
    bool split = false;  // of one in two: for the input, for the weights
};

// Bytes from where its tensors lie to the start of the stage's, or of the program's, of their kind:
// of what a part keeps for backward, of what is made again, and of its eight-bit copies. −1: none.
struct PartAreas {
    std::int64_t stash = 0;
    std::int64_t kept = -1;
    std::int64_t deferred = -1;
    std::int64_t recomputed = -1;
    std::int64_t quantized = -1;
    // The first part of a later stage has the activation that the stage received elsewhere: its
    // stash lacks that tensor, which comes first in a block's area, and the others move down by its
    // size. So do those deferred of the last part of an earlier stage, by the gradient received.
    std::int64_t received_bytes = 0;
    std::int64_t handed_bytes = 0;
};
struct StageAreas {
    std::vector<PartAreas> parts;  // by position
    std::int64_t stash_bytes = 0;
    std::int64_t kept_bytes = 0;
    std::int64_t deferred_bytes = 0;
};

// A device scalar that is summed over stages from rank to rank, and the residents that have the sum
// up to this rank (later of all) and the one that the rank before has handed on (−1: there is
// none).
struct Statistic {
    Tensor scalar;
    std::int32_t sum = -1;
    std::int32_t handed = -1;
};

// Which states the ranks of a data group share out: from ZeRO-1 on what the optimizer keeps, from
// ZeRO-2 on gradients, and under ZeRO-3 parameters too. This alone reads layout.zero_stage.
struct Sharding {
    bool optimizer = false;
    bool gradients = false;
    bool parameters = false;
};
Sharding sharding_of(const Scenario& scenario);

// What parts sum gradients in, where buckets copy them before they are reduced: what they compute
// in, unless a part has gradients that are not copied.
DType made_gradient_dtype(const Scenario& scenario, const Dims& dims, Sharding sharding,
                          Sharding of_experts);

// Slots that what is sharded passes through, in turn, and behind them as many for the other buckets
// of parts, if any. Where nothing is copied between, gathered is parameters and reduced gradients.
struct ShardRings {
    std::vector<std::int32_t> gathered, parameters, gradients, reduced;
};

// What the slots of a plan say: where in its frame each tensor lies, too, or only in which frame
// and which piece of it, which is all that an order of ops and a price need.
enum class Slots : std::uint8_t { with_offsets, without_offsets };

struct ProgramBuilder {
    const Scenario& scenario;
    const Dims& dims;
    const Mesh& mesh;
    const StagePlacement& placement;  // of the stages on pipeline ranks
    BlockLibrary& blocks;
    const ChosenPasses& passes;
    Sharding sharding;
    Slots slots;
    Program program;
    std::vector<std::vector<PartKind>> part_kinds;  // by chunk, by position
    std::vector<StageAreas> areas;                  // by chunk
    std::int64_t recomputed_bytes = 0;    // of the largest group of layers, made again in backward
    std::int64_t quantized_bytes = 0;     // of all parts
    std::vector<std::int64_t> eight_bit;  // parameters by bucket that are held in eight bits
    std::vector<Statistic> statistics;    // of gradients, where steps are validated later
    ShardRings rings = {};

    bool holds(std::int32_t stage) const {
        return placement.rank_of(stage) == program.pipeline_rank;
    }
    // The ranks that reduce gradients together and share out states between them; where these are
    // not all of a data group, reductions go on over the replicas of a shard.
    GroupKind shard_group(const Bucket& bucket) const {
        return hybrid() ? bucket.sharing() : bucket.copies();
    }
    std::int64_t shards(const Bucket& bucket) const { return mesh.group_size(shard_group(bucket)); }
    // What the ranks that hold a bucket share out of it: nothing where that is one.
    Sharding sharding_of(const Bucket& bucket) const {
        return shards(bucket) > 1 ? sharding : Sharding{};
    }
    bool hybrid() const { return mesh.shard > 0; }
    // Whether gathered parameters stay from forward to backward.
    bool keeps_gathered() const {
        return sharding.parameters && !scenario.layout.reshard_after_forward;
    }
    DType gradient_dtype() const { return dims.gradient_dtype; }
    DType made_gradient_dtype() const {
        const bool shared = mesh.group_size(GroupKind::expert_shard) > 1;
        return plan::made_gradient_dtype(scenario, dims, sharding, shared ? sharding : Sharding{});
    }
    ShardedBuffers buffers() const { return scenario.training.framework.sharded_buffers; }
    // Whether what is gathered is copied to where parts read it.
    bool copies_gathered() const {
        return sharding.parameters &&
               (buffers() == ShardedBuffers::copied || buffers() == ShardedBuffers::bucketed);
    }
    // Whether a bucket's gradients are copied to where they are reduced; those that are summed by
    // source are by that sum.
    bool copies_gradients(const Bucket& bucket) const {
        return sharding_of(bucket).gradients && buffers() != ShardedBuffers::in_place &&
               sources(bucket) == 1;
    }
    // Of these copies: beside compute, where gathers and reductions run.
    Stream copying_stream() const {
        return buffers() == ShardedBuffers::bucketed && sharding.parameters ? Stream::data_comm
                                                                            : Stream::compute;
    }
    // Steps under way have each a copy of what they read and sum (layout.staleness).
    std::int32_t turns() const { return static_cast<std::int32_t>(scenario.layout.staleness) + 1; }
    // Where states are stepped: beside compute, where that does not wait for it. The compute stream
    // is in order: on it a server would serve others no sooner than its own rank gets there.
    Stream optimizer_stream() const { return turns() > 1 ? Stream::server : Stream::compute; }
    std::int64_t padded(const Bucket& bucket, std::int64_t elements) const {
        const std::int64_t shards = this->shards(bucket);
        return (elements + shards - 1) / shards * shards;
    }
    // Elements that a rank has of a bucket's gradients, its second accumulator of a tied embedding
    // left out, and of that one.
    std::int64_t gradients_held(const Bucket& bucket) const {
        return bucket.room(StateKind::gradients, mesh);
    }
    // Ranks whose rows' shares of a bucket's gradients are kept apart, behind what is reduced; 1:
    // all are summed as they come. And at which element they begin.
    std::int64_t sources(const Bucket& bucket) const {
        return bucket.experts && !bucket.frozen ? scenario.layout.gradient_sources() : 1;
    }
    std::int64_t first_source(const Bucket& bucket) const {
        return sharding_of(bucket).gradients ? whole(bucket) : gradients_held(bucket);
    }
    std::int64_t source_elements(const Bucket& bucket) const {
        return sources(bucket) > 1 ? sources(bucket) * bucket.elements : 0;
    }
    std::int64_t tied_held(const Bucket& bucket) const {
        return sharding_of(bucket).gradients ? padded(bucket, bucket.tied_elements) / shards(bucket)
                                             : bucket.tied_elements;
    }
    // What ZeRO-2 and 3 gather and reduce of a bucket, over all shards.
    std::int64_t whole(const Bucket& bucket) const {
        return bucket.padded() + padded(bucket, bucket.tied_elements);
    }
    Bucket& bucket(std::int32_t index) { return program.buckets[static_cast<std::size_t>(index)]; }
    const Bucket& bucket(std::int32_t index) const {
        return program.buckets[static_cast<std::size_t>(index)];
    }
    // The bucket of a parameter of a part, or of its gradient: one of the part's two.
    std::int32_t bucket_of(const BlockUse& use, const Tensor& tensor) const;
    // The other bucket of a use's part; −1: none.
    std::int32_t other_bucket(const BlockUse& use) const;
    std::size_t chunk(std::int32_t stage_index) const;  // of a stage of this rank
    // Of the embedding's table, of a rank that has any of it.
    std::int32_t embedding_bucket() const {
        const std::int32_t stage = placement.embedding_of(program.pipeline_rank);
        return program.stages[chunk(stage)].parts.front().bucket;
    }
    const StageAreas& areas_of(std::int32_t stage_index) const { return areas[chunk(stage_index)]; }

    // Says that the tensors of this role lie in a resident that the use's bucket does not name: a
    // slot of a ring, the other side of a copy.
    void place(BlockUse& use, Role role, std::int32_t resident) const;
    // Says it of those of a part that are in this bucket.
    void place_of_bucket(BlockUse& use, Role role, std::int32_t of, std::int32_t resident) const;
    // The resident of a parameter, a gradient or a state of the use's bucket; −1: it is none.
    std::int32_t state_of(const BlockUse& use, TensorId tensor) const;

    std::int32_t add_resident(std::string name, MemoryCategory category, std::int64_t bytes);
    // `bytes` of it for each of the steps under way.
    std::int32_t add_in_turns(std::string name, MemoryCategory category, std::int64_t bytes);
    std::int32_t add_procedure(std::string name, std::vector<BlockUse> uses);
    // Appends a step of rank-wide work.
    void add_step(ActionKind kind, std::int32_t stage, std::int32_t procedure);
};

}  // namespace orrery::plan
