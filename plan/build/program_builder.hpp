// What the passes work on while a plan is built: the plan's blocks, shared, and the program of one
// pipeline rank with its stages, buckets and procedures. build_plan runs the passes in order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/build/backward.hpp"
#include "plan/build/dims.hpp"
#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

// The blocks of a plan, each kept once.
class BlockLibrary {
  public:
    // Plans its scratch and returns its index; an equal block is not added twice.
    std::int32_t add(Block block);
    const Block& block(std::int32_t index) const {
        return blocks_[static_cast<std::size_t>(index)];
    }
    std::vector<Block> take() { return std::move(blocks_); }

  private:
    std::vector<Block> blocks_;
};

// A kind of part (embedding, layer, head) with both its blocks.
struct PartKind {
    std::int32_t forward = -1;
    std::int32_t backward = -1;
    std::int64_t stash_bytes = 0;
    std::int64_t parameters = 0;  // elements, local to the rank
    std::int64_t tied = 0;        // of these: held by another part of the same rank
    std::int64_t replicated = 0;
};

struct ProgramBuilder {
    const Scenario& scenario;
    const Dims& dims;
    const Mesh& mesh;
    BlockLibrary& blocks;
    Program program;
    std::vector<std::vector<PartKind>> part_kinds;  // by chunk, by position

    // Sharding stage; a data group of one rank has nothing to shard.
    int zero() const { return shards() > 1 ? scenario.layout.zero_stage : 0; }
    std::int64_t shards() const { return mesh.group_size(GroupKind::data); }
    DType gradient_dtype() const {
        return scenario.training.framework.gradient_bytes == 4 ? DType::fp32 : DType::bf16;
    }
    // Elements of a bucket's state on this rank, for ZeRO stages from `from` on sharded.
    std::int64_t held(const Bucket& bucket, int from) const {
        return zero() >= from ? bucket.padded / shards() : bucket.elements;
    }
    Bucket& bucket(std::int32_t index) { return program.buckets[static_cast<std::size_t>(index)]; }

    std::int32_t add_resident(std::string name, MemoryCategory category, std::int64_t bytes);
    std::int32_t add_procedure(std::string name, std::vector<BlockUse> uses);
    // Appends a step of rank-wide work.
    void add_step(ActionKind kind, std::int32_t stage, std::int32_t procedure);
};

}  // namespace orrery::plan
