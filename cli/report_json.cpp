#include <array>
#include <optional>
#include <sstream>

#include "cli/json_values.hpp"
#include "cli/machine_files.hpp"
#include "cli/report.hpp"
#include "cli/report_sections.hpp"
#include "sim/stack_prior.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

// The stack that was simulated, and how much of it was measured on the device.
Json software_json(const plan::Framework& framework, const sim::Profile& profile) {
    const sim::StackPrior prior = sim::stack_prior(framework, profile);
    return {{"framework", framework.name},
            {"assumed", framework.assumed},
            {"timed_on_device", sim::timed_on(framework, profile)},
            {"memory_measured", sim::memory_known(framework, profile)},
            {"prior_sd",
             {{"step_early", prior.step_early},
              {"step_late", prior.step_late},
              {"memory_more", prior.memory_more}}}};
}

// What other stacks need for the same layout.
Json stacks_json(const std::vector<sim::StackNeed>& stacks) {
    Json json = Json::array();
    for (const sim::StackNeed& need : stacks)
        if (need.lacks.empty())
            json.push_back({{"framework", need.stack},
                            {"peak_bytes", need.peak_bytes},
                            {"fit_probability", need.fit_probability},
                            {"verdict", sim::name(need.verdict)}});
        else
            json.push_back({{"framework", need.stack}, {"lacks", need.lacks}});
    return json;
}

Json memory_json(const sim::MemoryPrediction& memory) {
    Json stages = Json::array();
    for (std::size_t i = 0; i < memory.stages.size(); ++i) {
        const sim::StageMemory& stage = memory.stages[i];
        Json json;
        json["stage"] = i;
        for (std::size_t c = 0; c < plan::kMemoryCategories; ++c) {
            const auto category = static_cast<plan::MemoryCategory>(c);
            json[std::string(plan::name(category)) + "_bytes"] = stage.bytes[c];
        }
        json["other_bytes"] = stage.other_bytes;
        json["peak_bytes"] = stage.peak_bytes;
        json["peak_at"] = stage.peak_at;
        json["host_bytes"] = stage.host_bytes;
        json["disk_bytes"] = stage.disk_bytes;
        stages.push_back(std::move(json));
    }
    // Beside the stages, whose bytes add up to their peaks.
    Json capacities = Json::array();
    bool unlike = false;
    for (const sim::StageMemory& stage : memory.stages) {
        capacities.push_back(stage.capacity_bytes);
        unlike = unlike || stage.capacity_bytes != memory.capacity_bytes;
    }
    Json json = {{"capacity_bytes", memory.capacity_bytes},
                 {"capacity_source", memory.capacity_source},
                 {"fits", memory.verdict != sim::Verdict::exceeds},
                 {"fit_probability", memory.fit_probability},
                 {"verdict", sim::name(memory.verdict)},
                 {"stages", std::move(stages)}};
    if (unlike) json["stage_capacities"] = std::move(capacities);
    const auto node = [&](const char* key, const sim::NodeMemory& tier) {
        if (tier.bytes == 0) return;
        json[key] = {{"ranks", tier.ranks},
                     {"bytes", tier.bytes},
                     {"capacity_bytes", tier.capacity_bytes},
                     {"fits", !tier.exceeded()}};
    };
    node("host_of_node", memory.host);
    node("disk_of_node", memory.disk);
    return json;
}

Json heaviest_json(const std::optional<sim::HeaviestChunk>& chunk) {
    if (!chunk) return nullptr;
    return {{"stage", chunk->stage},   {"pipeline_rank", chunk->pipeline_rank},
            {"time_s", chunk->time_s}, {"mean_s", chunk->mean_s},
            {"op", chunk->op},         {"op_excess_s", chunk->op_excess_s}};
}

