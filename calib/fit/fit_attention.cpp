#include "calib/fit/fit_attention.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "calib/fit/csv_table.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/relative_fit.hpp"
#include "sim/cost/attention_model.hpp"

namespace orrery::fit {
namespace {

bool held_out(const AttentionRow& row) {
    return is_held_out(fmt::format("attention {} {} {} {} {}", row.batch, row.sequence, row.heads,
                                   row.kv_heads, row.head_dim));
}

void fit_curve(sim::AttentionCurve& curve, const std::vector<AttentionRow>& rows) {
    RelativeProblem problem;
    problem.columns = 4;
    for (const AttentionRow& row : rows) {
        const sim::AttentionShape shape = shape_of(row);
        problem.terms.insert(
            problem.terms.end(),
            {1.0, sim::query_elements(shape), sim::key_elements(shape), sim::causal_flops(shape)});
        problem.times.push_back(row.time_us * 1e-6);
    }
    const std::vector<double> x = fit_relative(problem);
    if (x[3] <= 0) throw FitError("the attention rows do not determine a rate");
    curve.t0_us = x[0] * 1e6;
    curve.query_element_ps = x[1] * 1e12;
    curve.key_element_ps = x[2] * 1e12;
    curve.rate_tflops = 1e-12 / x[3];
}

}  // namespace

sim::AttentionShape shape_of(const AttentionRow& row) {
    sim::AttentionShape shape;
    shape.batch = static_cast<double>(row.batch);
    shape.queries = static_cast<double>(row.sequence);
    shape.keys = static_cast<double>(row.sequence);
    shape.heads = static_cast<double>(row.heads);
    shape.kv_heads = static_cast<double>(row.kv_heads);
    shape.head_dim = static_cast<double>(row.head_dim);
    return shape;
}

double pairs_of(const AttentionRow& row) {
    return sim::attended_pairs(shape_of(row));
}

std::vector<AttentionRow> read_attention_rows(const std::string& path, const std::string& system) {
    const CsvTable table(path, {"system", "batch", "sequence", "heads", "kv_heads", "head_dim",
                                "time_us", "source"});
    std::vector<AttentionRow> rows;
    for (std::size_t i = 0; i < table.rows(); ++i) {
        if (table.text(i, "system") != system) continue;
        AttentionRow row;
        row.batch = table.whole(i, "batch");
        row.sequence = table.whole(i, "sequence");
        row.heads = table.whole(i, "heads");
        row.kv_heads = table.whole(i, "kv_heads");
        row.head_dim = table.whole(i, "head_dim");
        row.time_us = table.number(i, "time_us");
        rows.push_back(row);
    }
    if (rows.empty()) throw FitError(fmt::format("{}: no rows of {}", path, system));
    return rows;
}

std::vector<std::int64_t> head_dims(const std::vector<AttentionRow>& rows) {
    std::set<std::int64_t> sizes;
    for (const AttentionRow& row : rows)
        sizes.insert(row.head_dim);
    return {sizes.begin(), sizes.end()};
}

AttentionFit fit_attention(const std::vector<AttentionRow>& rows, std::int64_t head_dim) {
    std::vector<AttentionRow> seen, unseen;
    for (const AttentionRow& row : rows)
        if (row.head_dim == head_dim) (held_out(row) ? unseen : seen).push_back(row);
    if (seen.empty() || unseen.empty())
        throw FitError(fmt::format("too few attention rows of head size {}", head_dim));
    AttentionFit fit;
    fit.fitted_rows = static_cast<std::int64_t>(seen.size());
    fit.curve.head_dim = head_dim;
    fit.curve.measured = true;
    fit_curve(fit.curve, seen);
    std::vector<double> errors;
    for (const AttentionRow& row : unseen)
        errors.push_back(sim::attention_seconds(fit.curve, shape_of(row)) / (row.time_us * 1e-6) -
                         1);
    fit.held_out = summarize(std::move(errors));
    fit.curve.held_out = fit.held_out.absolute;
    fit.curve.relative_sd = fit.held_out.standard_deviation;
    fit.curve.sequence = {static_cast<double>(seen.front().sequence),
                          static_cast<double>(seen.front().sequence)};
    for (const AttentionRow& row : seen) {
        const auto sequence = static_cast<double>(row.sequence);
        fit.curve.sequence.low = std::min(fit.curve.sequence.low, sequence);
        fit.curve.sequence.high = std::max(fit.curve.sequence.high, sequence);
    }
    return fit;
}

}  // namespace orrery::fit
