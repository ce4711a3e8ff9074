#include "calib/measure/profile_sections.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "calib/fit/curve_json.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/relative_fit.hpp"
#include "calib/fit/write_profile.hpp"

namespace orrery::measure {
double spread(const std::vector<double>& values, double middle) {
    double sum = 0;
    for (const double value : values)
        sum += (value / middle - 1) * (value / middle - 1);
    return std::sqrt(sum / static_cast<double>(values.size()));
}

Json quantity(double value, const std::string& source) {
    return {{"value", fit::rounded(value, fit::kFittedDigits)}, {"source", source}};
}

Json attention_curves_json(const std::vector<fit::AttentionRow>& rows,
                           const std::vector<fit::AttentionRow>& in_steps,
                           const std::string& source, const std::string& family,
                           std::vector<fit::FamilyReport>& families) {
    std::vector<fit::AttentionFit> fits;
    std::vector<double> ratios;
    for (const std::int64_t head_dim : fit::head_dims(rows)) {
        fits.push_back(fit::fit_attention(rows, head_dim));
        for (const fit::AttentionRow& row : in_steps)
            if (row.head_dim == head_dim)
                ratios.push_back(row.time_us * 1e-6 /
                                 sim::attention_seconds(fits.back().curve, fit::shape_of(row)));
    }
    constexpr std::size_t kFewest = 3;
    const bool scaled = ratios.size() >= kFewest;
    const double factor = scaled ? median(ratios) : 1;
    std::string how = source;
    if (scaled)
        how += fmt::format("; times {:.3f}, median of {} in whole steps", factor, ratios.size());
    Json curves;
    for (fit::AttentionFit& fit : fits) {
        fit.curve.t0_us *= factor;
        fit.curve.query_element_ps *= factor;
        fit.curve.key_element_ps *= factor;
        fit.curve.rate_tflops /= factor;
        if (scaled) fit.curve.relative_sd = std::max(fit.curve.relative_sd, spread(ratios, factor));
        curves[std::to_string(fit.curve.head_dim)] = fit::curve_json(fit, how);
        families.push_back(fit::family_report(fit));
        families.back().family = fmt::format("{} d{}", family, fit.curve.head_dim);
    }
    return curves;
}

Json attention_json(const AttentionTimings& timings, plan::DType dtype, const std::string& source,
                    std::vector<fit::FamilyReport>& families) {
    Json attention;
    attention["dtype"] = std::string(plan::name(dtype));
    attention["forward"] =
        attention_curves_json(timings.forward, {}, source, "attention", families);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < timings.forward.size(); ++i)
        ratios.push_back(timings.backward_us[i] / timings.forward[i].time_us);
    const double ratio = median(ratios);
    constexpr double kFlopRatio = 2.5;
    attention["backward"] = {
        {"flop_ratio",
         quantity(kFlopRatio, "five matrix products instead of two (Dao 2023, arXiv 2307.08691)")},
        {"rate_ratio", quantity(kFlopRatio / ratio, fmt::format("{}; median of {} shapes: {:.2f} "
                                                                "times the forward",
                                                                source, ratios.size(), ratio))},
        {"relative_sd", quantity(spread(ratios, ratio), "root mean square over the shapes")}};
    if (!timings.dropout_ps.empty()) {
        const auto added = [&](const std::vector<double>& ps) {
            return quantity(
                std::max(0.0, median(ps)),
                fmt::format("{}; median of {} shapes with and without dropout", source, ps.size()));
        };
        attention["dropout"] = {{"forward_ps", added(timings.dropout_ps)},
                                {"backward_ps", added(timings.dropout_backward_ps)}};
    }
    return attention;
}

Json batched_gemm_json(const std::vector<ProductRow>& rows, const Json& gemm,
                       const fit::MemoryFit& memory, double operands_GBps,
                       const std::string& source) {
    constexpr double kLeastShare = 0.1;  // of a time, where the operands would take more than it
    fit::RelativeProblem problem;
    problem.columns = 2;
    for (const ProductRow& row : rows) {
        problem.terms.insert(problem.terms.end(), {1.0, row.flops});
        problem.times.push_back(
            std::max(kLeastShare * row.time_us, row.time_us - row.bytes / (operands_GBps * 1e3)));
    }
    const double us_per_flop = fit::fit_relative(problem)[1];
    if (us_per_flop <= 0) throw fit::FitError("products of unfused attention show no rate");
    std::vector<double> predicted;
    for (const ProductRow& row : rows)
        predicted.push_back((gemm.at("t0_us").get<double>() + row.flops * us_per_flop +
                             row.bytes / (memory.memory_GBps * 1e3)) /
                            row.time_us);
    const double rate_tflops = 1e-6 / us_per_flop;
    return {{"source", fmt::format("{}; {} shapes, none held out", source, rows.size())},
            {"rate_ratio",
             fit::rounded(rate_tflops / gemm.at("rate_tflops").get<double>(), fit::kFittedDigits)},
            {"relative_sd", fit::rounded(spread(predicted, 1), fit::kFittedDigits)}};
}

Json memory_json(const fit::MemoryFit& fit, double memory_GBps, double resident_bytes,
                 const std::string& source) {
    const double efficiency = fit.memory_GBps / memory_GBps;
    Json memory;
    memory["measured"] = true;
    memory["source"] = fmt::format(
        "{}; fitted to {} rows, relative Huber least squares; {} rows held out: mean error {:.1f} "
        "%, median {:.1f} %, p95 {:.1f} %",
        source, fit.fitted_rows, fit.held_out.absolute.rows,
        100 * fit.held_out.absolute.mean_abs_error, 100 * fit.held_out.absolute.median_abs_error,
        100 * fit.held_out.absolute.p95_abs_error);
    memory["t0_us"] = fit::rounded(fit.t0_us, fit::kFittedDigits);
    memory["reduction_t0_us"] = fit::rounded(fit.reduction_t0_us, fit::kFittedDigits);
    memory["efficiency"] = fit::rounded(efficiency, fit::kFittedDigits);
    memory["resident_bytes"] = resident_bytes;
    memory["cache_GBps"] = fit::rounded(fit.cache_GBps / efficiency, fit::kFittedDigits);
    memory["relative_sd"] = fit::rounded(fit.held_out.standard_deviation, fit::kFittedDigits);
    return memory;
}

Json kernels_json(const std::vector<fit::KernelFit>& fits, const std::string& source) {
    Json kernels;
    kernels["source"] = source;
    for (const fit::KernelFit& fit : fits)
        kernels[fit.kernel] = fit::curve_json(fit);
    return kernels;
}

}  // namespace orrery::measure
