// The smallest changes of a scenario that make it fit into memory, and what each costs in step
// time: every one is a scenario that the strict reader accepts, planned and simulated.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/prediction.hpp"

namespace orrery::sim {

// A key of the scenario and its new value, a word or JSON: as in --set key=value.
struct Setting {
    std::string key;
    std::string value;
    bool operator==(const Setting&) const = default;
};

// {"layout.recompute=full"}
std::vector<std::string> overrides_of(const std::vector<Setting>& settings);

struct Fix {
    std::vector<Setting> settings;
    std::int64_t peak_bytes = 0;  // of the fullest pipeline rank
    Verdict verdict = Verdict::exceeds;
    std::int64_t gpus = 0;       // that the layout uses then
    double step_time_s = 0;      // 0 where it was not simulated
    double step_time_ratio = 0;  // to the step of the scenario as it is, whether it fits or not
};

struct FixSearch {
    std::vector<Fix> fixes;         // smallest first, at most three
    std::int64_t tried = 0;         // valid scenarios whose memory was predicted
    std::vector<std::string> keys;  // that were changed, alone or in pairs
    std::optional<Fix> closest;     // where none fits: the least peak, not simulated
};

// The scenario with these overrides after those it has; nothing where the reader refuses.
using ReadWith =
    std::function<std::optional<plan::Scenario>(const std::vector<std::string>& overrides)>;

// Of a scenario that does not fit, or only tightly; empty otherwise. One change first, of one key
// or of those that only make sense together, the mildest of a key that fits; then pairs of changes
// (three keys at most) where fewer than three alone suffice. A tight scenario is only helped by
// what fits surely. In order: fewest keys changed, sure before tight, no more GPUs than now,
// shortest step. Batch and sequence stay, so that a step is as many tokens. `prediction` is that of
// `scenario`, not stuck.
// `trying` is told of each scenario before it is planned.
FixSearch find_fixes(
    const plan::Scenario& scenario, const Profile& profile, const Prediction& prediction,
    const ReadWith& read_with, const std::function<void()>& trying = [] {});

}  // namespace orrery::sim
