#include "calib/fit/curve_json.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calib/fit/write_profile.hpp"
#include "sim/cost/profile.hpp"
#include "sim/network/collective_table.hpp"

namespace orrery::fit {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPointDigits = 4;

Json held_out_json(const ErrorSummary& summary) {
    Json out;
    out["rows"] = summary.absolute.rows;
    out["mean_abs_error"] = rounded(summary.absolute.mean_abs_error, kFittedDigits);
    out["median_abs_error"] = rounded(summary.absolute.median_abs_error, kFittedDigits);
    out["p95_abs_error"] = rounded(summary.absolute.p95_abs_error, kFittedDigits);
    return out;
}

Json span_json(const sim::Span& span) {
    return Json::array({static_cast<std::int64_t>(span.low), static_cast<std::int64_t>(span.high)});
}

}  // namespace

Json curve_json(const GemmFit& fit, const std::string& source, const Json& sustained) {
    const sim::GemmCurve& curve = fit.curve;
    Json out;
    out["measured"] = true;
    out["source"] = fmt::format(
        "{}; fitted to {} rows, relative Huber least squares; without the neighbours the held-out "
        "mean error is {:.1f} %, the mean signed error with them {:+.1f} %",
        source, fit.fitted_rows, 100 * fit.held_out_curve_only.absolute.mean_abs_error,
        100 * fit.held_out.bias);
    if (fit.quantization)
        out["source"] = fmt::format(
            "{}; the quantization of the first operand, which was timed as well, is taken off: "
            "{:.2f} us and {:.3g} ps per element",
            out["source"].get<std::string>(), fit.quantization->t0_us,
            fit.quantization->element_ps);
    out["t0_us"] = rounded(curve.t0_us, kFittedDigits);
    out["rate_tflops"] = rounded(curve.rate_tflops, kFittedDigits);
    out["bandwidth_GBps"] = rounded(curve.bandwidth_GBps, kFittedDigits);
    out["sustained"] = sustained;
    out["relative_sd"] = rounded(curve.relative_sd, kFittedDigits);
    out["held_out"] = held_out_json(fit.held_out);
    out["m"] = span_json(curve.m);
    out["n"] = span_json(curve.n);
    out["k"] = span_json(curve.k);
    out["neighbours"] = Json::array();
    for (const sim::NeighbourPoint& p : curve.neighbours) {
        Json row = Json::array({rounded(p.log2_m, kPointDigits), rounded(p.log2_n, kPointDigits),
                                rounded(p.log2_k, kPointDigits), rounded(p.ratio, kPointDigits)});
        if (p.product) row.push_back(plan::spelling(*p.product));
        out["neighbours"].push_back(std::move(row));
    }
    return out;
}

Json curve_json(const AttentionFit& fit, const std::string& source) {
    Json out;
    out["measured"] = true;
    out["source"] = fmt::format(
        "{}; fitted to {} rows, relative Huber least squares; held-out mean signed error {:+.1f} %",
        source, fit.fitted_rows, 100 * fit.held_out.bias);
    out["t0_us"] = rounded(fit.curve.t0_us, kFittedDigits);
    out["query_element_ps"] = rounded(fit.curve.query_element_ps, kFittedDigits);
    out["key_element_ps"] = rounded(fit.curve.key_element_ps, kFittedDigits);
    out["rate_tflops"] = rounded(fit.curve.rate_tflops, kFittedDigits);
    out["relative_sd"] = rounded(fit.curve.relative_sd, kFittedDigits);
    out["held_out"] = held_out_json(fit.held_out);
    out["sequence"] = span_json(fit.curve.sequence);
    return out;
}

Json curve_json(const KernelFit& fit) {
    Json out;
    out["t0_us"] = rounded(fit.t0_us, kFittedDigits);
    out["GBps"] = rounded(fit.GBps, kFittedDigits);
    out["relative_sd"] =
        rounded(std::max(kLeastError, fit.held_out.standard_deviation), kFittedDigits);
    out["held_out"] = held_out_json(fit.held_out);
    return out;
}

std::string name_of_products(plan::DType dtype) {
    return std::string(sim::product_key(dtype));
}

FamilyReport family_report(const std::string& dtype, const GemmFit& fit) {
    FamilyReport family;
    family.family = "gemm " + dtype;
    family.fitted_rows = fit.fitted_rows;
    family.left_out_rows = fit.odd_rows;
    family.held_out = fit.held_out;
    family.parameters = fmt::format(
        "t0 {:.2f} us, {:.4g} TFLOP/s, {:.4g} GB/s, {} neighbour points (without them {:.1f} %)",
        fit.curve.t0_us, fit.curve.rate_tflops, fit.curve.bandwidth_GBps,
        fit.curve.neighbours.size(), 100 * fit.held_out_curve_only.absolute.mean_abs_error);
    if (fit.quantization)
        family.parameters +=
            fmt::format(", quantization taken off: {:.2f} us, {:.3g} ps per element",
                        fit.quantization->t0_us, fit.quantization->element_ps);
    return family;
}

FamilyReport family_report(const AttentionFit& fit) {
    FamilyReport family;
    family.family = fmt::format("attention d{}", fit.curve.head_dim);
    family.fitted_rows = fit.fitted_rows;
    family.held_out = fit.held_out;
    family.parameters = fmt::format(
        "t0 {:.2f} us, {:.3f} ps per query element, {:.3f} ps per key element, {:.4g} TFLOP/s",
        fit.curve.t0_us, fit.curve.query_element_ps, fit.curve.key_element_ps,
        fit.curve.rate_tflops);
    return family;
}

FamilyReport family_report(const MemoryFit& fit) {
    FamilyReport family;
    family.family = "memory-bound";
    family.fitted_rows = fit.fitted_rows;
    family.left_out_rows = fit.between_rows;
    family.held_out = fit.held_out;
    family.parameters = fmt::format(
        "t0 {:.2f} us, of reductions {:.2f} us, {:.4g} GB/s in cache, {:.4g} GB/s in memory",
        fit.t0_us, fit.reduction_t0_us, fit.cache_GBps, fit.memory_GBps);
    return family;
}

FamilyReport family_report(const KernelFit& fit) {
    FamilyReport family;
    family.family = fit.kernel;
    family.fitted_rows = fit.fitted_rows;
    family.held_out = fit.held_out;
    family.parameters = fmt::format("t0 {:.2f} us, {:.4g} GB/s", fit.t0_us, fit.GBps);
    return family;
}

std::vector<CollectiveReport> collective_reports(const sim::Profile& profile) {
    std::vector<CollectiveReport> reports;
    if (profile.collectives_json.empty()) return reports;
    const auto table = sim::parse_collectives(profile.collectives_json, profile.path);
    for (const sim::CollectiveCurve& curve : table.curves)
        reports.push_back({std::string(plan::name(curve.collective)), curve.ranks,
                           curve.points.size(), curve.relative_sd});
    return reports;
}

}  // namespace orrery::fit
