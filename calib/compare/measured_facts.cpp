#include "calib/compare/measured_facts.hpp"

#include <nlohmann/json.hpp>

#include "trace/formats/native.hpp"

namespace orrery::compare {
namespace {

using Json = nlohmann::ordered_json;

Json scenario_of(const trace::Trace& trace, const std::string& path) {
    Json scenario = Json::parse(trace.scenario_json, nullptr, false);
    if (!scenario.is_object())
        throw trace::TraceFileError(trace::TraceFault::unreadable, path,
                                    "the scenario in the trace is no JSON object");
    return scenario;
}

template <typename Number>
std::vector<Number> numbers(const Json& facts, const char* key, const std::string& path) {
    std::vector<Number> values;
    if (!facts.contains(key)) return values;
    const Json& list = facts[key];
    bool sound = list.is_array();
    for (std::size_t i = 0; sound && i < list.size(); ++i) {
        sound = list[i].is_number() && list[i].template get<double>() >= 0 &&
                list[i].template get<double>() < 1e18;
        if (sound) values.push_back(list[i].template get<Number>());
    }
    if (!sound)
        throw trace::TraceFileError(
            trace::TraceFault::unreadable, path,
            std::string("/measured/") + key + " in the trace is no list of numbers");
    return values;
}

}  // namespace

MeasuredFacts measured_facts(const trace::Trace& trace, const std::string& path) {
    const Json scenario = scenario_of(trace, path);
    MeasuredFacts facts;
    if (!scenario.contains("measured")) return facts;
    const Json& measured = scenario["measured"];
    if (!measured.is_object())
        throw trace::TraceFileError(trace::TraceFault::unreadable, path,
                                    "/measured in the trace is no JSON object");
    if (measured.contains("backend") && measured["backend"].is_string())
        facts.backend = measured["backend"].get<std::string>();
    if (measured.contains("correctness_only") && measured["correctness_only"].is_boolean())
        facts.correctness_only = measured["correctness_only"].get<bool>();
    facts.arena_bytes = numbers<std::int64_t>(measured, "arena_bytes_by_rank", path);
    facts.high_water_bytes = numbers<std::int64_t>(measured, "high_water_bytes_by_rank", path);
    facts.other_bytes = numbers<std::int64_t>(measured, "other_bytes_by_rank", path);
    facts.step_times_s = numbers<double>(measured, "step_times_s", path);
    return facts;
}

std::string scenario_text(const trace::Trace& trace, const std::string& path) {
    Json scenario = scenario_of(trace, path);
    scenario.erase("measured");
    return scenario.dump(2);
}

}  // namespace orrery::compare
