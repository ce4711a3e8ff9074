// One run after another, drawn: Monte-Carlo of a RunModel. Between two failures a run does whole
// checkpoint intervals, which are counted and not walked through, so that a run costs about as many
// steps as it has failures. Runs are independent: outcome i is a function of model, seed and i.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/fleet/run_model.hpp"

namespace orrery::sim {

// Where the wall clock of a run goes.
enum class RunAccount : std::uint8_t {
    steps,      // that count
    data,       // these wait for data, and the first for disks that are filled
    lost_work,  // done, and done again
    saving,     // training waits for checkpoints
    detection,
    diagnosis,
    restart,   // a spare takes its place, processes start, a checkpoint is loaded
    waiting,   // for a node, where no spare is left
    degraded,  // steps take longer on fewer nodes
};
inline constexpr std::size_t kRunAccounts = 9;
std::string_view name(RunAccount account);

struct RunOutcome {
    std::array<double, kRunAccounts> seconds{};  // by RunAccount
    std::int64_t failures = 0;
    // False: given up at a hundred times its work, or at 200,000 failures.
    bool ended = true;

    double wall_s() const;
};

RunOutcome draw_run(const RunModel& model, std::uint64_t seed, std::uint64_t index);

// Runs 0 to count − 1, on all cores; the same for any number of them. `stop` becomes true: throws
// Stopped.
std::vector<RunOutcome> draw_runs(const RunModel& model, std::uint64_t seed, std::size_t count,
                                  const std::atomic<bool>* stop = nullptr);

}  // namespace orrery::sim
