// A run that is followed, and what was predicted of it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/watch/followed_run.hpp"
#include "cli/watch/line_source.hpp"

namespace orrery::cli {

struct Forecast {
    double step_s = 0, low_s = 0, high_s = 0;
    std::optional<double> goodput;  // of a scenario that says how runs fail
};

struct WatchedRun {
    std::string name;
    std::unique_ptr<LineSource> source;
    FollowedRun run;
    std::optional<Forecast> forecast;
    bool forecast_asked = false;  // of the run's own scenario
    std::set<std::string> told;   // conditions that hold and have been told

    // Takes what has come since; where that is nothing, looks whether the run is silent for too
    // long. Whether something came.
    bool follow(double now) {
        const std::vector<std::string> lines = source->lines();
        for (const std::string& line : lines)
            run.read(line, now);
        if (lines.empty()) run.look(now);
        return !lines.empty();
    }

    // Its steps against the predicted: 0.05 for 5 % slower.
    std::optional<double> slower() const {
        const auto measured = run.step_time_s();
        if (!forecast || !measured || forecast->step_s <= 0) return std::nullopt;
        return *measured / forecast->step_s - 1;
    }
};

}  // namespace orrery::cli
