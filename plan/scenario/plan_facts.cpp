#include "plan/scenario/plan_facts.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "plan/check.hpp"
#include "plan/scenario/json_text.hpp"
#include "plan/scenario/resolved.hpp"

namespace orrery::plan {
namespace {

constexpr const char* kOwnProfileName = "this-machine";

std::vector<std::string> parts_of(LeftOpen open) {
    if (open == LeftOpen::run) return {"run"};
    return {"cluster", "run"};
}

bool is_within_part(const std::string& pointer, const std::string& part) {
    return pointer == '/' + part || pointer.starts_with('/' + part + '/');
}

// Each open part's pointers where the facts have theirs, else at the end.
std::vector<std::string> with_open_parts(const std::vector<std::string>& facts,
                                         const std::vector<std::string>& file, LeftOpen open) {
    std::vector<std::string> all = facts;
    for (const std::string& part : parts_of(open)) {
        const auto of_part = [&](const std::string& pointer) {
            return is_within_part(pointer, part);
        };
        const auto at = std::find_if(all.begin(), all.end(), of_part) - all.begin();
        std::erase_if(all, of_part);
        std::vector<std::string> own;
        std::copy_if(file.begin(), file.end(), std::back_inserter(own), of_part);
        all.insert(all.begin() + at, own.begin(), own.end());
    }
    return all;
}

ReadResult not_read(std::vector<Diagnostic> faults, const std::string& name, bool unreadable) {
    ReadResult result;
    for (Diagnostic& fault : faults)
        fault.origin = "file " + name;
    result.errors = std::move(faults);
    result.unreadable = unreadable;
    return result;
}

bool are_facts(const Json& facts) {
    return facts.is_object() && facts.contains("scenario") && facts["scenario"].is_object() &&
           facts.contains("given") && facts["given"].is_array() && facts.contains("unread") &&
           facts["unread"].is_array();
}

std::vector<std::string> pointers(const Json& list) {
    std::vector<std::string> all;
    for (const Json& pointer : list)
        if (pointer.is_string()) all.push_back(pointer.get<std::string>());
    return all;
}

ReadResult no_facts(const std::string& name) {
    Diagnostic fault;
    fault.code = "S026";
    fault.file = name;
    fault.message = "this is no plan file: what was planned does not stand behind the plan";
    fault.help = {"orrery plan FILE --output " + name + " writes one"};
    return not_read({std::move(fault)}, name, true);
}

constexpr std::string_view kTraining = "/training/";

Json& flags_of(Json& resolved) {
    return resolved["training"]["framework"]["flags"];
}

// Where those constants of the software are from that the scenario gives, by key: the resolved
// scenario names its files, which the plan may be far from.
Json sources_of_given(const ReadResult& read) {
    Json resolved = Json::parse(read.resolved_json), sources = Json::object();
    const Json& flags = flags_of(resolved);
    for (const std::string& pointer : read.given) {
        if (!pointer.starts_with(kTraining)) continue;
        const std::string key = pointer.substr(kTraining.size());
        if (flags.contains(key)) sources[key] = flags[key]["source"];
    }
    return sources;
}

void say_sources(const Json& sources, std::string& resolved_json) {
    if (!sources.is_object() || sources.empty()) return;
    Json resolved = Json::parse(resolved_json);
    Json& flags = flags_of(resolved);
    for (const auto& [key, source] : sources.items())
        if (flags.contains(key) && source.is_string()) flags[key]["source"] = source;
    resolved_json = resolved_text(resolved);
}

}  // namespace

std::string facts_text(const ReadResult& read, const std::string& assembled) {
    ORRERY_CHECK(read.scenario.has_value(), "facts are of a sound scenario");
    Json scenario = Json::parse(assembled);
    scenario.erase("run");
    // A profile beside the file that named it is found from there alone; one of the library is
    // found from anywhere, as the one of this machine is.
    Json& profile = scenario["cluster"]["profile"];
    if (profile.is_string() && profile != kOwnProfileName) {
        const std::string& path = read.scenario->cluster.profile_path;
        if (!path.ends_with("/scenarios/" + profile.get<std::string>()))
            profile = std::filesystem::absolute(path).string();
    }
    const Json facts = {{"scenario", std::move(scenario)},
                        {"given", read.given},
                        {"unread", read.unread},
                        {"sources", sources_of_given(read)}};
    return facts.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

ReadResult read_with_facts(std::string_view facts, const std::string& facts_name, LeftOpen open,
                           const std::string& path, const std::vector<std::string>& sets,
                           const std::string& library_dir, const Files& files) {
    const ParsedJson parsed = parse_json(facts, facts_name);
    if (parsed.incomplete || !parsed.errors.empty())
        return not_read(parsed.errors, facts_name, true);
    if (!are_facts(parsed.value)) return no_facts(facts_name);
    std::string why;
    const std::optional<std::string> text = files.read(path, why);
    if (!text) return read_scenario(path, sets, library_dir, files);  // says so
    const ParsedJson file = parse_json(*text, path);
    if (file.incomplete || !file.errors.empty()) return not_read(file.errors, path, file.not_json);
    Json composed = parsed.value["scenario"];
    for (const std::string& part : parts_of(open)) {
        composed.erase(part);
        if (file.value.is_object() && file.value.contains(part)) composed[part] = file.value[part];
    }
    const std::string folder = std::filesystem::path(path).parent_path().string();
    ReadResult result =
        read_scenario_text(composed.dump(-1, ' ', false, Json::error_handler_t::replace), path,
                           folder, sets, library_dir, files);
    result.files.push_back(path);
    std::sort(result.files.begin(), result.files.end());
    if (!result.scenario) return result;
    result.given = with_open_parts(pointers(parsed.value["given"]), result.given, open);
    result.unread = with_open_parts(pointers(parsed.value["unread"]), result.unread, open);
    say_sources(parsed.value.value("sources", Json()), result.resolved_json);
    return result;
}

bool is_left_open(LeftOpen open, std::string_view set) {
    const std::vector<std::string> parts = parts_of(open);
    return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
        return set.starts_with(part) && set.size() > part.size() &&
               (set[part.size()] == '.' || set[part.size()] == '=');
    });
}

}  // namespace orrery::plan
