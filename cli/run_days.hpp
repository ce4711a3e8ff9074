// One run of those drawn, day by day: the one of middle length. `goodput --timeline` prints it:
//
//   day by day, of the 1,000 runs number 281, of middle length: 72.2 days, 326 failures
//     each character is 3.50 h, as high as its share of steps that count
//     day 0   ██▇▇██▇█▇██▇█▇▇███▇▇█▇▇█▇▇▇█▇██▇▆▇███▇██▇██▇▇▆▇█  93.6 %  32 failures
//     day 7   ▇▇█▇▇██▇████▇▇▇██████▇▇██▇█▇▇▇▇████▇▆███▇█▇▇▇███  94.1 %  25 failures
//     …
//     the longest stops
//     day 12.24  silent data corruption  1.24 h  of it 1.06 h work lost and done again
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/goodput_text.hpp"

namespace orrery::cli {

// A run in lines of equal length, each of `cells` pieces.
struct RunLines {
    double line_s = 0;
    std::size_t cells = 0;
    std::vector<sim::RunCell> of;  // line after line; the last line may be short

    std::size_t lines() const { return (of.size() + cells - 1) / cells; }
    sim::RunCell line(std::size_t number) const;  // sums of its cells
    std::string name(std::size_t number) const;   // "day 7", "hour 6"
    std::string moment(double at_s) const;        // "day 12.31", "hour 3.25"
};

// Lines are of ten minutes, an hour, six, a day, a week, four weeks, a year, two, four and so on:
// the shortest of which fourteen hold the run.
RunLines lines_of(const sim::RunTimeline& run, std::size_t cells);

double steps_share(const sim::RunCell& cell);
std::string counted_failures(std::size_t failures);  // "43 failures", "1 failure"
// "1.35 h: work lost and done again 1.05 h, until the node is found 5.00 min, …"
std::string stop_text(const sim::RunTimeline& run, std::size_t failure);
// "day 12.31, HBM3 memory: 17.3 min: …"
std::string failure_text(const GoodputReport& report, const RunLines& lines, std::size_t failure);
// "of the 1,000 runs number 412, of middle length: 73.1 days, 523 failures"
std::string middle_text(const GoodputReport& report);
// The failures that cost most, at most `count` of them, the costliest first.
std::vector<std::size_t> costliest(const sim::RunTimeline& run, std::size_t count);

// Of a goodput with a run of middle length; nothing of one without.
std::string run_days_text(const GoodputReport& report, const Console& console);
nlohmann::ordered_json run_days_json(const GoodputReport& report);

}  // namespace orrery::cli
