#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "trace/formats/native_layout.hpp"
#include "trace/formats/storage_facts.hpp"
#include "trace/formats/tables.hpp"
#include "trace/sound.hpp"

namespace orrery::trace::viewer {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kVersion = kTraceVersion;
constexpr int kDepth = 8;  // brackets take far more memory than bytes in the file

[[noreturn]] void expected(const std::string& what) {
    throw Unexpected("expected in the tables " + what);
}

const Json& member(const Json& object, const char* key) {
    if (!object.is_object() || !object.contains(key)) expected(fmt::format("\"{}\"", key));
    return object.at(key);
}

const Json& list(const Json& object, const char* key) {
    const Json& value = member(object, key);
    if (!value.is_array()) expected(fmt::format("\"{}\" to be a list", key));
    return value;
}

std::int64_t integer(const Json& value, const char* what, std::int64_t least, std::int64_t most) {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
    if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
        expected(fmt::format("\"{}\" to be an integer from {} to {}", what, least, most));
    return value.get<std::int64_t>();
}

std::int64_t integer_of(const Json& object, const char* key, std::int64_t least,
                        std::int64_t most) {
    return integer(member(object, key), key, least, most);
}

template <typename Integer>
std::vector<Integer> integers(const Json& object, const char* key, std::int64_t least,
                              std::int64_t most) {
    const Json& values = list(object, key);
    std::vector<Integer> result;
    result.reserve(values.size());
    for (const Json& value : values)
        result.push_back(static_cast<Integer>(integer(value, key, least, most)));
    return result;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    expected("hexadecimal digits of \"hex\"");
}

std::string text(const Json& value, const char* what) {
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_object() || !value.contains("hex") || !value.at("hex").is_string())
        expected(fmt::format("\"{}\" to be a string or {{\"hex\": …}}", what));
    const auto& hex = value.at("hex").get_ref<const std::string&>();
    if (hex.size() % 2 != 0) expected("an even number of digits of \"hex\"");
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2)
        bytes += static_cast<char>(hex_digit(hex[i]) * 16 + hex_digit(hex[i + 1]));
    return bytes;
}

template <typename Enum>
Enum named(const Json& object, const char* key) {
    const Json& value = member(object, key);
    const auto found = value.is_string()
                           ? plan::from_name<Enum>(value.get_ref<const std::string&>())
                           : std::nullopt;
    if (!found) expected(fmt::format("\"{}\" to be a name that is known", key));
    return *found;
}

double number(const Json& object, const char* key) {
    const Json& value = member(object, key);
    if (!value.is_number() || !std::isfinite(value.get<double>()))
        expected(fmt::format("\"{}\" to be a number", key));
    return value.get<double>();
}

OpName read_op(const Json& json) {
    OpName op;
    op.block = text(member(json, "block"), "block");
    op.label = text(member(json, "label"), "label");
    op.kind = named<plan::OpKind>(json, "kind");
    op.phase = named<plan::Phase>(json, "phase");
    op.stream = named<plan::Stream>(json, "stream");
    op.group = named<plan::GroupKind>(json, "group");
    op.flops = number(json, "flops");
    op.bytes = number(json, "bytes");
    op.sent_bytes = number(json, "sent_bytes");
    return op;
}

StepActions read_actions(const Json& json) {
    auto actions = parse_actions(text(json, "actions"));
    if (!actions) expected("\"actions\" to be actions");
    return std::move(*actions);
}

RunFacts read_facts(const Json& json) {
    RunFacts facts;
    facts.prices = text(member(json, "prices"), "prices");
    facts.backend = text(member(json, "backend"), "backend");
    facts.ranks_per_device = integer_of(json, "ranks_per_device", 0, INT64_MAX);
    facts.arena_bytes = integers<std::int64_t>(json, "arena_bytes", 0, INT64_MAX);
    facts.high_water_bytes = integers<std::int64_t>(json, "high_water_bytes", 0, INT64_MAX);
    facts.other_bytes = integers<std::int64_t>(json, "other_bytes", 0, INT64_MAX);
    for (const Json& time : list(json, "step_times_s")) {
        if (!time.is_number() || !std::isfinite(time.get<double>()) || time.get<double>() < 0)
            expected("\"step_times_s\" to be times");
        facts.step_times_s.push_back(time.get<double>());
    }
    if (json.contains("storage")) {
        const auto storage = storage_facts_of(json["storage"]);
        if (!storage) expected("\"storage\" to be sizes and times");
        facts.storage = *storage;
    }
    return facts;
}