Json step_json(const sim::StepPrediction& step) {
    Json breakdown;
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        breakdown[std::string(trace::name(static_cast<trace::Account>(a)))] = step.breakdown_s[a];
    Json parts;
    for (std::size_t part = 0; part < sim::kIntervalParts; ++part)
        parts[std::string(sim::name(static_cast<sim::IntervalPart>(part)))] = {
            {"early", step.interval_parts[part].early}, {"late", step.interval_parts[part].late}};
    Json json = {{"time_s", step.time_s},
                 {"interval_s", {step.low_s, step.high_s}},
                 {"interval_parts", std::move(parts)},
                 {"breakdown_s", std::move(breakdown)},
                 {"bubble_fraction", step.bubble_fraction},
                 {"heaviest_chunk", heaviest_json(step.heaviest_chunk)}};
    if (step.dropped_share > 0) json["dropped_share"] = step.dropped_share;
    if (step.routing)
        json["routing"] = {{"fullest_rank", step.routing->fullest},
                           {"added_s", step.routing->added_s}};
    if (step.stragglers) json["stragglers"] = stragglers_json(*step.stragglers);
    if (step.draws) json["draws"] = draws_json(*step.draws);
    return json;
}

Json throughput_json(const sim::ThroughputPrediction& throughput) {
    return {{"tokens_per_s", throughput.tokens_per_s},
            {"tokens_per_s_per_gpu", throughput.tokens_per_s_per_gpu},
            {"model_tflops_per_gpu", throughput.model_tflops_per_gpu},
            {"mfu", throughput.mfu},
            {"mfu_causal", throughput.mfu_causal},
            {"hfu", throughput.hfu},
            {"peak_tflops", throughput.peak_tflops},
            {"peak_source", throughput.peak_source}};
}

// What a device is rented for: the scenario's own price, or that of a list.
Json price_json(const plan::Cluster& cluster) {
    const double all = cluster.usd_per_hour(cluster.devices());
    if (all <= 0) return nullptr;
    const bool alike = cluster.other_nodes.empty();
    const bool listed =
        std::any_of(cluster.other_nodes.begin(), cluster.other_nodes.end(),
                    [](const plan::Cluster& others) { return others.list_price.has_value(); });
    Json json = {{"usd_per_gpu_hour", alike ? cluster.usd_per_device_hour()
                                            : all / static_cast<double>(cluster.devices())},
                 {"assumed", cluster.list_price.has_value() || listed}};
    if (const std::optional<plan::ListPrice>& list = cluster.list_price; list && alike)
        json.update(Json{{"low_usd", list->low_usd},
                         {"high_usd", list->high_usd},
                         {"date", list->date},
                         {"source", list->source}});
    return json;
}

Json run_json(const sim::RunPrediction& run, const plan::Cluster& cluster) {
    return {{"gpus", run.gpus},
            {"idle_gpus", run.idle_gpus},
            {"days", or_null(run.days)},
            {"gpu_hours", or_null(run.gpu_hours)},
            {"rented_gpu_hours", or_null(run.rented_gpu_hours)},
            {"price", price_json(cluster)},
            {"cost_usd", or_null(run.cost_usd)},
            {"cost_nodes_used_usd", or_null(run.cost_nodes_used_usd)},
            {"energy_mwh", or_null(run.energy_mwh)}};
}

Json lines_json(const std::string& text) {
    Json lines = Json::array();
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    return lines;
}

// Groups with more than one member, and what has traffic nevertheless.
Json communication_json(const ReportInput& input) {
    Json json = Json::object();
    for (const CommunicationGroup& group : communication_groups(input.scenario.layout)) {
        const trace::CommunicationSums& sums =
            input.prediction.communication[static_cast<std::size_t>(group.account)];
        if (group.ranks < 2 && sums.bytes_per_rank == 0) continue;
        json[group.name] = {{"bytes_per_rank", sums.bytes_per_rank},
                            {"busy_s", sums.busy_s},
                            {"exposed_s", sums.exposed_s}};
    }
    return json;
}

// What moves between tiers of memory.
Json copies_json(const trace::CopySums& copies) {
    Json json = Json::object();
    for (std::size_t kind = 0; kind < trace::kCopyKinds; ++kind)
        if (copies[kind].bytes_per_rank > 0)
            json[std::string(plan::name(trace::copy_kind(kind)))] = {
                {"bytes_per_rank", copies[kind].bytes_per_rank},
                {"busy_s", copies[kind].busy_s},
                {"exposed_s", copies[kind].exposed_s}};
    return json;
}

}  // namespace

