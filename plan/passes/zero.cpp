#include <algorithm>
#include <iterator>

#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

constexpr std::int32_t kSlots = 2;  // one part in use, one being prefetched or reduced

std::int32_t gather_block(ProgramBuilder& builder, const Bucket& bucket, Phase phase) {
    Block block;
    block.name = "gather.bucket";
    block.tensors.push_back({"shard",
                             Role::parameter_shard,
                             builder.dims.dtype,
                             {builder.whole(bucket) / builder.shards()}});
    block.tensors.push_back(
        {"parameters", Role::parameter, builder.dims.dtype, {builder.whole(bucket)}});
    block.ops.push_back(collective_op(block, OpKind::all_gather, phase, Stream::data_comm,
                                      GroupKind::data, builder.whole(bucket), "parameters", 0, 1));
    return builder.blocks.add(std::move(block));
}

}  // namespace

void add_rings(ProgramBuilder& builder) {
    if (builder.zero() < 2) return;
    std::int64_t largest = 0;
    for (const Bucket& bucket : builder.program.buckets)
        largest = std::max(largest, builder.whole(bucket));
    const std::int64_t gradient_bytes = size_bytes(builder.gradient_dtype());
    for (std::int32_t slot = 0; slot < kSlots; ++slot) {
        const std::string suffix = " ring " + std::to_string(slot);
        builder.program.gradient_ring.push_back(builder.add_resident(
            "gradient" + suffix, MemoryCategory::communication, largest * gradient_bytes));
        if (builder.zero() < 3) continue;
        builder.program.parameter_ring.push_back(
            builder.add_resident("parameter" + suffix, MemoryCategory::communication,
                                 largest * size_bytes(builder.dims.dtype)));
    }
}

void insert_rings(ProgramBuilder& builder, std::vector<BlockUse>& uses, Phase phase) {
    const auto& gradients = builder.program.gradient_ring;
    const auto& parameters = builder.program.parameter_ring;
    if (gradients.empty()) return;
    auto is_part = [](const BlockUse& use) { return use.position >= 0 && use.bucket >= 0; };
    std::vector<BlockUse> parts;
    std::copy_if(uses.begin(), uses.end(), std::back_inserter(parts), is_part);
    std::vector<BlockUse> with_rings;
    auto gather = [&](std::size_t n) {
        if (n >= parts.size() || parameters.empty()) return;
        BlockUse use;
        use.block = gather_block(builder, builder.bucket(parts[n].bucket), phase);
        use.layer = parts[n].layer;
        use.bucket = parts[n].bucket;
        use.gathered = parameters[n % kSlots];
        with_rings.push_back(use);
    };
    std::size_t part = 0;
    std::size_t gathered = 0;
    std::size_t slot = 0;
    for (BlockUse use : uses) {
        if (is_part(use)) {
            slot = part % kSlots;
            while (gathered <= part + 1)
                gather(gathered++);
            ++part;
            if (!parameters.empty()) use.gathered = parameters[slot];
        }
        const bool touches_gradients = phase == Phase::backward && use.bucket >= 0;
        if (touches_gradients && use.reducing < 0) use.reducing = gradients[slot];
        with_rings.push_back(use);
    }
    uses = std::move(with_rings);
}

}  // namespace orrery::plan
