#include "calib/fit/fit_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "calib/fit/csv_table.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/relative_fit.hpp"
#include "sim/cost/gemm_model.hpp"

namespace orrery::fit {
namespace {

constexpr double kCellOctaves = 1.2;
constexpr double kLargestMiss = 0.25;

sim::GemmShape shape_of(const GemmRow& row) {
    return {static_cast<double>(row.m), static_cast<double>(row.n), static_cast<double>(row.k),
            row.product};
}

bool held_out(const GemmRow& row) {
    return is_held_out(fmt::format("gemm {} {} {}", row.m, row.n, row.k));
}

void fit_curve(GemmFit& fit, const std::vector<GemmRow>& rows, double element_bytes,
               std::optional<double> product_t0_us) {
    RelativeProblem problem;
    problem.columns = product_t0_us ? 4 : 3;
    for (const GemmRow& row : rows) {
        const sim::GemmShape shape = shape_of(row);
        problem.terms.insert(problem.terms.end(),
                             {1.0, sim::gemm_flops(shape), sim::gemm_bytes(shape, element_bytes)});
        if (product_t0_us) problem.terms.push_back(shape.m * shape.k);
        problem.times.push_back(row.time_us * 1e-6);
    }
    const std::vector<double> x = fit_relative(problem);
    if (x[1] <= 0 || x[2] <= 0)
        throw FitError("the GEMM rows do not determine a rate and a bandwidth");
    sim::GemmCurve& curve = fit.curve;
    curve.t0_us = x[0] * 1e6;
    curve.rate_tflops = 1e-12 / x[1];
    curve.bandwidth_GBps = 1e-9 / x[2];
    if (!product_t0_us) return;
    const double product = std::min(*product_t0_us, curve.t0_us);
    fit.quantization = TimedQuantization{curve.t0_us - product, x[3] * 1e12};
    curve.t0_us = product;
}

double quantization_seconds(const GemmFit& fit, const sim::GemmShape& shape) {
    return fit.quantization ? fit.quantization->seconds(shape) : 0;
}

std::vector<sim::NeighbourPoint> cell_means(const GemmFit& fit, const std::vector<GemmRow>& rows,
                                            double element_bytes) {
    struct Cell {
        double m = 0, n = 0, k = 0, ratio = 0, count = 0;
    };
    using Product = std::optional<plan::GemmProduct>;
    std::map<std::pair<std::array<int, 3>, Product>, Cell> cells;
    for (const GemmRow& row : rows) {
        const sim::GemmShape shape = shape_of(row);
        const double product = row.time_us * 1e-6 - quantization_seconds(fit, shape);
        if (product < 0.5e-6 * row.time_us) continue;
        const double m = std::log2(shape.m), n = std::log2(shape.n), k = std::log2(shape.k);
        auto index = [](double x) { return static_cast<int>(std::floor(x / kCellOctaves + 0.5)); };
        Cell& cell = cells[{{index(m), index(n), index(k)}, row.product}];
        cell.m += m;
        cell.n += n;
        cell.k += k;
        cell.ratio += (product - fit.curve.t0_us * 1e-6) /
                      sim::gemm_work_seconds(fit.curve, shape, element_bytes);
        cell.count += 1;
    }
    std::vector<sim::NeighbourPoint> points;
    for (const auto& [place, cell] : cells) {
        sim::NeighbourPoint point;
        point.log2_m = cell.m / cell.count;
        point.log2_n = cell.n / cell.count;
        point.log2_k = cell.k / cell.count;
        point.ratio = std::clamp(cell.ratio / cell.count, 1 - kLargestMiss, 1 + kLargestMiss);
        point.product = place.second;
        points.push_back(point);
    }
    return points;
}

ErrorSummary judge(const GemmFit& fit, const std::vector<GemmRow>& rows, double element_bytes) {
    std::vector<double> errors;
    for (const GemmRow& row : rows) {
        const sim::GemmShape shape = shape_of(row);
        const double seconds =
            sim::gemm_seconds(fit.curve, shape, element_bytes) + quantization_seconds(fit, shape);
        errors.push_back(seconds / (row.time_us * 1e-6) - 1);
    }
    return summarize(std::move(errors));
}

template <typename Field>
sim::Span span_of(const std::vector<GemmRow>& rows, Field field) {
    sim::Span span{static_cast<double>(rows.front().*field),
                   static_cast<double>(rows.front().*field)};
    for (const GemmRow& row : rows) {
        span.low = std::min(span.low, static_cast<double>(row.*field));
        span.high = std::max(span.high, static_cast<double>(row.*field));
    }
    return span;
}

}  // namespace

std::vector<GemmRow> read_gemm_rows(const std::string& path, const std::string& system,
                                    const std::string& dtype) {
    const CsvTable table(path, {"system", "dtype", "m", "n", "k", "time_us", "source"});
    std::vector<GemmRow> rows;
    for (std::size_t i = 0; i < table.rows(); ++i) {
        if (table.text(i, "system") != system || table.text(i, "dtype") != dtype) continue;
        GemmRow row;
        row.m = table.whole(i, "m");
        row.n = table.whole(i, "n");
        row.k = table.whole(i, "k");
        row.time_us = table.number(i, "time_us");
        rows.push_back(row);
    }
    if (rows.empty()) throw FitError(fmt::format("{}: no rows of {} in {}", path, system, dtype));
    return rows;
}

double TimedQuantization::seconds(const sim::GemmShape& shape) const {
    return t0_us * 1e-6 + element_ps * 1e-12 * shape.m * shape.k;
}

GemmFit fit_gemm(const std::vector<GemmRow>& rows, double element_bytes,
                 std::optional<double> product_t0_us) {
    std::vector<GemmRow> seen, unseen;
    for (const GemmRow& row : rows)
        if (row.m % 2 == 0) (held_out(row) ? unseen : seen).push_back(row);
    if (seen.empty() || unseen.empty())
        throw FitError(fmt::format("{} GEMM rows are too few to hold any out", rows.size()));
    GemmFit fit;
    fit.odd_rows = static_cast<std::int64_t>(rows.size() - seen.size() - unseen.size());
    fit.fitted_rows = static_cast<std::int64_t>(seen.size());
    fit.curve.measured = true;
    fit_curve(fit, seen, element_bytes, product_t0_us);
    fit.held_out_curve_only = judge(fit, unseen, element_bytes);
    fit.curve.neighbours = cell_means(fit, seen, element_bytes);
    fit.held_out = judge(fit, unseen, element_bytes);
    fit.curve.held_out = fit.held_out.absolute;
    fit.curve.relative_sd = fit.held_out.standard_deviation;
    fit.curve.m = span_of(seen, &GemmRow::m);
    fit.curve.n = span_of(seen, &GemmRow::n);
    fit.curve.k = span_of(seen, &GemmRow::k);
    return fit;
}

}  // namespace orrery::fit
