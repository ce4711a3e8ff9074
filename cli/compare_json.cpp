#include <algorithm>

#include "cli/compare.hpp"
#include "cli/json_values.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

Json spread_json(const compare::Spread& spread) {
    return {{"low", spread.low}, {"median", spread.median}, {"high", spread.high}};
}

Json pair_json(const compare::TimePair& pair) {
    return {{"predicted_s", pair.predicted_s},
            {"measured_s", pair.measured_s},
            {"error_pct", or_null(pair.error_pct())}};
}

Json step_json(const compare::Comparison& comparison) {
    Json json = pair_json(comparison.step);
    json["steps_measured"] = comparison.steps_measured;
    json["step_times_s"] =
        comparison.step_times_s ? spread_json(*comparison.step_times_s) : Json(nullptr);
    return json;
}

Json memory_json(const compare::MemoryComparison& memory) {
    return {{"predicted_peak_bytes", or_null(memory.predicted_peak)},
            {"measured_peak_bytes", or_null(memory.measured_peak)},
            {"predicted_other_bytes", or_null(memory.predicted_other)},
            {"measured_other_bytes", or_null(memory.measured_other)}};
}

Json kinds_json(const std::vector<compare::KindComparison>& kinds) {
    Json json = Json::array();
    for (const compare::KindComparison& kind : kinds) {
        Json row = {{"kind", plan::name(kind.kind)}};
        row.update(pair_json(kind.time));
        row["count"] = kind.count;
        row["rank_error_pct"] =
            kind.rank_error_pct ? spread_json(*kind.rank_error_pct) : Json(nullptr);
        json.push_back(std::move(row));
    }
    return json;
}

Json ops_json(const std::vector<compare::OpComparison>& ops, std::size_t top) {
    Json json = Json::array();
    const std::size_t shown = top == 0 ? ops.size() : std::min(top, ops.size());
    for (std::size_t i = 0; i < shown; ++i) {
        const compare::OpComparison& op = ops[i];
        Json row = {
            {"block", op.name->block},
            {"label", op.name->label},
            {"kind", plan::name(op.name->kind)},
            {"group", op.name->group == plan::GroupKind::none ? Json(nullptr)
                                                              : Json(plan::name(op.name->group))},
            {"layers", op.layers}};
        row.update(pair_json(op.time));
        row["count"] = op.count;
        row["predicted_each_s"] = spread_json(op.predicted_each_s);
        row["measured_each_s"] = spread_json(op.measured_each_s);
        row["share_of_error"] = op.share_of_error;
        json.push_back(std::move(row));
    }
    return json;
}

// How long transfers take, hidden or not: of groups that have any.
Json communication_json(const compare::Comparison& comparison) {
    Json json = Json::object();
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        const compare::TimePair& busy = comparison.communication[a];
        if (busy.predicted_s == 0 && busy.measured_s == 0) continue;
        constexpr std::size_t kPrefix = std::string_view("exposed_").size();
        json[std::string(trace::name(static_cast<trace::Account>(a)).substr(kPrefix))] =
            pair_json(busy);
    }
    return json;
}

// Of what either side says.
Json storage_json(const compare::Comparison& comparison) {
    Json json = Json::object();
    for (const auto& [name, value] : trace::kStorageFacts) {
        const auto& predicted = comparison.predicted_storage.*value;
        const auto& measured = comparison.measured_storage.*value;
        if (!predicted && !measured) continue;
        json[std::string(name)] = {{"predicted", or_null(predicted)},
                                   {"measured", or_null(measured)}};
    }
    return json;
}

}  // namespace

std::string comparison_json(const ComparisonReport& report) {
    const compare::Comparison& comparison = report.comparison;
    Json json;
    json["predicted"] = report.predicted;
    json["measured"] = report.measured;
    json["prices"] = report.prices;
    const Json scenario = Json::parse(report.resolved_json);
    if (scenario.contains("imported")) json["imported"] = scenario["imported"];
    json["backend"] = comparison.backend.empty() ? Json(nullptr) : Json(comparison.backend);
    json["correctness_only"] = comparison.correctness_only;
    json["ranks"] = comparison.ranks;
    json["step"] = step_json(comparison);
    json["memory"] = memory_json(comparison.memory);
    json["storage"] = storage_json(comparison);
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        json["accounts"][std::string(trace::name(static_cast<trace::Account>(a)))] =
            pair_json(comparison.accounts[a]);
    json["communication"] = communication_json(comparison);
    json["kinds"] = kinds_json(comparison.kinds);
    json["ops"] = ops_json(comparison.ops, report.top);
    for (std::size_t s = 0; s < plan::kStreams; ++s)
        json["streams"][std::string(plan::name(static_cast<plan::Stream>(s)))] =
            pair_json(comparison.busy[s]);
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::cli