// Pairs of a range's first rank and its number of ranks.
std::vector<RankRange> read_ranges(const Json& json) {
    const auto numbers = integers<std::int64_t>(json, "alike", 0, INT64_MAX);
    if (numbers.size() % 2 != 0) expected("\"alike\" to be pairs");
    std::vector<RankRange> ranges;
    for (std::size_t i = 0; i < numbers.size(); i += 2)
        ranges.push_back({numbers[i], numbers[i + 1]});
    return ranges;
}

ProgramOps read_program(const Json& json, std::size_t ops) {
    ProgramOps program;
    program.pipeline_rank =
        static_cast<std::int32_t>(integer_of(json, "pipeline_rank", 0, INT32_MAX));
    for (const Json& action : list(json, "actions"))
        program.actions.push_back(read_actions(action));
    program.live_bytes = integers<std::int64_t>(json, "live_bytes", 0, INT64_MAX);
    program.op = integers<std::uint32_t>(json, "op", 0, static_cast<std::int64_t>(ops) - 1);
    program.step = integers<std::uint32_t>(json, "step", 0,
                                           static_cast<std::int64_t>(program.actions.size()) - 1);
    program.layer = integers<std::int16_t>(json, "layer", -1, INT16_MAX);
    if (program.live_bytes.size() != program.actions.size() ||
        program.step.size() != program.op.size() || program.layer.size() != program.op.size())
        expected("\"live_bytes\" to be as long as \"actions\", \"step\" and \"layer\" as \"op\"");
    if (program.op.size() > static_cast<std::size_t>(INT32_MAX)) expected("fewer ops");
    return program;
}

}  // namespace

Tables read_tables(const Json& json) {
    const Json& format = member(json, "format");
    if (!format.is_string() || format.get_ref<const std::string&>() != native::kFormat)
        expected(fmt::format("\"format\" to be \"{}\"", native::kFormat));
    integer_of(json, "version", kVersion, kVersion);
    Tables tables;
    Trace& trace = tables.trace;
    const std::string origin = text(member(json, "origin"), "origin");
    if (origin == "measured")
        trace.origin = Origin::measured;
    else if (origin != "predicted")
        expected("\"origin\" to be \"predicted\" or \"measured\"");
    trace.step_start = integer_of(json, "step_start_ps", -kTimeLimit, kTimeLimit);
    trace.step_end = integer_of(json, "step_end_ps", trace.step_start, kTimeLimit);
    trace.scenario_json = text(member(json, "scenario"), "scenario");
    trace.facts = read_facts(member(json, "facts"));
    for (const Json& op : list(json, "ops"))
        trace.ops.push_back(read_op(op));
    for (const Json& program : list(json, "programs"))
        trace.programs.push_back(read_program(program, trace.ops.size()));
    for (const Json& entry : list(json, "tracks")) {
        Track track;
        track.rank = integer_of(entry, "rank", 0, INT64_MAX);
        track.alike = read_ranges(entry);
        if (!are_apart(track)) expected("\"alike\" to be ranks in ascending order");
        track.program = static_cast<std::int32_t>(
            integer_of(entry, "program", 0, static_cast<std::int64_t>(trace.programs.size()) - 1));
        tables.pids.push_back(static_cast<std::int32_t>(integer_of(entry, "pid", 1, INT32_MAX)));
        trace.tracks.push_back(std::move(track));
    }
    return tables;
}

Tables read_tables(std::string_view text) {
    const auto shallow = [](int depth, Json::parse_event_t, Json&) {
        if (depth > kDepth) expected("lists and objects less deep in each other");
        return true;
    };
    Json json;
    try {
        json = Json::parse(text, shallow);
    } catch (const Json::exception&) {
        expected("sound JSON");
    }
    return read_tables(json);
}

}  // namespace orrery::trace::viewer
