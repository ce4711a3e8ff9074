#include "tests/fuzz/traces.hpp"

#include "plan/check.hpp"
#include "sim/prediction.hpp"
#include "tests/fuzz/memory_files.hpp"
#include "tests/fuzz/reading.hpp"
#include "trace/accounts.hpp"
#include "trace/memory_over_time.hpp"
#include "trace/timeline.hpp"

namespace orrery::fuzz {

trace::Trace simulated_trace(const std::vector<std::string>& sets) {
    const plan::ReadResult read = read_checked(kSmallScenario, sets);
    const sim::Profile& profile = shipped_profiles(read.scenario->cluster);
    return sim::simulate(*read.scenario, profile, {}, "{}").trace;
}

void check_views(const trace::Trace& trace) {
    constexpr int kSlices = 7;
    for (const trace::Track& track : trace.tracks) {
        trace::Picoseconds sum = 0;
        for (const trace::Picoseconds account : trace::accounts_of(trace, track)) {
            ORRERY_CHECK(account >= 0, "a negative account");
            sum += account;
        }
        ORRERY_CHECK(sum == trace.step_end - trace.step_start, "accounts do not sum to the step");
        ORRERY_CHECK(trace::memory_over_time(trace, track, kSlices).size() == kSlices, "slices");
    }
    trace::communication_sums(trace);
    trace::mean_accounts(trace);
    ORRERY_CHECK(!trace::timeline_text(trace, {}).empty(), "no timeline");
}

}  // namespace orrery::fuzz
