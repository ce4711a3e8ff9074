#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

// What stands between the two may copy the sum: a stash that waits in fewer bits.
bool copies_alone(const Op& op, TensorId sum) {
    return op.is<Cast>() && op.reads.front() == sum;
}

// The norm that reads the sum of the addition at `add` at once; the number of ops: none does.
std::size_t norm_of_sum(const Block& block, std::size_t add) {
    const Op& made = block.ops[add];
    const auto& sum = made.as<ResidualAdd>();
    // A table of positions may stand in the residual's place.
    const auto residual = static_cast<std::size_t>(made.reads[1]);
    if (block.tensors[residual].role == Role::parameter) return block.ops.size();
    std::size_t next = add + 1;
    while (next < block.ops.size() && copies_alone(block.ops[next], made.writes[0]))
        ++next;
    if (next == block.ops.size() || !block.ops[next].is<Normalize>()) return block.ops.size();
    const Op& op = block.ops[next];
    const auto& norm = op.as<Normalize>();
    const bool fits = op.reads[0] == made.writes[0] && op.phase == made.phase &&
                      norm.rows == sum.rows && norm.width == sum.width;
    return fits ? next : block.ops.size();
}

Op fused(const Op& add, const Op& norm) {
    const auto& sum = add.as<ResidualAdd>();
    const auto& normed = norm.as<Normalize>();
    Op op = norm;
    op.spec = ResidualNormalize{sum.rows,       sum.width,      sum.drop,
                                normed.centred, normed.epsilon, normed.weight_offset};
    op.reads = {add.reads[0], add.reads[1]};
    op.reads.insert(op.reads.end(), norm.reads.begin() + 1, norm.reads.end());
    op.reads.insert(op.reads.end(), add.reads.begin() + 2, add.reads.end());
    op.writes = {add.writes[0]};
    op.writes.insert(op.writes.end(), norm.writes.begin(), norm.writes.end());
    op.writes.insert(op.writes.end(), add.writes.begin() + 1, add.writes.end());
    op.after = add.after;
    return op;
}

}  // namespace

void fuse_norms(Block& block) {
    for (std::size_t add = 0; add < block.ops.size(); ++add) {
        if (!block.ops[add].is<ResidualAdd>()) continue;
        const std::size_t norm = norm_of_sum(block, add);
        if (norm == block.ops.size()) continue;
        block.ops[add] = fused(block.ops[add], block.ops[norm]);
        merge_ops(block, add, norm);
    }
}

}  // namespace orrery::plan
