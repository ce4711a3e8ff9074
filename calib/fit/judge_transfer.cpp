#include "calib/fit/judge_transfer.hpp"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "calib/fit/carry_over.hpp"
#include "calib/fit/collectives.hpp"
#include "calib/fit/datasheet.hpp"
#include "calib/fit/fit_attention.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/fit_gemm.hpp"
#include "calib/fit/write_profile.hpp"
#include "plan/scenario/spellings.hpp"
#include "sim/cost/attention_model.hpp"
#include "sim/cost/gemm_model.hpp"
#include "sim/network/collective_cost.hpp"

namespace orrery::fit {
namespace {

ErrorSummary judge_gemm(const sim::Profile& profile, const FitInputs& inputs,
                        const std::string& system, const std::string& name) {
    const auto dtype = plan::from_name<plan::DType>(name);
    if (!dtype || !profile.gemm[static_cast<std::size_t>(*dtype)])
        throw FitError(fmt::format("{}: no GEMM curve of {} can be carried over",
                                   inputs.datasheet_path, name));
    sim::GemmCurve curve = *profile.gemm[static_cast<std::size_t>(*dtype)];
    curve.sustained = 1;
    std::vector<double> errors;
    for (const GemmRow& row : read_gemm_rows(inputs.gemm_csv, system, name)) {
        if (row.m % 2 != 0) continue;  // as in fit_gemm
        const sim::GemmShape shape{static_cast<double>(row.m), static_cast<double>(row.n),
                                   static_cast<double>(row.k)};
        errors.push_back(
            sim::gemm_seconds(curve, shape, static_cast<double>(plan::size_bytes(*dtype))) /
                (row.time_us * 1e-6) -
            1);
    }
    return summarize(std::move(errors));
}

ErrorSummary judge_attention(const sim::AttentionCurve& curve,
                             const std::vector<AttentionRow>& rows) {
    std::vector<double> errors;
    for (const AttentionRow& row : rows)
        if (row.head_dim == curve.head_dim)
            errors.push_back(sim::attention_seconds(curve, shape_of(row)) / (row.time_us * 1e-6) -
                             1);
    return summarize(std::move(errors));
}

ErrorSummary judge_collectives(const sim::Profile& profile, const FitInputs& inputs,
                               const std::string& system, const Json& wanted) {
    plan::Cluster cluster;
    cluster.intra_node.bandwidth_GBps = wanted.at("intra_node_bandwidth_GBps").get<double>();
    cluster.intra_node.kind =
        *plan::value_spelled<plan::IntraNodeKind>(wanted.at("intra_node_kind").get<std::string>());
    cluster.intra_node.latency_us = wanted.at("intra_node_latency_us").get<double>();
    const std::string library = text_of(wanted, "library", inputs.datasheet_path);
    std::map<std::pair<std::string, int>, std::vector<CollectiveSample>> groups;
    for (const CollectiveSample& sample :
         collective_samples(CsvTable(inputs.collectives_csv, kCollectiveColumns))) {
        if (sample.system != system || sample.library != library || sample.nodes != 1) continue;
        if (sample.ranks < 2 || sample.collective == "all_to_all") continue;
        groups[{sample.collective, sample.ranks}].push_back(sample);
        cluster.devices_per_node = std::max<std::int64_t>(cluster.devices_per_node, sample.ranks);
    }
    const sim::Network network(cluster,
                               sim::parse_collectives(profile.collectives_json, profile.path));
    std::vector<double> errors;
    for (const auto& [key, samples] : groups)
        for (const sim::CurvePoint& point : monotone_medians(samples)) {
            const sim::Price price = network.collective(*plan::from_name<plan::OpKind>(key.first),
                                                        static_cast<std::int64_t>(point.bytes),
                                                        {key.second, 1, key.second, 1});
            errors.push_back(price.seconds / point.seconds - 1);
        }
    return summarize(std::move(errors));
}

}  // namespace

TransferReport judge_transfer(const FitInputs& inputs, const std::string& like_path) {
    const Json datasheet = read_json_object(inputs.datasheet_path);
    if (!datasheet.contains("tables") || !datasheet["tables"].contains("system"))
        throw FitError(
            fmt::format("{}: /tables/system: missing, nothing to judge by", inputs.datasheet_path));
    const Json& tables = datasheet["tables"];
    const std::string system = text_of(tables, "system", inputs.datasheet_path);
    Json bare;  // without what it states of the curves itself
    for (const char* key : {"format", "version", "device", "provenance", "hardware"})
        if (datasheet.contains(key)) bare[key] = datasheet.at(key);
    const sim::Profile profile = sim::parse_profile(
        profile_text(carry_over(bare, like_path, TransferError(), inputs.datasheet_path)),
        inputs.datasheet_path);
    TransferReport report;
    report.from = sim::load_profile(like_path).device;
    report.device = profile.device;
    if (tables.contains("gemm")) {
        const std::string dtype = text_of(tables.at("gemm"), "dtype", inputs.datasheet_path);
        report.families.push_back({"gemm " + dtype, judge_gemm(profile, inputs, system, dtype)});
    }
    if (tables.contains("attention")) {
        const auto rows = read_attention_rows(inputs.attention_csv, system);
        for (const std::int64_t head_dim : head_dims(rows))
            for (const sim::AttentionCurve& curve : profile.attention.forward)
                if (curve.head_dim == head_dim)
                    report.families.push_back(
                        {fmt::format("attention d{}", head_dim), judge_attention(curve, rows)});
    }
    if (tables.contains("collectives"))
        report.families.push_back(
            {"collectives", judge_collectives(profile, inputs, system, tables.at("collectives"))});
    return report;
}

}  // namespace orrery::fit
