#include <set>
#include <utility>

#include "plan/passes/passes.hpp"

namespace orrery::plan {

bool gathers_whole(const ProgramBuilder& builder) {
    return builder.zero() == 1 || builder.zero() == 2;
}

BlockUse gather_use(ProgramBuilder& builder, std::int32_t index) {
    const std::int64_t elements = builder.bucket(index).padded;
    Block block;
    block.name = "gather.bucket";
    block.tensors.push_back({"shard", Role::parameter_shard, builder.dims.dtype, {elements}});
    block.ops.push_back(collective_op(block, OpKind::all_gather, Phase::optimizer,
                                      Stream::data_comm, builder.shard_group(), elements,
                                      "parameters", 0, 0));
    BlockUse use;
    use.block = builder.blocks.add(std::move(block));
    use.bucket = index;
    return use;
}

void insert_first_gathers(ProgramBuilder& builder, std::vector<BlockUse>& uses) {
    std::vector<BlockUse> gathered;
    std::set<std::int32_t> seen;
    for (const BlockUse& use : uses) {
        const bool first = use.position >= 0 && use.bucket >= 0 && seen.insert(use.bucket).second;
        if (first && builder.bucket(use.bucket).elements > 0)
            gathered.push_back(gather_use(builder, use.bucket));
        gathered.push_back(use);
    }
    uses = std::move(gathered);
}

}  // namespace orrery::plan
