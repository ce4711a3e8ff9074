// A run's wall clock as a waterfall: from steps that compute over what their accounts say, waits
// for data, checkpoints and failures to the whole. `goodput --json`, the page and the window have
// it from here.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/goodput_text.hpp"

namespace orrery::cli {

struct RunPart {
    std::string name;
    double seconds = 0;  // mean over the drawn runs
    sim::RunAccount of = sim::RunAccount::steps;
    trace::Account within = trace::Account::compute;  // of steps: one that stands for its like
};

// In the order in which they add to what computes; those that take time. They sum to the run.
std::vector<RunPart> run_parts(const GoodputReport& report);

// [{"part": "steps: computing", "days": 61.2}, …]
nlohmann::ordered_json run_parts_json(const GoodputReport& report);

}  // namespace orrery::cli
