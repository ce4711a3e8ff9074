#include "calib/fit/fit_profile.hpp"

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calib/fit/collectives.hpp"
#include "calib/fit/datasheet.hpp"
#include "calib/fit/derived_profile.hpp"
#include "calib/fit/fit_attention.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/fit_gemm.hpp"
#include "calib/fit/write_profile.hpp"
#include "sim/network/collective_table.hpp"

namespace orrery::fit {
namespace {

constexpr int kDigits = 4;  // of fitted coefficients and errors
constexpr int kPointDigits = 4;

Json held_out_json(const ErrorSummary& summary) {
    Json json;
    json["rows"] = summary.absolute.rows;
    json["mean_abs_error"] = rounded(summary.absolute.mean_abs_error, kDigits);
    json["median_abs_error"] = rounded(summary.absolute.median_abs_error, kDigits);
    json["p95_abs_error"] = rounded(summary.absolute.p95_abs_error, kDigits);
    return json;
}

Json span_json(const sim::Span& span) {
    return Json::array({static_cast<std::int64_t>(span.low), static_cast<std::int64_t>(span.high)});
}

Json gemm_json(const GemmFit& fit, const std::string& source, const Json& sustained) {
    const sim::GemmCurve& curve = fit.curve;
    Json json;
    json["measured"] = true;
    json["source"] = fmt::format(
        "{}; fitted to {} rows, relative Huber least squares; without the neighbours the held-out "
        "mean error is {:.1f} %, the mean signed error with them {:+.1f} %",
        source, fit.fitted_rows, 100 * fit.held_out_curve_only.absolute.mean_abs_error,
        100 * fit.held_out.bias);
    json["t0_us"] = rounded(curve.t0_us, kDigits);
    json["rate_tflops"] = rounded(curve.rate_tflops, kDigits);
    json["bandwidth_GBps"] = rounded(curve.bandwidth_GBps, kDigits);
    json["sustained"] = sustained;
    json["relative_sd"] = rounded(curve.relative_sd, kDigits);
    json["held_out"] = held_out_json(fit.held_out);
    json["m"] = span_json(curve.m);
    json["n"] = span_json(curve.n);
    json["k"] = span_json(curve.k);
    json["neighbours"] = Json::array();
    for (const sim::NeighbourPoint& p : curve.neighbours)
        json["neighbours"].push_back(
            Json::array({rounded(p.log2_m, kPointDigits), rounded(p.log2_n, kPointDigits),
                         rounded(p.log2_k, kPointDigits), rounded(p.ratio, kPointDigits)}));
    return json;
}

Json attention_json(const AttentionFit& fit, const std::string& source) {
    Json json;
    json["measured"] = true;
    json["source"] = fmt::format(
        "{}; fitted to {} rows, relative Huber least squares; held-out mean signed error {:+.1f} %",
        source, fit.fitted_rows, 100 * fit.held_out.bias);
    json["t0_us"] = rounded(fit.curve.t0_us, kDigits);
    json["query_element_ps"] = rounded(fit.curve.query_element_ps, kDigits);
    json["key_element_ps"] = rounded(fit.curve.key_element_ps, kDigits);
    json["rate_tflops"] = rounded(fit.curve.rate_tflops, kDigits);
    json["relative_sd"] = rounded(fit.curve.relative_sd, kDigits);
    json["held_out"] = held_out_json(fit.held_out);
    json["sequence"] = span_json(fit.curve.sequence);
    return json;
}

void add_gemm(const FitInputs& inputs, const Json& tables, Json& profile, FitReport& report) {
    const Json& wanted =
        request(tables, "/tables", "gemm", {"dtype", "source", "sustained"}, inputs.datasheet_path);
    const std::string name = text_of(wanted, "dtype", inputs.datasheet_path);
    const auto dtype = plan::from_name<plan::DType>(name);
    if (!dtype)
        throw FitError(fmt::format("{}: /tables/gemm/dtype: '{}' is no element type",
                                   inputs.datasheet_path, name));
    const auto rows =
        read_gemm_rows(inputs.gemm_csv, text_of(tables, "system", inputs.datasheet_path), name);
    const GemmFit fit = fit_gemm(rows, static_cast<double>(plan::size_bytes(*dtype)));
    profile["gemm"][name] =
        gemm_json(fit, text_of(wanted, "source", inputs.datasheet_path), wanted.at("sustained"));
    FamilyReport family;
    family.family = "gemm " + name;
    family.fitted_rows = fit.fitted_rows;
    family.left_out_rows = fit.odd_rows;
    family.held_out = fit.held_out;
    family.parameters = fmt::format(
        "t0 {:.2f} us, {:.1f} TFLOP/s, {:.0f} GB/s, {} neighbour points (without them {:.1f} %)",
        fit.curve.t0_us, fit.curve.rate_tflops, fit.curve.bandwidth_GBps,
        fit.curve.neighbours.size(), 100 * fit.held_out_curve_only.absolute.mean_abs_error);
    report.families.push_back(family);
}

void add_attention(const FitInputs& inputs, const Json& tables, Json& profile, FitReport& report) {
    const Json& wanted = request(tables, "/tables", "attention", {"source"}, inputs.datasheet_path);
    const std::string source = text_of(wanted, "source", inputs.datasheet_path);
    const auto rows =
        read_attention_rows(inputs.attention_csv, text_of(tables, "system", inputs.datasheet_path));
    for (const std::int64_t head_dim : head_dims(rows)) {
        const AttentionFit fit = fit_attention(rows, head_dim);
        profile["attention"]["forward"][std::to_string(head_dim)] = attention_json(fit, source);
        FamilyReport family;
        family.family = fmt::format("attention d{}", head_dim);
        family.fitted_rows = fit.fitted_rows;
        family.held_out = fit.held_out;
        family.parameters = fmt::format(
            "t0 {:.2f} us, {:.3f} ps per query element, {:.3f} ps per key element, {:.1f} TFLOP/s",
            fit.curve.t0_us, fit.curve.query_element_ps, fit.curve.key_element_ps,
            fit.curve.rate_tflops);
        report.families.push_back(family);
    }
}

void add_collectives(const FitInputs& inputs, const Json& tables, Json& profile) {
    const std::string& path = inputs.datasheet_path;
    const Json& wanted = request(tables, "/tables", "collectives",
                                 {"library", "intra_node_bandwidth_GBps", "hierarchical"}, path);
    const Json& bandwidth = wanted.at("intra_node_bandwidth_GBps");
    if (!bandwidth.is_number() || !wanted.at("hierarchical").is_boolean())
        throw FitError(fmt::format(
            "{}: /tables/collectives: a number of GB/s and true or false are expected", path));
    CollectiveFit fit;
    fit.system = text_of(tables, "system", path);
    fit.library = text_of(wanted, "library", path);
    fit.intra_node_bandwidth_GBps = bandwidth.get<double>();
    fit.hierarchical = wanted.at("hierarchical").get<bool>();
    const auto samples = collective_samples(CsvTable(inputs.collectives_csv, kCollectiveColumns));
    profile["collectives"] = Json(fit_collectives(samples, fit));
}

std::vector<CollectiveReport> report_collectives(const sim::Profile& profile) {
    std::vector<CollectiveReport> reports;
    if (profile.collectives_json.empty()) return reports;
    const auto table = sim::parse_collectives(profile.collectives_json, profile.path);
    for (const sim::CollectiveCurve& curve : table.curves)
        reports.push_back({std::string(plan::name(curve.collective)), curve.ranks,
                           curve.points.size(), curve.relative_sd});
    return reports;
}

void write_text(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) throw FitStorageError(fmt::format("{}: cannot be written", path));
}

}  // namespace

