#include "plan/scenario/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace orrery::plan {
namespace {

struct Override {
    std::string text;
    std::vector<std::string> path;
    Json value;
};

Override parse_override(const std::string& text) {
    Override out;
    out.text = text;
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    for (std::size_t start = 0; start <= key.size();) {
        const std::size_t dot = std::min(key.find('.', start), key.size());
        out.path.push_back(key.substr(start, dot - start));
        start = dot + 1;
    }
    const std::string value = text.substr(equals + 1);
    ParsedJson parsed = parse_json(value, "");
    out.value = parsed.errors.empty() ? std::move(parsed.value) : Json(value);
    return out;
}

bool replaces_part(const Override& change) {
    if (change.path.size() == 1) return true;
    return change.path == std::vector<std::string>{"training", "framework"};
}

bool is_index(const std::string& segment, const Json& array) {
    const bool leading_zero = segment.size() > 1 && segment[0] == '0';
    if (segment.empty() || segment.size() > 9 || leading_zero) return false;
    if (!std::all_of(segment.begin(), segment.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        return false;
    }
    return static_cast<std::size_t>(std::stol(segment)) < array.size();
}

void report_blocked(Reading& reading, const Override& change, const std::string& pointer,
                    const Json& blocker) {
    std::string name = pointer.substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    Diagnostic& fault = reading.report(
        "S009", pointer,
        fmt::format("--set {} cannot be applied: {} is {}", change.text, name,
                    blocker.is_array() ? "an array without that index" : "not an object"));
    fault.help.push_back(fmt::format("to replace it as a whole, use --set {}=…", name));
}

void apply(Reading& reading, const Override& change) {
    Document& document = reading.document();
    std::string pointer;
    std::string created;  // topmost object that this change had to add
    const Json* at = &document.root();
    for (std::size_t i = 0; i < change.path.size(); ++i) {
        const std::string& segment = change.path[i];
        if (at->is_array() ? !is_index(segment, *at) : !at->is_object()) {
            if (!pointer.empty() && reading.good_at(pointer))
                report_blocked(reading, change, pointer, *at);
            return;
        }
        const std::string below = pointer + '/' + pointer_segment(segment);
        if (i + 1 == change.path.size()) {
            if (created.empty()) {
                document.put(below, change.value, {Source::Kind::set, change.text, ""});
            } else {
                document.root()[Json::json_pointer(below)] = change.value;
            }
            return;
        }
        if (at->is_object() && !at->contains(segment)) {
            if (created.empty()) {
                created = below;
                document.put(below, Json::object(), {Source::Kind::set, change.text, ""});
            } else {
                document.root()[Json::json_pointer(below)] = Json::object();
            }
        }
        at = document.find(below);
        pointer = below;
    }
}

}  // namespace

void apply_part_overrides(Reading& reading, const std::vector<std::string>& sets) {
    for (const std::string& text : sets)
        if (const Override change = parse_override(text); replaces_part(change))
            apply(reading, change);
}

void apply_key_overrides(Reading& reading, const std::vector<std::string>& sets,
                         const std::function<void()>& after_each) {
    for (const std::string& text : sets)
        if (const Override change = parse_override(text); !replaces_part(change)) {
            apply(reading, change);
            after_each();
        }
}

}  // namespace orrery::plan
