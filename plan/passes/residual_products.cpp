#include <algorithm>
#include <optional>

#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

bool is_among(const std::vector<TensorId>& ids, TensorId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

const Tensor& tensor_at(const Block& block, TensorId id) {
    return block.tensors[static_cast<std::size_t>(id)];
}

// A whole product of 16 or 32 bits whose result is nobody's but the next op's.
bool may_add(const Block& block, const Op& op) {
    if (!op.is<Gemm>() || op.parts > 1 || op.writes.size() != 1) return false;
    const Gemm& gemm = op.as<Gemm>();
    return gemm.product == GemmProduct::forward && !gemm.transposed &&
           !is_eight_bit(tensor_at(block, op.reads[0]).dtype) &&
           !is_among(op.reads, op.writes[0]) &&
           tensor_at(block, op.writes[0]).role == Role::scratch && op.writes[0] != block.output;
}

// The only op behind `at` that reads or writes what the one there makes.
std::optional<std::size_t> only_reader(const Block& block, std::size_t at) {
    const TensorId made = block.ops[at].writes[0];
    std::optional<std::size_t> found;
    for (std::size_t i = at + 1; i < block.ops.size(); ++i) {
        const Op& op = block.ops[i];
        if (!is_among(op.reads, made) && !is_among(op.writes, made)) continue;
        if (found) return {};
        found = i;
    }
    return found;
}

// One bias at most, nothing dropped, all of one type; a table of positions may stand in the
// residual's place.
bool is_plain_sum(const Block& block, const Op& product, const Op& op) {
    const TensorId made = product.writes[0];
    if (!op.is<ResidualAdd>() || op.reads[0] != made || op.reads[1] == made) return false;
    const auto& sum = op.as<ResidualAdd>();
    const Gemm& gemm = product.as<Gemm>();
    const DType dtype = tensor_at(block, op.reads[0]).dtype;
    const bool of_one_type = std::all_of(op.reads.begin(), op.reads.end(), [&](TensorId id) {
        return tensor_at(block, id).dtype == dtype;
    });
    return sum.rows == gemm.m && sum.width == gemm.n && sum.drop.rate == 0 && op.parts == 1 &&
           op.phase == product.phase && op.after.empty() && op.writes.size() == 1 &&
           product.reads.size() + op.reads.size() <= 5 && of_one_type &&
           tensor_at(block, op.writes[0]).dtype == dtype &&
           tensor_at(block, op.reads[1]).role != Role::parameter;
}

// Whether the residual is there where the product is, and the sum is not asked for before it is.
bool can_stand_before(const Block& block, std::size_t product, std::size_t add) {
    const TensorId residual = block.ops[add].reads[1], sum = block.ops[add].writes[0];
    for (std::size_t i = product + 1; i < add; ++i) {
        const Op& between = block.ops[i];
        if (is_among(between.writes, residual) || is_among(between.reads, sum) ||
            is_among(between.writes, sum))
            return false;
    }
    return true;
}

}  // namespace

void fuse_residuals(Block& block) {
    std::vector<bool> kept(block.tensors.size(), true);
    for (std::size_t at = 0; at < block.ops.size(); ++at) {
        Op& op = block.ops[at];
        if (!may_add(block, op)) continue;
        const std::optional<std::size_t> add = only_reader(block, at);
        if (!add || !is_plain_sum(block, op, block.ops[*add]) || !can_stand_before(block, at, *add))
            continue;
        const Op& sum = block.ops[*add];
        const Gemm gemm = op.as<Gemm>();
        kept[static_cast<std::size_t>(op.writes[0])] = false;
        op.spec = ResidualGemm{gemm.m, gemm.n, gemm.k, gemm.factor};
        op.reads.insert(op.reads.begin() + 2, sum.reads[1]);
        op.reads.insert(op.reads.end(), sum.reads.begin() + 2, sum.reads.end());
        op.writes = {sum.writes[0]};
        merge_ops(block, at, *add);
    }
    keep_tensors(block, kept);
}

}  // namespace orrery::plan
