// The peak of memory that a record states, and what was predicted of it.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "sim/prediction.hpp"

namespace orrery::compare {

// Peak of the ranks that the record speaks of, in the record's own semantics; nothing where it does
// not say whose number it is.
std::optional<double> predicted_peak(const nlohmann::json& record,
                                     const sim::MemoryPrediction& memory);

// Bytes; nothing where the record states none.
std::optional<double> measured_peak(const nlohmann::json& record, const nlohmann::json& rules);

}  // namespace orrery::compare
