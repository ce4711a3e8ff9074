// The layout of a published record as the "layout" part of a scenario.
#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

namespace orrery::compare {

// `stated` is the record's layout with what rules add. Throws Skip with the arithmetic where the
// ranks or the batch do not come out.
nlohmann::json layout_part(const nlohmann::json& stated, std::int64_t layers, std::int64_t gpus);

}  // namespace orrery::compare
