#include "runtime/cuda/column_sums.cuh"
#include "runtime/cuda/launches.hpp"

namespace orrery::runtime::cuda {
namespace {

__global__ void __launch_bounds__(kSumThreads)
    bias_gradient_kernel(BiasGradient op, RowParts parts) {
    sum_columns(
        op.rows, op.width, op.dbias, op.accumulate,
        [&](std::int64_t row, std::int64_t c) { return load(op.dy, row * op.width + c); }, parts);
}

__global__ void add_parts_kernel(RowParts parts, std::int64_t width, Buffer to, bool accumulate) {
    for (std::int64_t column = first_of_thread(); column < width; column += threads_of_grid()) {
        float sum = 0;
        for (std::int64_t part = 0; part < parts.count; ++part)
            sum += parts.sums[part * width + column];
        store(to, column, accumulate ? load(to, column) + sum : sum);
    }
}

}  // namespace

void add_parts(const RowParts& parts, std::int64_t width, const Buffer& to, bool accumulate,
               cudaStream_t stream) {
    if (parts.sums != nullptr)
        launch("sums of parts", add_parts_kernel, {blocks_of_threads(width)}, stream, parts, width,
               to, accumulate);
}

void bias_gradient(const BiasGradient& op, ScratchMemory& scratch, cudaStream_t stream) {
    check_types({op.dy, op.dbias});
    const RowParts parts = row_parts(op.rows, op.width, scratch);
    launch("bias_gradient", bias_gradient_kernel, column_grid(op.width, parts), stream, op, parts);
    add_parts(parts, op.width, op.dbias, op.accumulate, stream);
}

}  // namespace orrery::runtime::cuda
