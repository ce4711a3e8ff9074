// activation and activation_backward: a block per row.
#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/activation_rules.hpp"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {
namespace {

__global__ void activation_kernel(Activation op) {
    const bool gated = is_gated(op.form);
    const auto limit = static_cast<float>(op.limit);
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const bool apart = op.up.data != nullptr;
        const std::int64_t from = row * (gated && !apart ? 2 * op.width : op.width);
        for (std::int64_t i = threadIdx.x; i < op.width; i += blockDim.x) {
            float y = curve_at(op.form, load(op.x, from + i), limit).value;
            if (gated) {
                const float up = apart ? load(op.up, from + i) : load(op.x, from + op.width + i);
                y *= factor_at(op.form, up, limit).value;
            }
            store(op.y, row * op.width + i, y);
        }
    }
}

// Everything of an element is read before any of it is written: dx may be what was read.
__global__ void activation_backward_kernel(ActivationBackward op) {
    const bool gated = is_gated(op.form);
    const auto limit = static_cast<float>(op.limit);
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const bool apart = op.up.data != nullptr;
        const std::int64_t from = row * (gated && !apart ? 2 * op.width : op.width);
        const std::int64_t to = row * (gated ? 2 * op.width : op.width);
        for (std::int64_t i = threadIdx.x; i < op.width; i += blockDim.x) {
            const CurvePoint curve = curve_at(op.form, load(op.told_by, from + i), limit);
            const float dy = load(op.dy, row * op.width + i);
            if (!gated) {
                store(op.dx, to + i, curve.slope * dy);
                continue;
            }
            const float up = apart ? load(op.up, from + i) : load(op.told_by, from + op.width + i);
            const CurvePoint factor = factor_at(op.form, up, limit);
            store(op.dx, to + i, curve.slope * factor.value * dy);
            store(op.dx, to + op.width + i, curve.value * factor.slope * dy);
        }
    }
}

}  // namespace

void activation(const Activation& op, cudaStream_t stream) {
    launch("activation", activation_kernel, {blocks_for(op.rows)}, stream, op);
}

void activation_backward(const ActivationBackward& op, cudaStream_t stream) {
    launch("activation_backward", activation_backward_kernel, {blocks_for(op.rows)}, stream, op);
}

}  // namespace orrery::runtime::cuda
