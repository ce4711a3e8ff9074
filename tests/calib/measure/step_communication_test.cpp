#include "calib/measure/step_communication.hpp"

#include <gtest/gtest.h>

namespace orrery::measure {
namespace ORRERY_TEST_FILE {

using plan::OpKind;
using plan::Stream;

// Two ranks, each: compute, communicate, compute. Of times in ps: rank 0 is ready at 10, rank 1 at
// 30; both communicate from 34, when the slower thread has come to it, to 50; rank 0 goes on at 57,
// rank 1 at 52.
trace::Trace trace_of(OpKind kind) {
    trace::Trace trace;
    for (const Stream stream : {Stream::compute, Stream::data_comm}) {
        trace::OpName op;
        op.stream = stream;
        op.kind = stream == Stream::compute ? OpKind::gemm : kind;
        trace.ops.push_back(op);
    }
    trace::ProgramOps program;
    program.op = {0, 1, 0};
    program.step = {0, 0, 0};
    program.layer = {-1, -1, -1};
    trace.programs = {program};
    trace::Track first, second;
    first.events = {{0, 0, 10, trace::kNothing, -1}, {10, 34, 50, 0, 1}, {50, 57, 70, 1, -1}};
    second.rank = 1;
    second.events = {{0, 0, 30, trace::kNothing, -1}, {30, 34, 50, 0, -1}, {50, 52, 60, 1, -1}};
    trace.tracks = {first, second};
    return trace;
}

TEST(StepCommunication, LastsFromWhenTheLastIsReadyToWhenTheWaitingGoOn) {
    for (const OpKind kind : {OpKind::all_reduce, OpKind::exchange}) {
        const trace::Trace trace = trace_of(kind);
        const Passage first = passages(trace, trace.tracks[0])[1];
        EXPECT_EQ(first.came, 30) << plan::name(kind);  // of the other one, which came last
        EXPECT_EQ(first.ready, 10);
        EXPECT_EQ(first.over, 57);
        EXPECT_TRUE(first.awaited);
        const Passage second = passages(trace, trace.tracks[1])[1];
        EXPECT_EQ(second.came, 30);
        EXPECT_EQ(second.over, 52);
    }
}

// Ranks of a pipeline perform programs of their own: the late one's call is its first op, of three.
TEST(StepCommunication, FindsTheCallOfAPeerThatPerformsAnotherProgram) {
    trace::Trace trace = trace_of(OpKind::all_reduce);
    trace.programs.push_back(trace.programs.front());
    trace.programs[0].op = {0, 0, 0, 1};
    trace.programs[0].step = {0, 0, 0, 0};
    trace.programs[0].layer = {-1, -1, -1, -1};
    trace.programs[1].op = {1, 0, 0};
    trace.tracks[0].events = {
        {0, 0, 2, trace::kNothing, -1}, {2, 2, 6, 0, -1}, {6, 6, 10, 1, -1}, {10, 34, 50, 2, 1}};
    trace.tracks[1].program = 1;
    trace.tracks[1].events = {
        {30, 34, 50, trace::kHost, -1}, {50, 52, 60, 0, -1}, {60, 60, 70, 1, -1}};
    const Passage passage = passages(trace, trace.tracks[0])[3];
    EXPECT_EQ(passage.ready, 10);
    EXPECT_EQ(passage.came, 30);
    EXPECT_EQ(passage.over, 50);
}

// The second computation waits for the first one, not for communication, and runs beside it.
TEST(StepCommunication, EndsAtItsEndWhereNobodyWaits) {
    trace::Trace trace = trace_of(OpKind::all_reduce);
    trace.tracks[0].events.change([](trace::Event& event, std::size_t i) {
        if (i == 2) event = {10, 12, 44, 0, -1};
    });
    const Passage passage = passages(trace, trace.tracks[0])[1];
    EXPECT_EQ(passage.over, 50);
    EXPECT_FALSE(passage.awaited);
    // From 30, when it began for good, to 44.
    EXPECT_DOUBLE_EQ(hidden_s(trace, trace.tracks[0], passage), 14e-12);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::measure
