// Time limits of calls, from a trace.
#include "runtime/streams/expected_timeouts.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using namespace std::chrono_literals;
constexpr trace::Picoseconds kSecond = 1'000'000'000'000;

trace::Event event(double ready_s, double start_s, double end_s) {
    trace::Event found;
    found.ready = static_cast<trace::Picoseconds>(ready_s * kSecond);
    found.start = static_cast<trace::Picoseconds>(start_s * kSecond);
    found.end = static_cast<trace::Picoseconds>(end_s * kSecond);
    return found;
}

// One program of a product and two all-reduces with one label, on two ranks.
trace::Trace two_ranks() {
    trace::Trace trace;
    trace.ops.resize(2);
    trace.ops[0].kind = plan::OpKind::gemm;
    trace.ops[0].label = "fc1";
    trace.ops[1].kind = plan::OpKind::all_reduce;
    trace.ops[1].label = "fc2, tensor";
    trace.programs.resize(1);
    trace.programs[0].op = {0, 1, 1};
    for (const double later_s : {0.0, 1.0}) {
        trace::Track track;
        track.events = {event(0, 0, 9), event(9, 9.5 + later_s, 10 + later_s),
                        event(11, 11, 11.25)};
        trace.tracks.push_back(track);
    }
    trace.step_end = 12 * kSecond;
    return trace;
}

// The second rank's first call waits 1.5 s for others and takes 0.5 s.
TEST(ExpectedTimeouts, AreTheLongestOfALabelWithWhatItWaitsForOthers) {
    const CallTimeouts timeouts = expected_timeouts(two_ranks());
    ASSERT_EQ(timeouts.expected_s.size(), 1U);
    EXPECT_DOUBLE_EQ(timeouts.expected_s.at("fc2, tensor"), 2.0);
    EXPECT_EQ(timeouts.usual, 240s);  // 20 · 12
}

TEST(ExpectedTimeouts, LeaveShortStepsTheLeast) {
    trace::Trace trace = two_ranks();
    trace.step_end = kSecond;
    EXPECT_EQ(expected_timeouts(trace).usual, CallTimeouts{}.least);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
