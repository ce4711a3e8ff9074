#include "sim/cost/profile_section.hpp"

#include <utility>

#include <fmt/format.h>

namespace orrery::sim {

ProfileSection::ProfileSection(const nlohmann::json& object, std::string pointer, std::string file,
                               std::string source)
    : object_(object),
      pointer_(std::move(pointer)),
      file_(std::move(file)),
      source_(std::move(source)) {
    if (!object_.is_object())
        throw ProfileError(
            fmt::format("{}: {}: an object is expected", file_, pointer_.empty() ? "/" : pointer_));
    if (has("source")) source_ = text("source");
}

std::vector<std::string> ProfileSection::keys() const {
    std::vector<std::string> names;
    for (const auto& item : object_.items())
        names.push_back(item.key());
    return names;
}

void ProfileSection::fail(const std::string& key, const std::string& what) const {
    throw ProfileError(fmt::format("{}: {}/{}: {}", file_, pointer_, key, what));
}

const nlohmann::json& ProfileSection::at(const std::string& key) {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(key, "missing");
    asked_.insert(key);
    return *found;
}

ProfileSection ProfileSection::section(const std::string& key) {
    return ProfileSection(at(key), pointer_ + "/" + key, file_, source_);
}

std::string ProfileSection::text(const std::string& key) {
    const auto& value = at(key);
    if (!value.is_string() || value.get<std::string>().empty())
        fail(key, "a text that is not empty is expected");
    return value.get<std::string>();
}

bool ProfileSection::flag(const std::string& key) {
    const auto& value = at(key);
    if (!value.is_boolean()) fail(key, "true or false is expected");
    return value.get<bool>();
}

Quantity ProfileSection::quantity(const std::string& key, double low) {
    const auto& value = at(key);
    Quantity result;
    if (value.is_object()) {
        ProfileSection inner(value, pointer_ + "/" + key, file_, "");
        if (!value.contains("value")) inner.fail("value", "missing");
        if (value["value"].is_object()) inner.fail("value", "a number is expected");
        result = inner.quantity("value", low);
        inner.finish();
        return result;
    }
    if (!value.is_number()) fail(key, "a number is expected");
    result.value = value.get<double>();
    result.source = source_;
    if (!(result.value >= low) || result.value > 1e30)
        fail(key, fmt::format("{} is below {}", result.value, low));
    if (source_.empty()) fail(key, "the number has no source, neither has its section");
    return result;
}

Quantity ProfileSection::positive_quantity(const std::string& key) {
    Quantity result = quantity(key, 0);
    if (result.value <= 0) fail(key, "must be positive");
    return result;
}

double ProfileSection::positive(const std::string& key) {
    return positive_quantity(key).value;
}

Span ProfileSection::span(const std::string& key) {
    const auto& value = array(key);
    if (value.size() != 2 || !value[0].is_number() || !value[1].is_number())
        fail(key, "[low, high] is expected");
    const Span result{value[0].get<double>(), value[1].get<double>()};
    if (!(result.low > 0) || !(result.high >= result.low)) fail(key, "0 < low <= high is expected");
    return result;
}

const nlohmann::json& ProfileSection::array(const std::string& key) {
    const auto& value = at(key);
    if (!value.is_array()) fail(key, "an array is expected");
    return value;
}

void ProfileSection::finish() const {
    for (const auto& item : object_.items())
        if (asked_.count(item.key()) == 0) fail(item.key(), "unknown key");
}

}  // namespace orrery::sim
