// activation and activation_backward: a block per row.
#include "runtime/cuda/at_once.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/activation_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

template <int kAtOnce>
__global__ void activation_kernel(Activation op) {
    const bool gated = is_gated(op.form);
    const auto limit = static_cast<float>(op.limit);
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const bool apart = op.up.data != nullptr;
        const std::int64_t from = row * (gated && !apart ? 2 * op.width : op.width);
        for (std::int64_t i = threadIdx.x * kAtOnce; i < op.width; i += blockDim.x * kAtOnce) {
            Elements<kAtOnce> x = load_at_once<kAtOnce>(op.x, from + i), up{};
            if (gated)
                up = apart ? load_at_once<kAtOnce>(op.up, from + i)
                           : load_at_once<kAtOnce>(op.x, from + op.width + i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j) {
                float y = curve_at(op.form, x.of[j], limit).value;
                if (gated) y *= factor_at(op.form, up.of[j], limit).value;
                x.of[j] = y;
            }
            store_at_once<kAtOnce>(op.y, row * op.width + i, x);
        }
    }
}

// Everything of an element is read before any of it is written: dx may be what was read.
template <int kAtOnce>
__global__ void activation_backward_kernel(ActivationBackward op) {
    const bool gated = is_gated(op.form);
    const auto limit = static_cast<float>(op.limit);
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const bool apart = op.up.data != nullptr;
        const std::int64_t from = row * (gated && !apart ? 2 * op.width : op.width);
        const std::int64_t to = row * (gated ? 2 * op.width : op.width);
        for (std::int64_t i = threadIdx.x * kAtOnce; i < op.width; i += blockDim.x * kAtOnce) {
            Elements<kAtOnce> x = load_at_once<kAtOnce>(op.told_by, from + i), up{};
            const Elements<kAtOnce> dy = load_at_once<kAtOnce>(op.dy, row * op.width + i);
            if (gated)
                up = apart ? load_at_once<kAtOnce>(op.up, from + i)
                           : load_at_once<kAtOnce>(op.told_by, from + op.width + i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j) {
                const CurvePoint curve = curve_at(op.form, x.of[j], limit);
                if (!gated) {
                    x.of[j] = curve.slope * dy.of[j];
                    continue;
                }
                const CurvePoint factor = factor_at(op.form, up.of[j], limit);
                x.of[j] = curve.slope * factor.value * dy.of[j];
                up.of[j] = curve.value * factor.slope * dy.of[j];
            }
            store_at_once<kAtOnce>(op.dx, to + i, x);
            if (gated) store_at_once<kAtOnce>(op.dx, to + op.width + i, up);
        }
    }
}

}  // namespace

void activation(const Activation& op, cudaStream_t stream) {
    check_types({op.x, op.y, op.up});
    with_at_once(op.width, {op.x, op.y, op.up}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("activation", activation_kernel<kAtOnce>, rows_grid<kAtOnce>(op.rows, op.width),
               stream, op);
    });
}

void activation_backward(const ActivationBackward& op, cudaStream_t stream) {
    check_types({op.dy, op.told_by, op.dx, op.up});
    with_at_once(op.width, {op.dy, op.told_by, op.dx, op.up}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("activation_backward", activation_backward_kernel<kAtOnce>,
               rows_grid<kAtOnce>(op.rows, op.width), stream, op);
    });
}

}  // namespace orrery::runtime::cuda
