// Two steps laid over each other: what is the same computation, and what of it takes longer.
#include "trace/alignment.hpp"

#include <gtest/gtest.h>

#include "tests/trace/pipeline_trace.hpp"
#include "trace/op_differences.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

constexpr int kMicroBatches = 8;
constexpr int kOps = PipelineTrace::kOpsPerLayer;

// Twelve layers on so many stages; layers are numbered through the model.
Trace twelve_layers(int stages, int micro_batches = kMicroBatches) {
    const int layers = 12 / stages;
    Trace trace = pipeline_trace({stages, micro_batches, layers});
    for (int stage = 0; stage < stages; ++stage)
        for (std::int16_t& layer : trace.programs[static_cast<std::size_t>(stage)].layer)
            if (layer >= 0) layer = static_cast<std::int16_t>(layer + stage * layers);
    return trace;
}

OpDifferences differences(const Trace& a, const Trace& b) {
    return op_differences(Alignment(a, b));
}

// Both ways, and of one kind, micro-batch and layer.
void expect_counterparts_answer(const Alignment& alignment) {
    for (const Side side : {Side::a, Side::b}) {
        const Trace& trace = alignment.trace(side);
        for (std::size_t p = 0; p < trace.programs.size(); ++p)
            for (std::size_t i = 0; i < trace.programs[p].op.size(); ++i) {
                const ProgramOp op{static_cast<std::int32_t>(p), static_cast<std::int32_t>(i)};
                const auto there = alignment.counterpart(side, op);
                if (!there) continue;
                EXPECT_EQ(alignment.counterpart(other(side), *there), op);
                const ProgramOps& own = trace.programs[p];
                const ProgramOps& others =
                    alignment.trace(other(side)).programs[static_cast<std::size_t>(there->program)];
                const auto at = static_cast<std::size_t>(there->op);
                EXPECT_EQ(others.layer[at], own.layer[i]);
                EXPECT_EQ(others.actions[others.step[at]].front().micro_batch,
                          own.actions[own.step[i]].front().micro_batch);
                EXPECT_EQ(alignment.trace(other(side)).ops[others.op[at]].kind,
                          trace.ops[own.op[i]].kind);
            }
    }
}

TEST(Alignment, OfAStepWithItselfIsZeroEverywhere) {
    const Trace trace = twelve_layers(4);
    const Alignment alignment(trace, trace);
    for (std::size_t track = 0; track < trace.tracks.size(); ++track)
        for (std::size_t op = 0; op < trace.tracks[track].events.size(); ++op)
            EXPECT_EQ(alignment.counterpart(Side::a, TrackOp{track, op}), (TrackOp{track, op}));
    const OpDifferences none = op_differences(alignment);
    const auto all = static_cast<std::int64_t>(events_of(trace));
    EXPECT_EQ(none.counts.a_ops, all);
    EXPECT_EQ(none.counts.b_ops, all);
    EXPECT_EQ(none.counts.aligned, all);
    EXPECT_EQ(none.counts.longer + none.counts.shorter, 0);
    EXPECT_EQ(none.counts.moved + none.counts.resized, 0);
    for (const OpDifference& op : none.ops)
        EXPECT_EQ(op.a_s, op.b_s);
    for (const StageDifference& stage : none.stages)
        EXPECT_EQ(stage.a_s, stage.b_s);
}

TEST(Alignment, ThatNobodyWantsAnyMoreEndsWithoutCounterparts) {
    const Trace trace = twelve_layers(4);
    const std::atomic<bool> stop{true};
    const Alignment alignment(trace, trace, &stop);
    for (std::size_t track = 0; track < trace.tracks.size(); ++track)
        for (std::size_t op = 0; op < trace.tracks[track].events.size(); ++op)
            EXPECT_EQ(alignment.counterpart(Side::a, TrackOp{track, op}), std::nullopt);
}

