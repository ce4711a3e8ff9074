#include "plan/scenario/differing_keys.hpp"

#include <nlohmann/json.hpp>

namespace orrery::plan {
namespace {

using Json = nlohmann::ordered_json;

std::string segment(std::string key) {
    std::string escaped;
    for (const char c : key) {
        if (c == '~')
            escaped += "~0";
        else if (c == '/')
            escaped += "~1";
        else
            escaped += c;
    }
    return escaped;
}

void compare_values(const Json& a, const Json& b, const std::string& pointer,
                    std::vector<KeyDifference>& out) {
    if (a.is_object() && b.is_object()) {
        for (const auto& [key, value] : a.items()) {
            if (key == "source" || key == "description") continue;
            const std::string below = pointer + '/' + segment(key);
            if (b.contains(key))
                compare_values(value, b[key], below, out);
            else
                out.push_back({below, value.dump(), ""});
        }
        for (const auto& [key, value] : b.items())
            if (!a.contains(key) && key != "source" && key != "description")
                out.push_back({pointer + '/' + segment(key), "", value.dump()});
    } else if (a != b) {
        out.push_back({pointer, a.dump(), b.dump()});
    }
}

}  // namespace

std::vector<KeyDifference> differing_keys(const std::string& resolved_a,
                                          const std::string& resolved_b) {
    std::vector<KeyDifference> keys;
    compare_values(Json::parse(resolved_a), Json::parse(resolved_b), "", keys);
    return keys;
}

}  // namespace orrery::plan
