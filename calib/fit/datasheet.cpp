#include "calib/fit/datasheet.hpp"

#include <optional>

#include <fmt/format.h>

#include "calib/fit/fit_error.hpp"
#include "plan/scenario/files.hpp"

namespace orrery::fit {

Json read_json_object(const std::string& path) {
    std::string why;
    const std::optional<std::string> text = plan::disk().read(path, why);
    if (!text) throw FitError(fmt::format("{}: cannot be read: {}", path, why));
    try {
        Json object = Json::parse(*text);
        if (!object.is_object()) throw FitError(fmt::format("{}: not an object", path));
        return object;
    } catch (const nlohmann::json::exception& error) {
        throw FitError(fmt::format("{}: not JSON: {}", path, error.what()));
    }
}

const Json& request(const Json& parent, const std::string& pointer, const std::string& name,
                    const std::set<std::string>& keys, const std::string& path) {
    const std::string here = pointer + "/" + name;
    const Json& section = parent.at(name);
    if (!section.is_object())
        throw FitError(fmt::format("{}: {}: an object is expected", path, here));
    for (const std::string& key : keys)
        if (!section.contains(key))
            throw FitError(fmt::format("{}: {}/{}: missing", path, here, key));
    for (const auto& item : section.items())
        if (keys.count(item.key()) == 0)
            throw FitError(fmt::format("{}: {}/{}: unknown key", path, here, item.key()));
    return section;
}

std::string text_of(const Json& section, const std::string& key, const std::string& path) {
    const Json& value = section.at(key);
    if (!value.is_string())
        throw FitError(fmt::format("{}: /tables: '{}' must be a text", path, key));
    return value.get<std::string>();
}

double quantity_value(const Json& quantity) {
    return quantity.is_object() ? quantity.at("value").get<double>() : quantity.get<double>();
}

}  // namespace orrery::fit
