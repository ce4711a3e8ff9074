// A published run as a record states it, and the scenario that its facts amount to. What a record
// says is translated key by key. Physics without a translation are a reason to skip the record; a
// word that nothing knows becomes a default that has a name, and what it could have been widens the
// interval. What a record leaves unsaid (how a cluster is wired, what a stack of its time
// did) comes from rules over its facts in one data file (record_rules.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "calib/compare/record_model.hpp"

namespace orrery::compare {

struct Translation {
    std::string scenario_json;  // empty: skipped
    std::string why;            // the reason, when skipped
    std::string framework;
    RecordModel model;
    std::int64_t global_batch = 0;
    std::vector<std::string> left_out;  // what was fitted to the record's source, and stands aside
    // Facts for which a default stands, as "what: value by default"; and what else they could have
    // been: patches of the scenario (JSON merge patches).
    std::vector<std::string> assumed;
    std::vector<std::string> otherwise;
    // Of a default that asks for more memory than others: those, the nearest first.
    struct Smaller {
        std::string instead_of;  // what `assumed` says of the default
        std::string what;
        std::string patch;
    };
    std::vector<Smaller> smaller;
    std::string profile_patch;  // JSON pointers and values that stand in its profile then
};

// other_sources: what was fitted to runs of the record's own source gives way to what datasheets,
// kernel timings and other sources say (the rules' list left_out).
enum class Fitted { all_sources, other_sources };

// `record` is one element of a records file, `rules` the rules file.
Translation translate(const nlohmann::json& record, const nlohmann::json& rules, Fitted fitted);

// The measured step time, seconds: measured.step_time_s, else derived.step_time_s.
std::optional<double> measured_step_s(const nlohmann::json& record);

}  // namespace orrery::compare
