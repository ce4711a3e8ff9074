// What is known of the runs that are watched: for people, as JSON, as metrics.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/watch/watched_run.hpp"

namespace orrery::cli {

// `now`: seconds since 1970.
std::string watch_text(const std::vector<WatchedRun>& runs, double now, const Console& console);
// One line: {"runs": […], "unix_s": now}.
std::string watch_json(const std::vector<WatchedRun>& runs, double now);
// OpenMetrics 1.0, which readers of Prometheus' text format take as well: each sample has the label
// run. Begins with kMetricsBegin (cli/output_kinds.hpp).
std::string watch_metrics(const std::vector<WatchedRun>& runs);

}  // namespace orrery::cli
