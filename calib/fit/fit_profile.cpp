#include "calib/fit/fit_profile.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "calib/fit/collectives.hpp"
#include "calib/fit/curve_json.hpp"
#include "calib/fit/datasheet.hpp"
#include "calib/fit/derived_profile.hpp"
#include "calib/fit/fit_attention.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/fit_gemm.hpp"
#include "calib/fit/write_profile.hpp"
#include "plan/scenario/spellings.hpp"

namespace orrery::fit {
namespace {

// Eight-bit products with one scale for a tensor, and how others compare, as the datasheet says.
// With "quantizes" their timings include the quantization of the first operand; a product alone
// starts as one of 16 bits does.
void add_eight_bit_gemm(const FitInputs& inputs, const Json& tables, Json& profile,
                        FitReport& report) {
    const Json& wanted =
        request(tables, "/tables", "gemm_fp8", {"source", "sustained", "quantizes", "scales"},
                inputs.datasheet_path);
    const std::string name = "fp8";
    if (!wanted.at("quantizes").is_boolean() || !tables.contains("gemm"))
        throw FitError(fmt::format(
            "{}: /tables/gemm_fp8: beside /tables/gemm, and true or false for \"quantizes\"",
            inputs.datasheet_path));
    std::optional<double> product_t0_us;
    if (wanted.at("quantizes").get<bool>()) {
        const auto wide = text_of(tables.at("gemm"), "dtype", inputs.datasheet_path);
        product_t0_us = profile.at("gemm").at(wide).at("t0_us").get<double>();
    }
    const auto rows =
        read_gemm_rows(inputs.gemm_csv, text_of(tables, "system", inputs.datasheet_path), name);
    const GemmFit fit =
        fit_gemm(rows, static_cast<double>(plan::size_bytes(plan::DType::fp8_e4m3)), product_t0_us);
    Json& curve = profile["gemm"][name];
    curve =
        curve_json(fit, text_of(wanted, "source", inputs.datasheet_path), wanted.at("sustained"));
    for (const auto& [scales, ratio] : wanted.at("scales").items())
        curve[scales + "_scales"] = ratio;
    report.families.push_back(family_report(name, fit));
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
        curve_json(fit, text_of(wanted, "source", inputs.datasheet_path), wanted.at("sustained"));
    report.families.push_back(family_report(name, fit));
}

void add_attention(const FitInputs& inputs, const Json& tables, Json& profile, FitReport& report) {
    const Json& wanted = request(tables, "/tables", "attention", {"source"}, inputs.datasheet_path);
    const std::string source = text_of(wanted, "source", inputs.datasheet_path);
    const auto rows =
        read_attention_rows(inputs.attention_csv, text_of(tables, "system", inputs.datasheet_path));
    for (const std::int64_t head_dim : head_dims(rows)) {
        const AttentionFit fit = fit_attention(rows, head_dim);
        profile["attention"]["forward"][std::to_string(head_dim)] = curve_json(fit, source);
        report.families.push_back(family_report(fit));
    }
}

void add_collectives(const FitInputs& inputs, const Json& tables, Json& profile) {
    const std::string& path = inputs.datasheet_path;
    const Json& wanted = request(tables, "/tables", "collectives",
                                 {"library", "intra_node_bandwidth_GBps", "intra_node_kind",
                                  "intra_node_latency_us", "hierarchical"},
                                 path);
    const Json& bandwidth = wanted.at("intra_node_bandwidth_GBps");
    const Json& latency = wanted.at("intra_node_latency_us");
    if (!bandwidth.is_number() || !latency.is_number() || !wanted.at("hierarchical").is_boolean())
        throw FitError(
            fmt::format("{}: /tables/collectives: numbers of GB/s and of microseconds, and true or "
                        "false are expected",
                        path));
    const std::string kind = text_of(wanted, "intra_node_kind", path);
    const auto link = plan::value_spelled<plan::IntraNodeKind>(kind);
    if (!link)
        throw FitError(fmt::format(
            "{}: /tables/collectives/intra_node_kind: no link is called \"{}\"", path, kind));
    CollectiveFit fit;
    fit.system = text_of(tables, "system", path);
    fit.library = text_of(wanted, "library", path);
    fit.intra_node_bandwidth_GBps = bandwidth.get<double>();
    fit.link = {*link, latency.get<double>()};
    fit.hierarchical = wanted.at("hierarchical").get<bool>();
    const auto samples = collective_samples(CsvTable(inputs.collectives_csv, kCollectiveColumns));
    profile["collectives"] = Json(fit_collectives(samples, fit));
}

}  // namespace

std::vector<std::string> files_of_datasheet(const std::string& path) {
    std::vector<std::string> files = {path};
    const std::string like = like_profile_path(read_json_object(path), path);
    if (!like.empty()) files.push_back(like);
    return files;
}

namespace {

// A table that fit is given, and the keys of a datasheet's "tables" that ask for it.
struct GivenTable {
    const char* option;
    std::string FitInputs::*csv;
    std::vector<std::string> keys;
};

const std::vector<GivenTable>& given_tables() {
    static const std::vector<GivenTable> kAll = {
        {"--gemm", &FitInputs::gemm_csv, {"gemm", "gemm_fp8"}},
        {"--attention", &FitInputs::attention_csv, {"attention"}},
        {"--collectives", &FitInputs::collectives_csv, {"collectives"}}};
    return kAll;
}

// That what the datasheet asks for is given; returns what is given and not asked for. Throws
// FitError with all that is lacking.
std::vector<std::string> unread_tables(const FitInputs& inputs, const Json& tables) {
    std::vector<std::string> faults, unread;
    std::set<std::string> known = {"system"};
    for (const auto& [option, csv, keys] : given_tables()) {
        known.insert(keys.begin(), keys.end());
        const bool given = !(inputs.*csv).empty();
        const auto asks = [&](const std::string& key) { return tables.contains(key); };
        const auto asked = std::find_if(keys.begin(), keys.end(), asks);
        if (asked != keys.end() && !given)
            faults.push_back(fmt::format("/tables/{}: asks for a table: {} CSV", *asked, option));
        if (asked == keys.end() && given)
            unread.push_back(fmt::format("{} {}", option, inputs.*csv));
    }
    for (const auto& item : tables.items())
        if (!known.contains(item.key()))
            faults.push_back(fmt::format("/tables/{}: unknown key", item.key()));
    if (!faults.empty())
        throw FitError(fmt::format("{}: {}", inputs.datasheet_path, fmt::join(faults, "; ")));
    return unread;
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
    FitReport report;
    report.unread = unread_tables(inputs, tables);
    if (tables.contains("gemm")) add_gemm(inputs, tables, profile, report);
    if (tables.contains("gemm_fp8")) add_eight_bit_gemm(inputs, tables, profile, report);
    if (tables.contains("attention")) add_attention(inputs, tables, profile, report);
    if (tables.contains("collectives")) add_collectives(inputs, tables, profile);
    const sim::Profile result = write_profile(profile, inputs.output_path);
    report.device = result.device;
    report.collectives = collective_reports(result);
    return report;
}

}  // namespace orrery::fit
