#include "trace/memory_over_time.hpp"

#include <gtest/gtest.h>

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

// Three actions of one op each: [0, 100), [100, 200), [400, 500) with 10, 30 and 20 bytes alive.
Trace three_actions() {
    Trace trace;
    trace.ops.push_back({});
    ProgramOps program;
    program.actions = {*parse_actions("0F0"), *parse_actions("0F1"), *parse_actions("0B0")};
    program.op = {0, 0, 0};
    program.step = {0, 1, 2};
    program.layer = {-1, -1, -1};
    program.live_bytes = {10, 30, 20};
    trace.programs.push_back(program);
    Track track;
    track.events = {{0, 0, 100}, {100, 100, 200}, {400, 400, 500}};
    trace.tracks.push_back(track);
    trace.step_end = 500;
    return trace;
}

TEST(MemoryOverTime, IsTheLargestOfEachSlice) {
    const Trace trace = three_actions();
    // Slices of 100: each action has one, the idle ones keep what the action before held.
    EXPECT_EQ(memory_over_time(trace, trace.tracks[0], 5),
              (std::vector<std::int64_t>{10, 30, 30, 30, 20}));
    // Slices of 250: the first holds the first two actions, the second the end of idling and 0B0.
    EXPECT_EQ(memory_over_time(trace, trace.tracks[0], 2), (std::vector<std::int64_t>{30, 20}));
    EXPECT_EQ(memory_over_time(trace, trace.tracks[0], 1), (std::vector<std::int64_t>{30}));
}

TEST(MemoryOverTime, LooksAtTheWindowAlone) {
    Trace trace = three_actions();
    trace.step_start = 100;
    trace.step_end = 300;
    EXPECT_EQ(memory_over_time(trace, trace.tracks[0], 2), (std::vector<std::int64_t>{30, 30}));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
