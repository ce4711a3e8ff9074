// residual_add: a block per row.
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/residual_row.cuh"

namespace orrery::runtime::cuda {
namespace {

template <int kAtOnce>
__global__ void residual_add_kernel(ResidualAdd op) {
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x)
        add_residual_row<kAtOnce>(op, row);
}

}  // namespace

void residual_add(const ResidualAdd& op, cudaStream_t stream) {
    check_types({op.branch, op.x, op.positions, op.biases[0], op.biases[1], op.y});
    with_at_once(op.width, {op.branch, op.biases[0], op.biases[1], op.positions, op.x, op.y},
                 [&](auto at_once) {
                     constexpr int kAtOnce = decltype(at_once)::value;
                     launch("residual_add", residual_add_kernel<kAtOnce>,
                            rows_grid<kAtOnce>(op.rows, op.width), stream, op);
                 });
}

}  // namespace orrery::runtime::cuda
