#include <nlohmann/json.hpp>

#include "cli/explain.hpp"
#include "cli/report_sections.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

// Which rank, or ranks, a track is.
Json place_json(const trace::Trace& trace, std::int32_t index) {
    const trace::Track& track = trace.tracks[static_cast<std::size_t>(index)];
    return {
        {"rank", track.rank},
        {"represents", track.represents()},
        {"pipeline_rank", trace.programs[static_cast<std::size_t>(track.program)].pipeline_rank}};
}

Json part_json(const trace::Trace& trace, const trace::PathPart& part) {
    const bool host = part.account == trace::Account::launch;
    Json json = place_json(trace, part.track);
    json["account"] = trace::name(part.account);
    json["kind"] = host ? Json(nullptr) : Json(plan::name(part.kind));
    json["group"] =
        part.group == plan::GroupKind::none ? Json(nullptr) : Json(plan::name(part.group));
    json["time_s"] = sim::to_seconds(part.time);
    return json;
}

}  // namespace

std::string explanation_json(const Explanation& explanation) {
    const ReportInput& report = explanation.report;
    const trace::Trace& trace = report.prediction.trace;
    Json parts = Json::array();
    for (const trace::PathPart& part : explanation.parts)
        parts.push_back(part_json(trace, part));
    Json stays = Json::array();
    for (const PathStay& stay : stays_of(explanation.path)) {
        Json json = place_json(trace, stay.track);
        json["from_s"] = sim::to_seconds(stay.from - trace.step_start);
        json["to_s"] = sim::to_seconds(stay.to - trace.step_start);
        stays.push_back(std::move(json));
    }
    Json answers = Json::array();
    const double time = report.prediction.step.time_s;
    for (const sim::Answer& answer : explanation.answers)
        answers.push_back({{"name", answer.what->name},
                           {"sentence", answer.what->sentence},
                           {"step_time_s", answer.step_time_s},
                           {"gain_s", answer.gain_s},
                           {"gain_share", answer.gain_s / time}});
    Json json;
    json["scenario"] = Json::parse(report.resolved_json);
    json["step"] = {{"time_s", time}};
    json["summary"] = path_paragraph(explanation);
    json["critical_path"] = {{"parts", std::move(parts)}, {"stays", std::move(stays)}};
    json["what_if"] = std::move(answers);
    if (report.prediction.prices) {
        json["step"]["by_means_s"] = explanation.by_means_s;
        json["prices"] = prices_json(*report.prediction.prices);
    }
    json["balanced_layers"] = explanation.balanced
                                  ? Json{{"set",
                                          {{explanation.balanced->setting.key,
                                            Json::parse(explanation.balanced->setting.value)}}},
                                         {"step_time_s", explanation.balanced->step_time_s},
                                         {"gain_s", explanation.balanced->gain_s}}
                                  : Json(nullptr);
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::cli
