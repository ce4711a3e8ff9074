#include "sim/fleet/run_timeline.hpp"

#include <algorithm>
#include <cmath>

#include "plan/check.hpp"

namespace orrery::sim {

RunSeconds RunTimeline::cost_of(std::size_t failure) const {
    RunSeconds cost{};
    const auto number = static_cast<std::int64_t>(failure);
    for (std::size_t i = failures[failure].first_stretch;
         i < stretches.size() && stretches[i].failure == number; ++i)
        for (std::size_t account = 0; account < kRunAccounts; ++account)
            cost[account] += stretches[i].seconds[account];
    return cost;
}

std::vector<RunCell> cells_of(const RunTimeline& run, double cell_s) {
    ORRERY_CHECK(cell_s > 0, "cells without length");
    if (run.stretches.empty()) return {};
    const double end_s = run.stretches.back().end_s;
    std::vector<RunCell> cells(std::max<std::size_t>(
        1, static_cast<std::size_t>(std::ceil(end_s / cell_s * (1 - 1e-12)))));
    const auto cell_at = [&](double at_s) {
        return std::min(cells.size() - 1, static_cast<std::size_t>(at_s / cell_s));
    };
    for (const RunStretch& stretch : run.stretches) {
        const std::size_t last = cell_at(stretch.end_s);
        for (std::size_t c = cell_at(stretch.begin_s); c <= last; ++c) {
            // The last cell takes what rounding leaves behind its end.
            const double begin_s = static_cast<double>(c) * cell_s;
            const double until_s = c == last ? stretch.end_s : begin_s + cell_s;
            const double share = std::max(0.0, until_s - std::max(begin_s, stretch.begin_s)) /
                                 (stretch.end_s - stretch.begin_s);
            for (std::size_t account = 0; account < kRunAccounts; ++account)
                cells[c].seconds[account] += share * stretch.seconds[account];
        }
    }
    for (std::size_t number = 0; number < run.failures.size(); ++number) {
        RunCell& cell = cells[cell_at(run.failures[number].at_s)];
        if (cell.failures++ == 0) cell.first_failure = number;
    }
    return cells;
}

}  // namespace orrery::sim
