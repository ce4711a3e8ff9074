// What the field's usual stacks would need of memory for the same layout: beside the verdict on a
// stack that nobody has measured, or that nobody has named.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/scenario/stacks_in_use.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {

struct StackNeed {
    std::string stack;
    std::string lacks;            // why it is not known; the rest is then empty
    std::int64_t peak_bytes = 0;  // of the fullest pipeline rank
    double fit_probability = 0;
    Verdict verdict = Verdict::exceeds;
};

// Each stack's memory is planned; nothing is simulated. None on CPUs, or where the scenario's own
// stack was named and its memory measured on a device of this kind.
std::vector<StackNeed> stack_needs(const plan::Scenario& scenario, const std::string& resolved_json,
                                   const Profile& profile, const std::string& library_dir);

}  // namespace orrery::sim
