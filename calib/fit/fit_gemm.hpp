// The GEMM curve of one device and element type from a table of measured shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calib/fit/held_out.hpp"
#include "sim/cost/gemm_model.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::fit {

struct GemmRow {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    double time_us = 0;
    std::optional<plan::GemmProduct> product = {};  // none: not said
};

// Rows of gemm.csv (system, dtype, m, n, k, time_us, source) of one system and element type, in
// file order. Throws FitError.
std::vector<GemmRow> read_gemm_rows(const std::string& path, const std::string& system,
                                    const std::string& dtype);

// What some collections time together with the product: the first operand, m x k elements of 16
// bits, is quantized, its scale sought first.
struct TimedQuantization {
    double t0_us = 0;
    double element_ps = 0;

    double seconds(const sim::GemmShape& shape) const;
};

struct GemmFit {
    sim::GemmCurve curve;  // measured; sustained is left at 1, source empty
    std::optional<TimedQuantization> quantization;  // not in the curve
    std::int64_t fitted_rows = 0;
    std::int64_t odd_rows = 0;         // left out
    ErrorSummary held_out;             // of the curve with its neighbours
    ErrorSummary held_out_curve_only;  // what it would be without them
};

// Fits t0, rate and bandwidth to the rows that is_held_out leaves (all collections of a shape are
// held out together), then summarises what the curve misses on the same rows as neighbour
// points: the mean of each cell of 1.2 octaves each way and product, clipped to ±25 %. Rows with an
// odd m are left out: collections time the shape one row over a tile edge as well (m = 513), up to
// 12 % slower, and no training step has an odd number of tokens. `element_bytes` is the operands'.
// With `product_t0_us` the rows time a quantization as well: its time per element is one more
// constant of the fit, and what t0 exceeds product_t0_us by is its own. Rows that are mostly
// quantization then make no neighbour points.
GemmFit fit_gemm(const std::vector<GemmRow>& rows, double element_bytes,
                 std::optional<double> product_t0_us = std::nullopt);

}  // namespace orrery::fit
