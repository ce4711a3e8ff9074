#include "runtime/cuda/column_sums.cuh"
#include "runtime/cuda/launches.hpp"

namespace orrery::runtime::cuda {
namespace {

template <int kAtOnce>
__global__ void __launch_bounds__(kSumThreads<kAtOnce>)
    bias_gradient_kernel(BiasGradient op, RowParts parts) {
    sum_columns<kAtOnce>(
        op.rows, op.width, parts,
        [&](std::int64_t row, std::int64_t first) {
            return load_at_once<kAtOnce>(op.dy, row * op.width + first);
        },
        ToColumn{op.dbias, op.accumulate});
}

// Sums of parts stand as rows do: [parts, those of each destination in turn].
__global__ void __launch_bounds__(kSumThreads<1>)
    add_parts_kernel(RowParts parts, std::int64_t width, ToColumn to, ToColumn second) {
    const std::int64_t all = second.to ? 2 * width : width;
    sum_columns<1>(
        parts.count, all, {},
        [&](std::int64_t part, std::int64_t column) {
            return Elements<1>{parts.sums[part * all + column]};
        },
        [&](std::int64_t column, float sum) {
            column < width ? to(column, sum) : second(column - width, sum);
        });
}

}  // namespace

void add_parts(const RowParts& parts, std::int64_t width, const ToColumn& to,
               const ToColumn& second, cudaStream_t stream) {
    if (parts.sums != nullptr)
        launch("sums of parts", add_parts_kernel, column_grid<1>(second.to ? 2 * width : width),
               stream, parts, width, to, second);
}

void bias_gradient(const BiasGradient& op, ScratchMemory& scratch, cudaStream_t stream) {
    check_types({op.dy, op.dbias});
    const RowParts parts = row_parts(op.rows, op.width, scratch);
    with_at_once(op.width, {op.dy}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("bias_gradient", bias_gradient_kernel<kAtOnce>,
               column_grid<kAtOnce>(op.width, parts), stream, op, parts);
    });
    add_parts(parts, op.width, {op.dbias, op.accumulate}, {}, stream);
}

}  // namespace orrery::runtime::cuda
