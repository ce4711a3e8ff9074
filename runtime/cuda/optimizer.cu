// gradient_norm, unscale, adamw: a thread per element, or per eight.
#include <algorithm>

#include "runtime/cuda/element_runs.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/gradient_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// Blocks that add up many elements before they add up their threads' sums.
unsigned blocks_of_sums(std::int64_t elements) {
    constexpr unsigned kMost = 1024;
    return std::min(blocks_of_tiles(elements), kMost);
}

// Bins hold whole multiples of their units, whose sums are exact: the order in which blocks add
// theirs is of no consequence.
template <int kAtOnce>
__global__ void gradient_norm_kernel(GradientNorm op) {
    double bins[kNormBins] = {};
    over_runs(op.runs, op.elements, [&](const ElementRun&, std::int64_t begin, std::int64_t end) {
        over_elements<kAtOnce>(begin, end, [&](auto at_once, std::int64_t i) {
            const auto g = load_at_once<decltype(at_once)::value>(op.gradients, i);
            ORRERY_UNROLLED
            for (const float each : g.of)
                add_square(static_cast<double>(each), bins);
        });
    });
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
__device__ void step_elements(const AdamW& op, const Buffer& weights, const AdamWStep& step,
                              std::int64_t i) {
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

template <int kAtOnce>
__device__ void step_by_sign(const AdamW& op, const Buffer& weights, float rate, std::int64_t i) {
    const Elements<kAtOnce> g = load_at_once<kAtOnce>(op.gradients, i);
    Elements<kAtOnce> w = load_at_once<kAtOnce>(weights, i);
    ORRERY_UNROLLED
    for (int j = 0; j < kAtOnce; ++j)
        w.of[j] = step_weight_by_sign(rate, g.of[j], w.of[j]);
    store_at_once<kAtOnce>(weights, i, w);
    if (op.master) store_at_once<kAtOnce>(op.parameters, i, w);
}

template <int kAtOnce>
__global__ void adamw_kernel(AdamW op) {
    for (const float* skip : {op.skip_where[0], op.skip_where[1]})
        if (skip != nullptr && *skip != 0) return;
    const AdamWStep decaying = adamw_step(op, clip_factor(op.norm_bins, op.clip_norm));
    const Buffer weights = op.master ? op.master : op.parameters;
    over_runs(op.runs, op.elements,
              [&](const SteppedRun& run, std::int64_t begin, std::int64_t end) {
                  if (run.sign_rate > 0) {
                      const auto rate = static_cast<float>(run.sign_rate);
                      over_elements<kAtOnce>(begin, end, [&](auto at_once, std::int64_t i) {
                          step_by_sign<decltype(at_once)::value>(op, weights, rate, i);
                      });
                      return;
                  }
                  AdamWStep step = decaying;
                  if (!run.decays) step.kept = 1;
                  over_elements<kAtOnce>(begin, end, [&](auto at_once, std::int64_t i) {
                      step_elements<decltype(at_once)::value>(op, weights, step, i);
                  });
              });
}

}  // namespace

void gradient_norm(const GradientNorm& op, cudaStream_t stream) {
    check_types({op.gradients});
    with_at_once(kMostAtOnce, {op.gradients}, [&](auto at_once) {
        launch("gradient_norm", gradient_norm_kernel<decltype(at_once)::value>,
               {blocks_of_sums(op.elements)}, stream, op);
    });
}

void unscale(const Unscale& op, cudaStream_t stream) {
    check_types({op.gradients});
    if (!op.accumulate) launch("unscale", clear_overflow_kernel, {1, 1}, stream, op.overflow);
    launch("unscale", unscale_kernel, {blocks_of_threads(op.elements)}, stream, op);
}

void adamw(const AdamW& op, cudaStream_t stream) {
    check_types({op.gradients, op.m, op.v, op.master, op.parameters});
    with_at_once(kMostAtOnce, {op.gradients, op.m, op.v, op.master, op.parameters},
                 [&](auto at_once) {
                     launch("adamw", adamw_kernel<decltype(at_once)::value>,
                            {blocks_of_tiles(op.elements)}, stream, op);
                 });
}

}  // namespace orrery::runtime::cuda
