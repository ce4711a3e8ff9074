#include <optional>

#include "cli/diff.hpp"
#include "cli/json_values.hpp"
#include "cli/model_facts.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

Json parsed_or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json::parse(text);
}

Json side_json(const ReportInput& side) {
    const sim::Prediction& prediction = side.prediction;
    const sim::StageMemory& worst = prediction.memory.worst();
    Json memory;
    for (std::size_t c = 0; c < plan::kMemoryCategories; ++c)
        memory[std::string(plan::name(static_cast<plan::MemoryCategory>(c))) + "_bytes"] =
            worst.bytes[c];
    memory["other_bytes"] = worst.other_bytes;
    memory["peak_bytes"] = worst.peak_bytes;
    memory["capacity_bytes"] = prediction.memory.capacity_bytes;
    memory["verdict"] = sim::name(prediction.memory.verdict);
    Json model;
    for (const ModelFact& fact : model_facts(side.scenario))
        model[fact.key] = fact.json();
    return {{"scenario", Json::parse(side.resolved_json)},
            {"model", std::move(model)},
            {"step_time_s", prediction.step.time_s},
            {"tokens_per_s", prediction.throughput.tokens_per_s},
            {"tokens_per_s_per_gpu", prediction.throughput.tokens_per_s_per_gpu},
            {"mfu", prediction.throughput.mfu},
            {"hfu", prediction.throughput.hfu},
            {"gpus", prediction.run.gpus},
            {"days", or_null(prediction.run.days)},
            {"gpu_hours", or_null(prediction.run.gpu_hours)},
            {"cost_usd", or_null(prediction.run.cost_usd)},
            {"memory", std::move(memory)}};
}

Json group_json(plan::GroupKind group) {
    return group == plan::GroupKind::none ? Json(nullptr) : Json(plan::name(group));
}

Json counts_json(const trace::OpCounts& counts) {
    return {{"a", counts.a_ops},
            {"b", counts.b_ops},
            {"aligned", counts.aligned},
            {"longer", counts.longer},
            {"shorter", counts.shorter},
            {"moved", counts.moved},
            {"resized", counts.resized},
            {"a_alone", counts.a_ops - counts.aligned},
            {"b_alone", counts.b_ops - counts.aligned}};
}

Json op_json(const trace::OpDifference& op) {
    const trace::OpName& name = op.name();
    const char* one = op.a == nullptr ? "b" : "a";
    return {{"block", name.block},
            {"op", name.label},
            {"kind", plan::name(name.kind)},
            {"phase", plan::name(name.phase)},
            {"group", group_json(name.group)},
            {"in", op.a != nullptr && op.b != nullptr ? "both" : one},
            {"count", op.count},
            {"resized", op.resized()},
            {"a_s", op.a_s},
            {"b_s", op.b_s},
            {"difference_s", op.b_s - op.a_s}};
}

Json stage_json(const trace::StageDifference& stage) {
    return {{"stage", stage.stage},
            {"kind", plan::name(stage.kind)},
            {"group", group_json(stage.group)},
            {"a_s", stage.a_s},
            {"b_s", stage.b_s},
            {"difference_s", stage.b_s - stage.a_s}};
}

}  // namespace

std::string diff_json(const DiffReport& report) {
    const sim::Difference& difference = report.difference;
    Json accounts;
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        accounts[std::string(trace::name(static_cast<trace::Account>(a)))] = {
            {"a_s", sim::to_seconds(difference.accounts_a[a])},
            {"b_s", sim::to_seconds(difference.accounts_b[a])},
            {"difference_s", sim::to_seconds(difference.accounts_b[a] - difference.accounts_a[a])}};
    Json busy = Json::array();
    for (const sim::BusyDifference& op : difference.busy)
        busy.push_back({{"kind", plan::name(op.kind)},
                        {"group", group_json(op.group)},
                        {"a_s", op.a_s},
                        {"b_s", op.b_s},
                        {"difference_s", op.b_s - op.a_s}});
    Json ops = Json::array();
    for (const trace::OpDifference& op : report.ops.ops)
        ops.push_back(op_json(op));
    Json stages = Json::array();
    for (const trace::StageDifference& stage : report.ops.stages)
        stages.push_back(stage_json(stage));
    Json keys = Json::array();
    for (const plan::KeyDifference& key : report.keys)
        keys.push_back(
            {{"pointer", key.pointer}, {"a", parsed_or_null(key.a)}, {"b", parsed_or_null(key.b)}});
    Json json;
    json["summary"] = diff_sentence(report);
    json["step"] = {{"a_s", sim::to_seconds(difference.step_a)},
                    {"b_s", sim::to_seconds(difference.step_b)},
                    {"difference_s", sim::to_seconds(difference.step_b - difference.step_a)}};
    json["accounts"] = std::move(accounts);
    json["busy"] = std::move(busy);
    json["op_counts"] = counts_json(report.ops.counts);
    json["ops"] = std::move(ops);
    json["stages"] = std::move(stages);
    json["keys"] = std::move(keys);
    json["a"] = side_json(report.a);
    json["b"] = side_json(report.b);
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::cli