// Every all-reduce takes three times as long, and nothing else another time.
TEST(Alignment, FindsExactlyTheKindThatIsSlower) {
    const Trace a = twelve_layers(4);
    Trace b = a;
    for (Track& track : b.tracks)
        track.events.change([&](Event& event, std::size_t i) {
            if (b.op_of(track, i).kind == plan::OpKind::all_reduce)
                event.end = event.start + 3 * event.duration();
        });
    const OpDifferences found = differences(a, b);
    // One a layer, micro-batch and direction.
    EXPECT_EQ(found.counts.longer, 12 * kMicroBatches * 2);
    EXPECT_EQ(found.counts.shorter, 0);
    EXPECT_EQ(found.counts.aligned, found.counts.a_ops);
    for (const OpDifference& op : found.ops) {
        const double factor = op.name().kind == plan::OpKind::all_reduce ? 3 : 1;
        EXPECT_NEAR(op.b_s / op.a_s, factor, 1e-12) << op.name().label;
    }
    EXPECT_EQ(found.ops.front().name().kind, plan::OpKind::all_reduce);  // largest first
    for (const StageDifference& stage : found.stages) {
        const bool slower = stage.kind == plan::OpKind::all_reduce;
        EXPECT_NEAR(stage.b_s / stage.a_s, slower ? 3 : 1, 1e-12);
        EXPECT_EQ(stage.group == plan::GroupKind::tensor, slower);
    }
}

// Of three layers a stage, two stages' worth come to lie on one.
TEST(Alignment, FollowsLayersToOtherStages) {
    const Trace a = twelve_layers(4), b = twelve_layers(2);
    const Alignment alignment(a, b);
    expect_counterparts_answer(alignment);
    const OpCounts counts = op_differences(alignment).counts;
    const std::int64_t of_layers = 12 * kMicroBatches * 2 * kOps;
    // A transfer belongs to the stage that receives it: forward of 1 to 3, backward of 0 to 2
    // against forward of 1 and backward of 0.
    EXPECT_EQ(counts.a_ops, of_layers + 6 * kMicroBatches);
    EXPECT_EQ(counts.b_ops, of_layers + 2 * kMicroBatches);
    // Layers 3 to 5 were on stage 1, 6 to 8 on 2, 9 to 11 on 3; the last nine are on another one.
    EXPECT_EQ(counts.moved, of_layers * 9 / 12);
    EXPECT_EQ(counts.aligned, of_layers + 2 * kMicroBatches);
}

TEST(Alignment, CountsWhatIsInOneStepAlone) {
    const Trace a = twelve_layers(4), b = twelve_layers(4, kMicroBatches + 3);
    const OpDifferences found = differences(a, b);
    EXPECT_EQ(found.counts.aligned, found.counts.a_ops);
    // A stage's ops of a micro-batch: those of three layers and a transfer each way, but for the
    // two transfers that the first and the last stage do not receive.
    EXPECT_EQ(found.counts.b_ops - found.counts.aligned, 3 * (12 * 2 * kOps + 4 * 2 - 2));
    double alone = 0;
    for (const OpDifference& op : found.ops)
        if (op.a == nullptr) alone += op.b_s;
    EXPECT_GT(alone, 0);
}

// A norm that is put before the others shifts none of them: what is added has no counterpart.
TEST(Alignment, OfABlockWithOneOpMoreFindsTheRest) {
    const Trace a = twelve_layers(1);
    Trace b = a;
    const std::int64_t count = put_norms_before(b, 0, [](const Event&) { return Event{}; });
    const OpDifferences found = differences(a, b);
    EXPECT_EQ(count, 12 * kMicroBatches);
    EXPECT_EQ(found.counts.aligned, found.counts.a_ops);
    EXPECT_EQ(found.counts.b_ops - found.counts.aligned, count);
    EXPECT_EQ(found.counts.longer + found.counts.shorter + found.counts.resized, 0);
}

// Ranks 0 to 7 of a pipeline rank, of which 4 to 7 are slower, beside four ranks that are alike:
// the second half answers to the second half.
TEST(Alignment, RanksAnswerToThoseAtTheSamePlace) {
    Trace a = pipeline_trace({1, 2, 1});
    a.tracks.push_back(a.tracks[0]);
    a.tracks[0].alike = {{1, 3}};
    a.tracks[1].rank = 4;
    a.tracks[1].alike = {{5, 3}};
    Trace b = pipeline_trace({1, 2, 1});
    for (std::int64_t rank = 1; rank < 4; ++rank) {
        b.tracks.push_back(b.tracks[0]);
        b.tracks.back().rank = rank;
    }
    const Alignment alignment(a, b);
    EXPECT_EQ(alignment.counterpart(Side::a, TrackOp{0, 5}), (TrackOp{0, 5}));
    EXPECT_EQ(alignment.counterpart(Side::a, TrackOp{1, 5}), (TrackOp{2, 5}));
    for (const std::size_t track : {0U, 1U, 2U, 3U})
        EXPECT_EQ(alignment.counterpart(Side::b, TrackOp{track, 5}), (TrackOp{track / 2, 5}));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
