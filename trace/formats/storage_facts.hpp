// StorageFacts as the JSON object that traces of all formats have. Internal to trace/.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "trace/trace.hpp"

namespace orrery::trace {

nlohmann::json to_json(const StorageFacts& facts);

// Keys that it does not know are ignored. Nothing where the object is none, or a value is no size
// or time.
std::optional<StorageFacts> storage_facts_of(const nlohmann::json& json);

}  // namespace orrery::trace