Json prices_json(const sim::PriceSources& prices) {
    const auto name_of = [](std::size_t source) {
        return std::string(sim::name(static_cast<sim::PriceSource>(source)));
    };
    Json json = {{"trace", prices.path}};
    for (std::size_t source = 0; source < sim::kPriceSources; ++source)
        json[name_of(source)] = {{"ops", prices.ops[source]}, {"share", prices.share[source]}};
    json["kinds"] = Json::array();
    for (const sim::PriceSources::OfKind& kind : prices.kinds) {
        Json of_kind = {{"kind", plan::name(kind.kind)}, {"over_model", kind.over_model}};
        for (std::size_t source = 0; source < sim::kPriceSources; ++source)
            of_kind[name_of(source)] = kind.share[source];
        json["kinds"].push_back(std::move(of_kind));
    }
    return json;
}

namespace {

// "full" or 4: as it would stand in the scenario.
Json settings_json(const std::vector<sim::Setting>& settings) {
    Json json = Json::object();
    for (const sim::Setting& setting : settings) {
        const Json value = Json::parse(setting.value, nullptr, false);
        json[setting.key] = value.is_discarded() ? Json(setting.value) : value;
    }
    return json;
}

Json fixes_json(const std::vector<sim::Fix>& fixes) {
    Json json = Json::array();
    for (const sim::Fix& fix : fixes)
        json.push_back({{"set", settings_json(fix.settings)},
                        {"peak_bytes", fix.peak_bytes},
                        {"verdict", sim::name(fix.verdict)},
                        {"gpus", fix.gpus},
                        {"step_time_s", fix.step_time_s},
                        {"step_time_ratio", fix.step_time_ratio}});
    return json;
}

Json search_json(const sim::FixSearch& search) {
    Json json = {{"tried", search.tried}, {"keys", search.keys}, {"closest", nullptr}};
    if (search.closest)
        json["closest"] = {{"set", settings_json(search.closest->settings)},
                           {"peak_bytes", search.closest->peak_bytes},
                           {"verdict", sim::name(search.closest->verdict)}};
    return json;
}

Json unused_json(const std::vector<sim::UnusedKey>& unused) {
    Json json = Json::array();
    for (const sim::UnusedKey& key : unused)
        json.push_back({{"pointer", key.pointer}, {"why", key.why}});
    return json;
}

}  // namespace

std::vector<CommunicationGroup> communication_groups(const plan::Layout& layout) {
    using trace::Account;
    return {
        {"tensor", Account::exposed_tensor, layout.tensor_parallel},
        {"context", Account::exposed_context, layout.context_parallel},
        {"expert", Account::exposed_expert, layout.expert_parallel * layout.expert_tensor_parallel},
        {"data", Account::exposed_data, layout.context_parallel * layout.data_parallel},
        {"pipeline", Account::exposed_pipeline, layout.pipeline_parallel}};
}

std::string report_json(const ReportInput& input) {
    const sim::Prediction& prediction = input.prediction;
    Json json;
    json["scenario"] = Json::parse(input.resolved_json);
    if (!prediction.stuck.empty()) {
        json["deadlock"] = lines_json(prediction.stuck);
    } else {
        json["conserved"] = {{"layers", prediction.conserved.layers},
                             {"parameters", prediction.conserved.parameters},
                             {"tokens_per_step", prediction.conserved.tokens_per_step},
                             {"model_flops_per_step", prediction.conserved.model_flops_per_step}};
        json["software"] = software_json(input.scenario.training.framework, input.profile);
        json["memory"] = memory_json(prediction.memory);
        if (!input.stacks.empty()) json["memory"]["stacks_in_use"] = stacks_json(input.stacks);
        json["fixes"] = fixes_json(input.fixes.fixes);
        if (prediction.memory.verdict != sim::Verdict::fits && !prediction.prices)
            json["fix_search"] = search_json(input.fixes);
        if (prediction.prices) json["prices"] = prices_json(*prediction.prices);
        json["step"] = step_json(prediction.step);
        json["throughput"] = throughput_json(prediction.throughput);
        json["communication"] = communication_json(input);
        if (Json copies = copies_json(prediction.copies); !copies.empty())
            json["copies"] = std::move(copies);
        json["run"] = run_json(prediction.run, input.scenario.cluster);
        if (!prediction.prices) json["unused"] = unused_json(input.unused);
        if (!prediction.prices && is_guess_of_cores(input.scenario, input.profile))
            json["offers"] = Json::array({{{"set", {{"cluster.profile", plan::kThisMachine}}}}});
    }
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::cli
