#include "sim/cost/gemm_model.hpp"

#include "sim/cost/log2.hpp"

namespace orrery::sim {
namespace {

constexpr double kPriorOctaves = 1.0;
constexpr double kSofteningOctaves = 0.5;  // a point stands for a cell about this wide

double squared(double x) {
    return x * x;
}

double cubed(double x) {
    return x * x * x;
}

double octaves_outside(const Span& span, double value) {
    if (span.high <= 0) return 0;
    if (value < span.low) return log2_of(span.low / value);
    if (value > span.high) return log2_of(value / span.high);
    return 0;
}

}  // namespace

double gemm_flops(const GemmShape& shape) {
    return 2.0 * shape.m * shape.n * shape.k;
}

double gemm_bytes(const GemmShape& shape, double element_bytes) {
    return element_bytes * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n);
}

double neighbour_ratio(const std::vector<NeighbourPoint>& points, const GemmShape& shape) {
    if (points.empty()) return 1;
    const double m = log2_of(shape.m);
    const double n = log2_of(shape.n);
    const double k = log2_of(shape.k);
    double weight_sum = 1.0 / cubed(squared(kPriorOctaves));
    double excess_sum = 0;  // Σ weight·(ratio − 1): exactly 0 where the curve missed nothing
    for (const NeighbourPoint& p : points) {
        if (p.product && shape.product && *p.product != *shape.product) continue;
        const double distance2 = squared(p.log2_m - m) + squared(p.log2_n - n) +
                                 squared(p.log2_k - k) + squared(kSofteningOctaves);
        const double weight = 1.0 / cubed(distance2);
        weight_sum += weight;
        excess_sum += weight * (p.ratio - 1.0);
    }
    return 1.0 + excess_sum / weight_sum;
}

double NeighbourRatios::of(const GemmCurve& curve, const GemmShape& shape) {
    const Key key{&curve, shape.m, shape.n, shape.k,
                  shape.product ? static_cast<int>(*shape.product) : -1};
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = ratios_.find(key); found != ratios_.end()) return found->second;
    }
    const double ratio = neighbour_ratio(curve.neighbours, shape);
    const std::lock_guard lock(mutex_);
    ratios_.emplace(key, ratio);
    return ratio;
}

double octaves_outside(const GemmCurve& curve, const GemmShape& shape) {
    return octaves_outside(curve.m, shape.m) + octaves_outside(curve.n, shape.n) +
           octaves_outside(curve.k, shape.k);
}

double gemm_work_seconds(const GemmCurve& curve, const GemmShape& shape, double element_bytes) {
    return gemm_flops(shape) / (curve.rate_tflops * 1e12 * curve.sustained) +
           gemm_bytes(shape, element_bytes) / (curve.bandwidth_GBps * 1e9);
}

double gemm_seconds(const GemmCurve& curve, const GemmShape& shape, double element_bytes,
                    NeighbourRatios* known) {
    const double ratio =
        known != nullptr ? known->of(curve, shape) : neighbour_ratio(curve.neighbours, shape);
    return curve.t0_us * 1e-6 + gemm_work_seconds(curve, shape, element_bytes) * ratio;
}

}  // namespace orrery::sim
