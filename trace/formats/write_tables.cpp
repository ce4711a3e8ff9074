#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "trace/formats/native_layout.hpp"
#include "trace/formats/storage_facts.hpp"
#include "trace/formats/tables.hpp"
#include "trace/program_version.hpp"

namespace orrery::trace::viewer {
namespace {

using Json = nlohmann::json;

std::string exact_text(std::string_view text) {
    try {
        return Json(text).dump();
    } catch (const Json::type_error&) {  // not UTF-8
        std::string hex;
        for (const char c : text)
            hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
        return fmt::format("{{\"hex\":\"{}\"}}", hex);
    }
}

template <typename Numbers>
std::string list(const Numbers& numbers) {
    return fmt::format("[{}]", fmt::join(numbers, ","));
}

std::string op_text(const OpName& op) {
    return fmt::format(
        "{{\"block\":{},\"label\":{},\"kind\":\"{}\",\"phase\":\"{}\",\"stream\":\"{}\","
        "\"group\":\"{}\",\"flops\":{},\"bytes\":{},\"sent_bytes\":{}}}",
        exact_text(op.block), exact_text(op.label), plan::name(op.kind), plan::name(op.phase),
        plan::name(op.stream), plan::name(op.group), op.flops, op.bytes, op.sent_bytes);
}

std::string facts_text(const RunFacts& facts) {
    return fmt::format(
        "{{\"prices\":{},\"backend\":{},\"ranks_per_device\":{},\"arena_bytes\":{},"
        "\"high_water_bytes\":{},\"other_bytes\":{},\"step_times_s\":{}{}}}",
        exact_text(facts.prices), exact_text(facts.backend), facts.ranks_per_device,
        list(facts.arena_bytes), list(facts.high_water_bytes), list(facts.other_bytes),
        list(facts.step_times_s),
        facts.storage.empty() ? "" : ",\"storage\":" + to_json(facts.storage).dump());
}

std::string program_text(const ProgramOps& program) {
    std::vector<std::string> actions;
    for (const StepActions& of_step : program.actions)
        actions.push_back('"' + to_text(of_step) + '"');
    return fmt::format(
        "{{\"pipeline_rank\":{},\"actions\":{},\"live_bytes\":{},\"op\":{},\"step\":{},"
        "\"layer\":{}}}",
        program.pipeline_rank, list(actions), list(program.live_bytes), list(program.op),
        list(program.step), list(program.layer));
}

}  // namespace

std::string display_text(std::string_view text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string tables_text(const Trace& trace, const std::vector<std::int32_t>& pids,
                        Picoseconds origin_ps) {
    std::string text = fmt::format(
        "{{\"format\":\"{}\",\"version\":{},\"tool\":\"{}\",\"origin\":\"{}\",\"origin_ps\":{},"
        "\"step_start_ps\":{},\"step_end_ps\":{},\"tracks\":[",
        native::kFormat, kTraceVersion, tool_name(),
        trace.origin == Origin::predicted ? "predicted" : "measured", origin_ps, trace.step_start,
        trace.step_end);
    for (std::size_t t = 0; t < trace.tracks.size(); ++t) {
        const Track& track = trace.tracks[t];
        std::vector<std::int64_t> alike;
        for (const RankRange& range : track.alike)
            alike.insert(alike.end(), {range.first, range.count});
        text += fmt::format("{}{{\"pid\":{},\"rank\":{},\"alike\":{},\"program\":{}}}",
                            t > 0 ? "," : "", pids[t], track.rank, list(alike), track.program);
    }
    text += "],\"ops\":[";
    for (std::size_t i = 0; i < trace.ops.size(); ++i)
        text += (i > 0 ? "," : "") + op_text(trace.ops[i]);
    text += "],\"programs\":[";
    for (std::size_t i = 0; i < trace.programs.size(); ++i)
        text += (i > 0 ? "," : "") + program_text(trace.programs[i]);
    return text + "],\"facts\":" + facts_text(trace.facts) +
           ",\"scenario\":" + exact_text(trace.scenario_json) + '}';
}

}  // namespace orrery::trace::viewer