FitReport fit_profile(const FitInputs& inputs) {
    const Json datasheet = read_json_object(inputs.datasheet_path);
    const bool fits = datasheet.contains("tables");
    const bool derived = datasheet.contains("like");
    if ((!fits && !derived) ||
        (fits && (!datasheet["tables"].is_object() || !datasheet["tables"].contains("system"))))
        throw FitError(
            fmt::format("{}: /tables/system: missing, nothing to fit", inputs.datasheet_path));
    const Json tables = fits ? datasheet["tables"] : Json::object();
    Json profile = derived ? derived_profile(datasheet, inputs.datasheet_path) : datasheet;
    profile.erase("tables");
    if (!derived && datasheet.contains("links")) {
        profile.erase("links");
        profile["collectives"] = unmeasured_links(datasheet, inputs.datasheet_path);
    }
    for (const auto& item : tables.items())
        if (item.key() != "system" && item.key() != "gemm" && item.key() != "attention" &&
            item.key() != "collectives")
            throw FitError(
                fmt::format("{}: /tables/{}: unknown key", inputs.datasheet_path, item.key()));
    FitReport report;
    if (tables.contains("gemm")) add_gemm(inputs, tables, profile, report);
    if (tables.contains("attention")) add_attention(inputs, tables, profile, report);
    if (tables.contains("collectives")) add_collectives(inputs, tables, profile);
    const std::string text = profile_text(profile);
    const sim::Profile result = sim::parse_profile(text, inputs.output_path);
    report.device = result.device;
    report.collectives = report_collectives(result);
    write_text(inputs.output_path, text);
    return report;
}

}  // namespace orrery::fit
