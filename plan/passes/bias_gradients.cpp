#include <algorithm>
#include <optional>

#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

bool holds(const std::vector<TensorId>& ids, TensorId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

const Tensor& tensor_of(const Block& block, TensorId id) {
    return block.tensors[static_cast<std::size_t>(id)];
}

// A whole product of 16 or 32 bits that adds to a weight's gradient and does nothing else.
bool may_sum_columns(const Block& block, const Op& op) {
    if (!op.is<Gemm>() || op.parts > 1) return false;
    const Gemm& gemm = op.as<Gemm>();
    return gemm.product == GemmProduct::weight_gradient && !gemm.transposed && gemm.factor == 1 &&
           !is_eight_bit(tensor_of(block, op.reads[0]).dtype) && op.reads.size() == 3 &&
           op.writes.size() == 1;
}

// Whether one op can do at `product` what is done at `bias` now.
bool can_move(const Block& block, std::size_t product, std::size_t bias) {
    const TensorId rows = block.ops[bias].reads[0], sums = block.ops[bias].writes[0];
    const auto [first, last] = std::minmax(product, bias);
    for (std::size_t i = first + 1; i < last; ++i) {
        const Op& between = block.ops[i];
        const bool waits = std::find(between.after.begin(), between.after.end(),
                                     static_cast<std::int32_t>(bias)) != between.after.end();
        if (waits || holds(between.writes, rows) || holds(between.reads, sums) ||
            holds(between.writes, sums))
            return false;
    }
    return true;
}

// The op that sums the columns of the rows that the product at `at` reads.
std::optional<std::size_t> column_sums_beside(const Block& block, std::size_t at) {
    const Op& made = block.ops[at];
    const Gemm& gemm = made.as<Gemm>();
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        const Op& op = block.ops[i];
        if (!op.is<BiasGradient>() || op.reads[0] != made.reads[0]) continue;
        const auto& sums = op.as<BiasGradient>();
        // cuBLASLt writes them in the type of the product's result.
        const bool fits =
            sums.rows == gemm.k && sums.width == gemm.m && op.parts == 1 &&
            op.phase == made.phase && op.after.empty() &&
            tensor_of(block, op.writes[0]).dtype == tensor_of(block, made.writes[0]).dtype;
        if (fits && can_move(block, at, i)) return i;
    }
    return {};
}

}  // namespace

void fuse_bias_gradients(Block& block) {
    for (std::size_t at = 0; at < block.ops.size(); ++at) {
        if (!may_sum_columns(block, block.ops[at])) continue;
        const std::optional<std::size_t> sums = column_sums_beside(block, at);
        if (!sums) continue;
        Op& op = block.ops[at];
        const Gemm gemm = op.as<Gemm>();
        const TensorId gradient = block.ops[*sums].writes[0];
        op.spec = BiasGradientGemm{gemm.m, gemm.n, gemm.k};
        op.reads.push_back(gradient);
        op.writes.push_back(gradient);
        merge_ops(block, at, *sums);
        if (*sums < at) --at;
    }
}

}  // namespace orrery::plan
