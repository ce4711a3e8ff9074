// From a plan and a scenario to what the engine runs: tracks with prices. Each distinct op is
// priced once; tracks whose groups lie alike share a table.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/kernel_cost.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/fold.hpp"

namespace orrery::sim {

// Prices by op number, of one track.
struct PriceTable {
    std::vector<Picoseconds> durations;
    std::vector<Price> prices;
};

struct Machine {
    Classes classes;
    std::vector<std::unique_ptr<PriceTable>> tables;  // shared by tracks
    std::vector<const PriceTable*> table_of;          // by track
    EngineInput input;                                // points into tables
    int repetitions = 1;  // steps simulated one after another; the last is the one that counts
};

// `plan` must outlive the machine.
Machine build_machine(const plan::Plan& plan, const plan::Scenario& scenario,
                      const Profile& profile, bool unfolded);

// The step in what a machine's run has recorded, all ranks together: from the last end of the steps
// before it, or 0, to its own last end.
struct StepWindow {
    Picoseconds start = 0;
    Picoseconds end = 0;
};
StepWindow step_window(const Machine& machine, const EngineResult& result);

}  // namespace orrery::sim
