#include <algorithm>

#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

constexpr std::int32_t kSlots = 2;  // one part in use, one being prefetched or reduced

std::int64_t whole_elements(const Bucket& bucket) {
    return bucket.padded + bucket.tied_elements;
}

std::int32_t gather_block(ProgramBuilder& builder, const Bucket& bucket) {
    Block block;
    block.name = "gather.bucket";
    block.tensors.push_back(
        {"shard", Role::parameter_shard, builder.dims.dtype, {builder.held(bucket, 3)}});
    block.tensors.push_back(
        {"parameters", Role::parameter, builder.dims.dtype, {whole_elements(bucket)}});
    Op op;
    op.kind = OpKind::all_gather;
    op.group = GroupKind::data;
    op.stream = Stream::data_comm;
    op.dtype = builder.dims.dtype;
    op.shape[0] = whole_elements(bucket);
    op.reads = {0};
    op.writes = {1};
    op.label = "parameters";
    block.ops.push_back(op);
    return builder.blocks.add(std::move(block));
}

}  // namespace

void add_rings(ProgramBuilder& builder) {
    if (builder.zero() < 2) return;
    std::int64_t largest = 0;
    for (const Bucket& bucket : builder.program.buckets)
        largest = std::max(largest, whole_elements(bucket));
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

void insert_gathers(ProgramBuilder& builder, std::vector<BlockUse>& uses) {
    const auto& gradients = builder.program.gradient_ring;
    const auto& parameters = builder.program.parameter_ring;
    std::vector<BlockUse> with_gathers;
    std::vector<std::size_t> compute;  // uses of parts; reductions lie between them
    for (std::size_t i = 0; i < uses.size(); ++i)
        if (uses[i].position >= 0 && uses[i].bucket >= 0) compute.push_back(i);
    std::size_t next = 0;  // next part to gather
    auto gather = [&](std::size_t n) {
        if (n >= compute.size() || parameters.empty()) return;
        const BlockUse& part = uses[compute[n]];
        BlockUse use;
        use.block = gather_block(builder, builder.bucket(part.bucket));
        use.layer = part.layer;
        use.bucket = part.bucket;
        use.gathered = parameters[n % kSlots];
        with_gathers.push_back(use);
    };
    std::size_t part = 0;
    std::size_t slot = 0;
    for (BlockUse use : uses) {
        if (use.position >= 0 && use.bucket >= 0) {
            slot = part % kSlots;
            while (next <= part + 1)
                gather(next++);
            ++part;
            if (!parameters.empty()) use.gathered = parameters[slot];
        }
        if (!gradients.empty() && use.reducing < 0) use.reducing = gradients[slot];
        with_gathers.push_back(use);
    }
    uses = std::move(with_gathers);
}

}  // namespace orrery::plan
