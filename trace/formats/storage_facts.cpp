#include "trace/formats/storage_facts.hpp"

#include <cmath>
#include <string>

namespace orrery::trace {

nlohmann::json to_json(const StorageFacts& facts) {
    nlohmann::json json = nlohmann::json::object();
    for (const auto& [name, value] : kStorageFacts)
        if (facts.*value) json[std::string(name)] = *(facts.*value);
    return json;
}

std::optional<StorageFacts> storage_facts_of(const nlohmann::json& json) {
    if (!json.is_object()) return std::nullopt;
    StorageFacts facts;
    for (const auto& [name, value] : kStorageFacts) {
        const auto found = json.find(std::string(name));
        if (found == json.end()) continue;
        if (!found->is_number()) return std::nullopt;
        const double number = found->get<double>();
        if (!std::isfinite(number) || number < 0) return std::nullopt;
        facts.*value = number;
    }
    return facts;
}

}  // namespace orrery::trace
