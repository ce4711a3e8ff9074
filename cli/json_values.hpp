// How --json says what may be missing: null.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

namespace orrery::cli {

template <typename Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace orrery::cli
