// A published run as a record states it, and the scenario that its facts amount to. What a record
// says is translated key by key; a value without a translation is a reason to skip the record,
// never a default. What a record leaves unsaid (how a cluster is wired, what a stack of its time
// did) comes from rules over its facts in one data file, scenarios/validation/rules.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace orrery::compare {

// Model facts of a record in numbers, for the scenario and for the baseline.
struct RecordModel {
    std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn_hidden = 0;
    std::int64_t vocabulary = 0, sequence = 0;
    bool gated_mlp = false;
};

struct Translation {
    std::string scenario_json;  // empty: skipped
    std::string why;            // the reason, when skipped
    std::string framework;
    RecordModel model;
};

// `record` is one element of a records file, `rules` the rules file.
Translation translate(const nlohmann::json& record, const nlohmann::json& rules);

// The measured step time, seconds: measured.step_time_s, else derived.step_time_s.
std::optional<double> measured_step_s(const nlohmann::json& record);

}  // namespace orrery::compare
