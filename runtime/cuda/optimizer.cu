// gradient_norm, unscale, adamw: a thread per element, or per eight.
#include <algorithm>

#include "runtime/cuda/at_once.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/gradient_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// Blocks that add up many elements before they add up their threads' sums.
unsigned blocks_of_sums(std::int64_t elements) {
    constexpr unsigned kMost = 1024;
    return std::min(blocks_of_threads(elements), kMost);
}

// Bins hold whole multiples of their units, whose sums are exact: the order in which blocks add
// theirs is of no consequence.
template <int kAtOnce>
__global__ void gradient_norm_kernel(GradientNorm op) {
    double bins[kNormBins] = {};
    for (std::int64_t i = first_of_thread() * kAtOnce; i < op.elements;
         i += threads_of_grid() * kAtOnce) {
        const Elements<kAtOnce> g = load_at_once<kAtOnce>(op.gradients, i);
        ORRERY_UNROLLED
        for (int j = 0; j < kAtOnce; ++j)
            add_square(static_cast<double>(g.of[j]), bins);
    }
    for (int bin = 0; bin < kNormBins; ++bin) {
        const double sum = sum_over_block(bins[bin]);
        if (threadIdx.x == 0) atomicAdd(op.bins + bin, sum);
    }
}

__global__ void clear_overflow_kernel(float* overflow) {
    *overflow = 0;
}

// Looked at before the factor, and before what it makes is rounded: both may hide an infinity. All
// threads that write the flag write the same.
__global__ void unscale_kernel(Unscale op) {
    const auto factor = static_cast<float>(1 / static_cast<double>(*op.loss_scale));
    for (std::int64_t i = first_of_thread(); i < op.elements; i += threads_of_grid()) {
        const float g = load(op.gradients, i);
        if (!std::isfinite(g)) *op.overflow = 1;
        store(op.gradients, i, g * factor);
    }
}

template <int kAtOnce>
__global__ void adamw_kernel(AdamW op) {
    for (const float* skip : {op.skip_where[0], op.skip_where[1]})
        if (skip != nullptr && *skip != 0) return;
    const AdamWStep step = adamw_step(op, clip_factor(op.norm_bins, op.clip_norm));
    const Buffer weights = op.master ? op.master : op.parameters;
    for (std::int64_t i = first_of_thread() * kAtOnce; i < op.elements;
         i += threads_of_grid() * kAtOnce) {
        const Elements<kAtOnce> g = load_at_once<kAtOnce>(op.gradients, i);
        Elements<kAtOnce> w = load_at_once<kAtOnce>(weights, i), m = load_at_once<kAtOnce>(op.m, i),
                          v = load_at_once<kAtOnce>(op.v, i);
        ORRERY_UNROLLED
        for (int j = 0; j < kAtOnce; ++j)
            w.of[j] = step_weight(step, g.of[j], w.of[j], m.of[j], v.of[j]);
        store_at_once<kAtOnce>(op.m, i, m);
        store_at_once<kAtOnce>(op.v, i, v);
        store_at_once<kAtOnce>(weights, i, w);
        if (op.master) store_at_once<kAtOnce>(op.parameters, i, w);
    }
}

}  // namespace

void gradient_norm(const GradientNorm& op, cudaStream_t stream) {
    check_types({op.gradients});
    with_at_once(op.elements, {op.gradients}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("gradient_norm", gradient_norm_kernel<kAtOnce>,
               {blocks_of_sums(op.elements / kAtOnce)}, stream, op);
    });
}

void unscale(const Unscale& op, cudaStream_t stream) {
    check_types({op.gradients});
    if (!op.accumulate) launch("unscale", clear_overflow_kernel, {1, 1}, stream, op.overflow);
    launch("unscale", unscale_kernel, {blocks_of_threads(op.elements)}, stream, op);
}

void adamw(const AdamW& op, cudaStream_t stream) {
    check_types({op.gradients, op.m, op.v, op.master, op.parameters});
    with_at_once(op.elements, {op.gradients, op.m, op.v, op.master, op.parameters},
                 [&](auto at_once) {
                     constexpr int kAtOnce = decltype(at_once)::value;
                     launch("adamw", adamw_kernel<kAtOnce>,
                            {blocks_of_threads(op.elements / kAtOnce)}, stream, op);
                 });
}

}  // namespace orrery::runtime::cuda
