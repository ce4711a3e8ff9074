#include <set>
#include <utility>

#include "plan/passes/pass_table.hpp"

namespace orrery::plan {

bool gathers_whole(const ProgramBuilder& builder, const Bucket& bucket) {
    const Sharding sharding = builder.sharding_of(bucket);
    return sharding.optimizer && !sharding.parameters;
}

BlockUse gather_use(ProgramBuilder& builder, std::int32_t index) {
    const std::int64_t shards = builder.shards(builder.bucket(index));
    // Whole shares of what is held in eight bits; the rest with the others.
    const std::int64_t narrow = builder.eight_bit.at(static_cast<std::size_t>(index)) / shards;
    const std::int64_t elements = builder.bucket(index).padded() - narrow * shards;
    Block block;
    block.name = "gather.bucket";
    const auto gather = [&](std::int64_t count, const char* label, TensorId from, TensorId to) {
        block.ops.push_back(
            collective_op(block, OpKind::all_gather, Phase::optimizer, Stream::data_comm,
                          builder.shard_group(builder.bucket(index)), count, label, from, to));
    };
    if (elements > 0) {
        block.tensors.push_back({"shard", Role::parameter_shard, builder.dims.dtype, {elements}});
        gather(elements, "parameters", 0, 0);
    }
    if (narrow > 0) {
        const auto from = static_cast<TensorId>(block.tensors.size());
        const bool wide = builder.dims.fp8.casts_gathered();
        const DType dtype = wide ? builder.dims.dtype : DType::fp8_e4m3;
        const std::int64_t held = wide ? narrow : narrow * shards;
        block.tensors.push_back({"eight-bit shard", Role::parameter_shard, dtype, {held}});
        if (wide) block.tensors.push_back({"gathered", Role::gradient, dtype, {narrow * shards}});
        gather(narrow * shards, "eight-bit parameters", from, wide ? from + 1 : from);
    }
    BlockUse use;
    use.block = builder.blocks.add(std::move(block));
    use.bucket = index;
    return use;
}

void insert_first_gathers(ProgramBuilder& builder, ActionUses& action) {
    if (!action.first) return;
    std::vector<BlockUse> gathered;
    std::set<std::int32_t> seen;
    for (const BlockUse& use : action.uses) {
        for (const std::int32_t bucket : {use.bucket, builder.other_bucket(use)}) {
            const bool first = use.position >= 0 && bucket >= 0 && seen.insert(bucket).second;
            if (first && !builder.bucket(bucket).frozen && builder.bucket(bucket).elements > 0 &&
                gathers_whole(builder, builder.bucket(bucket)))
                gathered.push_back(gather_use(builder, bucket));
        }
        gathered.push_back(use);
    }
    action.uses = std::move(gathered);
}

}  // namespace orrery::plan
