// The time of a matrix product from a curve and its neighbours. The fit and the simulator share
// this file, so that a residual is a residual of the very formula that prices.
#pragma once

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "sim/cost/profile.hpp"

namespace orrery::sim {

struct GemmShape {
    double m = 0;
    double n = 0;
    double k = 0;
    std::optional<plan::GemmProduct> product = {};  // whose operands lie so; none: not said
};

// 2·m·n·k.
double gemm_flops(const GemmShape& shape);

// Bytes of both operands and of the result, each once.
double gemm_bytes(const GemmShape& shape, double element_bytes);

// Work measured ÷ work by the curve, near the shape: the mean of the points' ratios and one prior
// point of ratio 1, weighted by the inverse sixth power of distance in (log2 m, log2 n, log2 k).
// The prior's weight is that of a point kPriorOctaves away, so far from every point the ratio fades
// to 1. Every point counts, in order, so the ratio is continuous in the shape and there are no
// ties. Points of another product than the shape's
// say nothing of it: operands that lie otherwise are read otherwise. 1 without points.
double neighbour_ratio(const std::vector<NeighbourPoint>& points, const GemmShape& shape);

// The same of the points of curves that outlive it, once for each shape: what plans of one model
// multiply they multiply again and again. Threads may share it.
class NeighbourRatios {
  public:
    double of(const GemmCurve& curve, const GemmShape& shape);

  private:
    // A curve, the shape's sizes, and what lies how.
    using Key = std::tuple<const GemmCurve*, double, double, double, int>;

    std::mutex mutex_;
    std::map<Key, double> ratios_;
};

// Octaves by which the shape lies outside the curve's fitted spans, summed over the three
// dimensions; 0 for a curve without spans.
double octaves_outside(const GemmCurve& curve, const GemmShape& shape);

// Seconds of arithmetic and traffic by the curve alone: without t0, without neighbours.
double gemm_work_seconds(const GemmCurve& curve, const GemmShape& shape, double element_bytes);

// t0 + work × neighbour ratio. The ratio leaves t0 alone: times of a few microseconds would
// otherwise fall where the ratio falls, though the work grows.
double gemm_seconds(const GemmCurve& curve, const GemmShape& shape, double element_bytes,
                    NeighbourRatios* known = nullptr);

}  // namespace orrery::sim
