// A published run as a record states it, and the scenario that its facts amount to. What a record
// says is translated key by key; a value without a translation is a reason to skip the record,
// never a default. What a record leaves unsaid (how a cluster is wired, what a stack of its time
// did) comes from rules over its facts in one data file (record_rules.hpp).
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "calib/compare/record_model.hpp"

namespace orrery::compare {

struct Translation {
    std::string scenario_json;  // empty: skipped
    std::string why;            // the reason, when skipped
    std::string framework;
    RecordModel model;
    std::int64_t global_batch = 0;
};

// `record` is one element of a records file, `rules` the rules file.
Translation translate(const nlohmann::json& record, const nlohmann::json& rules);

// The measured step time, seconds: measured.step_time_s, else derived.step_time_s.
std::optional<double> measured_step_s(const nlohmann::json& record);

}  // namespace orrery::compare
