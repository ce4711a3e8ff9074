// Simulated steps laid over each other op by op: what is told of them agrees with their sums.
#include "trace/op_differences.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>

#include "sim/whatif/difference.hpp"
#include "tests/sim/random_layouts.hpp"
#include "trace/joining.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

Prediction of_layout(const Sets& sets) {
    static const Profile profile = load_profile(theory::library() + "/profiles/h100-sxm.json");
    return simulate(theory::scenario(sets), profile, {}, "");
}

trace::OpDifferences differences(const Prediction& a, const Prediction& b) {
    return trace::op_differences(trace::Alignment(a.trace, b.trace));
}

bool near(double one, double next) {
    return std::abs(one - next) <= 1e-9 * std::max(std::abs(one), std::abs(next)) + 1e-15;
}

RC_GTEST_PROP(OpDifferences, TurnWithTheirDirectionAndSumToBusyTimes, ()) {
    const Prediction a = of_layout(random_sets());
    const Prediction b = of_layout(random_sets());
    const trace::OpDifferences there = differences(a, b), back = differences(b, a);
    RC_ASSERT(there.counts.aligned == back.counts.aligned);
    RC_ASSERT(there.counts.a_ops == back.counts.b_ops);
    RC_ASSERT(there.counts.longer + there.counts.shorter ==
              back.counts.longer + back.counts.shorter);
    for (const Prediction* step : {&a, &b})
        for (const trace::ProgramOps& program : step->trace.programs)
            if (trace::first_of_last_step(program) > 0) return;  // the window is of two steps
    std::map<std::pair<plan::OpKind, plan::GroupKind>, std::pair<double, double>> sums;
    for (const trace::OpDifference& op : there.ops) {
        auto& [a_s, b_s] = sums[{op.name().kind, op.name().group}];
        a_s += op.a_s;
        b_s += op.b_s;
    }
    for (const BusyDifference& busy : difference_of(a, b).busy) {
        const auto& [a_s, b_s] = sums[{busy.kind, busy.group}];
        RC_ASSERT(near(a_s, busy.a_s));
        RC_ASSERT(near(b_s, busy.b_s));
    }
}

RC_GTEST_PROP(OpDifferences, OfAStepWithItselfAreNothing, ()) {
    const Prediction a = of_layout(random_sets());
    const trace::OpDifferences none = differences(a, a);
    RC_ASSERT(none.counts.aligned == none.counts.a_ops);
    RC_ASSERT(none.counts.longer + none.counts.shorter + none.counts.moved + none.counts.resized ==
              0);
    for (const trace::OpDifference& op : none.ops)
        RC_ASSERT(op.a_s == op.b_s);
}

// Recomputation adds a forward pass to each backward one and takes nothing away.
TEST(OpDifferences, OfRecomputationAreInOneStepAlone) {
    const Sets layout = {"layout.tensor_parallel=2", "layout.pipeline_parallel=2"};
    const trace::OpDifferences found =
        differences(of_layout(layout), of_layout(joined(layout, {"layout.recompute=full"})));
    EXPECT_EQ(found.counts.aligned, found.counts.a_ops);
    EXPECT_EQ(found.counts.moved, 0);
    std::int64_t alone = 0;
    for (const trace::OpDifference& op : found.ops) {
        if (op.a != nullptr) continue;
        EXPECT_EQ(op.b->phase, plan::Phase::recompute) << op.b->block << ' ' << op.b->label;
        alone += op.count;
    }
    EXPECT_GT(alone, 0);
    EXPECT_EQ(alone, found.counts.b_ops - found.counts.aligned);
}

// A backward pass in one action is the same as in two: what gives gradients of inputs is in the
// first half, what gives those of weights in the second.
TEST(OpDifferences, FindABackwardPassInItsHalves) {
    const Prediction a = of_layout({"layout.pipeline_parallel=2", "layout.schedule=1f1b"});
    const Prediction b = of_layout({"layout.pipeline_parallel=2", "layout.schedule=zb-h1"});
    for (const bool turned : {false, true}) {
        const trace::Trace& one = turned ? b.trace : a.trace;
        const trace::Alignment alignment(one, turned ? a.trace : b.trace);
        for (std::size_t p = 0; p < one.programs.size(); ++p)
            for (std::size_t i = trace::first_of_last_step(one.programs[p]);
                 i < one.programs[p].op.size(); ++i) {
                if (one.programs[p].layer[i] < 0) continue;
                const auto there = alignment.counterpart(
                    trace::Side::a,
                    trace::ProgramOp{static_cast<std::int32_t>(p), static_cast<std::int32_t>(i)});
                ASSERT_TRUE(there) << one.ops[one.programs[p].op[i]].label;
                const trace::Trace& next = alignment.trace(trace::Side::b);
                const std::uint32_t op = next.programs[static_cast<std::size_t>(there->program)]
                                             .op[static_cast<std::size_t>(there->op)];
                EXPECT_EQ(next.ops[op].label, one.ops[one.programs[p].op[i]].label);
            }
    }
}

// Four layers on four stages, then on two: those of stages 1 to 3 have moved, each of eight
// micro-batches, and so has the head behind them. Each op is of the size that it was.
TEST(OpDifferences, FollowLayersThroughALayout) {
    const Prediction a = of_layout({"layout.pipeline_parallel=4"});
    const Prediction b = of_layout({"layout.pipeline_parallel=2"});
    const trace::Alignment alignment(a.trace, b.trace);
    std::int64_t layers = 0, moved = 0;
    for (std::size_t p = 0; p < a.trace.programs.size(); ++p) {
        const trace::ProgramOps& program = a.trace.programs[p];
        for (std::size_t i = 0; i < program.op.size(); ++i) {
            if (program.layer[i] < 0) continue;
            ++layers;
            const auto there = alignment.counterpart(
                trace::Side::a,
                trace::ProgramOp{static_cast<std::int32_t>(p), static_cast<std::int32_t>(i)});
            ASSERT_TRUE(there);
            const trace::ProgramOps& other =
                b.trace.programs[static_cast<std::size_t>(there->program)];
            const auto at = static_cast<std::size_t>(there->op);
            EXPECT_EQ(other.layer[at], program.layer[i]);
            EXPECT_FALSE(trace::resized(a.trace.ops[program.op[i]], b.trace.ops[other.op[at]]));
            EXPECT_EQ(other.pipeline_rank, program.layer[i] / 2);
            moved += other.pipeline_rank != program.pipeline_rank;
        }
    }
    EXPECT_EQ(moved * 4, layers * 3);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
