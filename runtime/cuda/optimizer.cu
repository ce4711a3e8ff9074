// gradient_norm, unscale, adamw: a thread per element.
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/elements.hpp"
#include "runtime/kernels/gradient_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// Bins hold whole multiples of their units, whose sums are exact: the order in which blocks add
// theirs is of no consequence.
__global__ void gradient_norm_kernel(GradientNorm op) {
    double bins[kNormBins] = {};
    for (std::int64_t i = first_of_thread(); i < op.elements; i += threads_of_grid())
        add_square(static_cast<double>(load(op.gradients, i)), bins);
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

__global__ void adamw_kernel(AdamW op) {
    for (const float* skip : {op.skip_where[0], op.skip_where[1]})
        if (skip != nullptr && *skip != 0) return;
    const AdamWStep step = adamw_step(op, clip_factor(op.norm_bins, op.clip_norm));
    const Buffer weights = op.master ? op.master : op.parameters;
    auto* const m = static_cast<float*>(op.m.data);
    auto* const v = static_cast<float*>(op.v.data);
    for (std::int64_t i = first_of_thread(); i < op.elements; i += threads_of_grid()) {
        const float w = step_weight(step, load(op.gradients, i), load(weights, i), m[i], v[i]);
        store(weights, i, w);
        if (op.master) store(op.parameters, i, w);
    }
}

}  // namespace

void gradient_norm(const GradientNorm& op, cudaStream_t stream) {
    launch("gradient_norm", gradient_norm_kernel, {blocks_of_threads(op.elements)}, stream, op);
}

void unscale(const Unscale& op, cudaStream_t stream) {
    if (!op.accumulate) launch("unscale", clear_overflow_kernel, {1, 1}, stream, op.overflow);
    launch("unscale", unscale_kernel, {blocks_of_threads(op.elements)}, stream, op);
}

void adamw(const AdamW& op, cudaStream_t stream) {
    launch("adamw", adamw_kernel, {blocks_of_threads(op.elements)}, stream, op);
}

}  // namespace orrery::runtime::cuda
