// A measured step laid over the predicted one: errors of known size are found where they were put.
#include "calib/compare/trace_join.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "calib/compare/trace_differences.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/prediction.hpp"
#include "tests/calib/compare/measured_run.hpp"
#include "trace/formats/native.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

using trace::Picoseconds;

// A scenario of the shipped library, its plan and its prediction.
struct World {
    plan::ReadResult read;
    sim::Profile profile;
    plan::Plan plan;
    sim::Prediction prediction;

    explicit World(const std::vector<std::string>& sets, bool unfolded = false)
        : read(plan::read_scenario(std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json",
                                   sets, std::string(ORRERY_SOURCE_DIR) + "/scenarios")) {
        EXPECT_TRUE(read.scenario) << plan::format_text(read.errors);
        profile = sim::load_profiles(read.scenario->cluster);
        plan = plan::build_plan(*read.scenario);
        prediction = sim::simulate(*read.scenario, profile, {unfolded}, read.resolved_json);
    }

    // What was predicted, rank by rank, as if it had been measured.
    trace::Trace as_measured() const {
        trace::Trace trace =
            sim::simulate(*read.scenario, profile, {true}, read.resolved_json).trace;
        trace.origin = trace::Origin::measured;
        trace.facts = {};
        return trace;
    }

    Comparison compared(const trace::Trace& measured) const {
        return compare_traces(prediction.trace, measured);
    }
};

TEST(Compare, FindsNoErrorWhereThereIsNone) {
    const World world({});
    ASSERT_LT(world.prediction.trace.tracks.size(), 8u);  // folded: joined by class
    const Comparison comparison = world.compared(world.as_measured());
    EXPECT_EQ(comparison.ranks, 8);
    EXPECT_EQ(comparison.step.error_pct(), 0);
    for (const TimePair& account : comparison.accounts)
        EXPECT_NEAR(account.predicted_s, account.measured_s, 1e-15);
    std::int64_t ops = 0;
    for (const KindComparison& kind : comparison.kinds) {
        EXPECT_NEAR(kind.time.error_pct().value_or(0), 0, 1e-9);
        ops += kind.count;
    }
    std::int64_t linked = 0;
    for (plan::Rank rank = 0; rank < 8; ++rank)
        linked +=
            static_cast<std::int64_t>(plan::link(world.plan, world.plan.program_of(rank)).size());
    EXPECT_EQ(ops, linked);
}

// Everything took twice as long: half of it was predicted, everywhere.
TEST(Compare, FindsAStepOfTwiceTheTime) {
    const World world({});
    trace::Trace measured = world.as_measured();
    measured.step_start *= 2;
    measured.step_end *= 2;
    for (trace::Track& track : measured.tracks)
        track.events.change([](trace::Event& event, std::size_t) {
            event.ready *= 2;
            event.start *= 2;
            event.end *= 2;
        });
    const Comparison comparison = world.compared(measured);
    EXPECT_DOUBLE_EQ(comparison.step.error_pct().value(), -50);
    for (const KindComparison& kind : comparison.kinds) {
        if (kind.time.measured_s == 0) continue;
        EXPECT_NEAR(kind.time.error_pct().value(), -50, 1e-9);
        EXPECT_NEAR(kind.rank_error_pct->low, -50, 1e-9);
        EXPECT_NEAR(kind.rank_error_pct->high, -50, 1e-9);
    }
    double shares = 0;
    for (const OpComparison& op : comparison.ops)
        shares += op.share_of_error;
    EXPECT_NEAR(shares, 1, 1e-12);
}

// One rank's "qkv" takes 3 µs longer each time: the op comes first, with all of the error.
TEST(Compare, NamesTheOpThatIsWrong) {
    const World world({"layout.tensor_parallel=1", "layout.pipeline_parallel=1",
                       "layout.data_parallel=2", "cluster.devices_per_node=2"});
    trace::Trace measured = world.as_measured();
    constexpr Picoseconds kLonger = 3'000'000;
    trace::Track& slow = measured.tracks[1];
    std::int64_t runs = 0;
    slow.events.change([&](trace::Event& event, std::size_t i) {
        if (measured.op_of(slow, i).label != "qkv") return;
        event.end += kLonger;
        ++runs;
    });
    ASSERT_EQ(runs, 4 * 8);  // layers × micro-batches
    const Comparison comparison = world.compared(measured);
    const OpComparison& worst = comparison.ops.front();
    EXPECT_EQ(worst.name->label, "qkv");
    EXPECT_EQ(worst.name->block, "layer.forward");
    EXPECT_EQ(worst.count, 2 * runs);
    EXPECT_EQ(worst.layers, (std::vector<std::int16_t>{0, 1, 2, 3}));
    EXPECT_DOUBLE_EQ(worst.share_of_error, 1);
    EXPECT_NEAR(worst.time.measured_s - worst.time.predicted_s,
                3e-6 * static_cast<double>(runs) / 2, 1e-15);
    EXPECT_NEAR(worst.measured_each_s.high - worst.measured_each_s.low, 3e-6, 1e-15);
    for (const KindComparison& kind : comparison.kinds) {
        if (kind.kind != plan::OpKind::gemm) continue;
        EXPECT_LT(kind.rank_error_pct->low, 0);
        EXPECT_EQ(kind.rank_error_pct->high, 0);
    }
}

// Where a step overlaps the next, the prediction holds two, and the second is compared.
TEST(Compare, JoinsTheLastOfSeveralSteps) {
    const World world({"training.optimizer.clip_norm=0"});
    const std::size_t once = plan::link(world.plan, world.plan.programs[0]).size();
    ASSERT_EQ(world.prediction.trace.programs[0].op.size(), 2 * once);
    const trace::Trace measured = measured_run(
        world.plan,
        [](plan::Rank, std::uint32_t) {
            return Timing{0, 1'000'000};
        },
        world.read.resolved_json);
    ASSERT_EQ(measured.programs[0].op.size(), once);
    const Comparison comparison = world.compared(measured);
    for (const OpComparison& op : comparison.ops) {
        EXPECT_NEAR(op.measured_each_s.low, 1e-6, 1e-18);
        EXPECT_NEAR(op.measured_each_s.high, 1e-6, 1e-18);
    }
}

// A thread that comes late to a kernel is no slow kernel: it is in the account of launches.
TEST(Compare, CountsLateStartsAsLaunches) {
    const World world({"layout.tensor_parallel=1", "layout.pipeline_parallel=1",
                       "layout.data_parallel=1", "cluster.devices_per_node=1"});
    const trace::Trace measured = measured_run(
        world.plan,
        [](plan::Rank, std::uint32_t) {
            return Timing{2'000'000, 5'000'000};
        },
        world.read.resolved_json);
    const Comparison comparison = world.compared(measured);
    const double ops = static_cast<double>(measured.tracks[0].events.size());
    const auto launch = static_cast<std::size_t>(trace::Account::launch);
    EXPECT_NEAR(comparison.accounts[launch].measured_s, 2e-6 * ops, 1e-12);
    EXPECT_NEAR(comparison.step.measured_s, 7e-6 * ops, 1e-12);
}

TEST(Compare, TakesMemoryFromWhatTheRunSays) {
    const World world({});
    trace::Trace measured = world.as_measured();
    EXPECT_FALSE(world.compared(measured).memory.measured_peak.has_value());
    measured.facts.backend = "cpu";
    measured.facts.high_water_bytes = {1, 2, 30, 4, 5, 6, 7, 8};
    measured.facts.other_bytes = {9, 9, 9, 9, 9, 9, 10, 9};
    measured.facts.step_times_s = {0.5, 0.1, 0.2, 0.4};
    const Comparison comparison = world.compared(measured);
    EXPECT_EQ(comparison.backend, "cpu");
    EXPECT_EQ(comparison.memory.measured_peak, 30);
    EXPECT_EQ(comparison.memory.measured_other, 10);
    std::int64_t arena = 0;
    for (const plan::Program& program : world.plan.programs)
        arena = std::max(arena, program.arena_bytes);
    EXPECT_EQ(comparison.memory.predicted_peak, arena);
    EXPECT_EQ(comparison.steps_measured, 4u);
    EXPECT_DOUBLE_EQ(comparison.step_times_s->median, 0.3);
    EXPECT_EQ(comparison.step_times_s->low, 0.1);
    EXPECT_EQ(comparison.step_times_s->high, 0.5);
}

// Which ranks a track stands for is in the trace: neither the scenario nor the plan is asked.
TEST(Compare, AsksNoScenario) {
    const World world({});
    const trace::Trace measured = world.as_measured();
    const Comparison asked = world.compared(measured);
    for (const char* text : {"", "{", "[1]", R"({"layout": "gone"})"}) {
        trace::Trace predicted = world.prediction.trace, other = measured;
        predicted.scenario_json = other.scenario_json = text;
        const Comparison comparison = compare_traces(predicted, other);
        EXPECT_EQ(comparison.ops.size(), asked.ops.size());
        EXPECT_EQ(comparison.step.error_pct(), 0);
        EXPECT_EQ(comparison.memory.predicted_peak, asked.memory.predicted_peak);
    }
}

// As many ranks as there are, one of them twice: another has none.
TEST(Compare, RefusesTracksOfOneRank) {
    World world({});
    trace::Trace& predicted = world.prediction.trace;
    ASSERT_GE(predicted.tracks.size(), 2u);
    trace::Track& second = predicted.tracks[1];
    const std::int64_t taken = predicted.tracks[0].rank;
    second.alike = {{taken + 1, second.represents() - 1}};
    second.rank = taken;
    try {
        world.compared(world.as_measured());
        FAIL() << "joined";
    } catch (const PlansDiffer& error) {
        EXPECT_EQ(error.differences(),
                  std::vector<std::string>{"predicted rank 0: two tracks are of it"});
    }
}

TEST(Compare, RefusesAnotherPlanWithAllDifferences) {
    const World predicted({});
    const World other({"layout.tensor_parallel=4", "layout.global_batch_size=8"});
    try {
        predicted.compared(other.as_measured());
        FAIL() << "joined";
    } catch (const PlansDiffer& error) {
        const std::string text = error.what();
        for (const char* part :
             {"/layout/tensor_parallel: predicted 2, measured 4",
              "/layout/data_parallel: predicted 2, measured 1",
              "/layout/global_batch_size: predicted 16, measured 8",
              "pipeline rank 0: ops: predicted", "pipeline rank 1: ops: predicted"})
            EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
    }
}

// The same actions and as many ops, but of another size.
TEST(Compare, RefusesAnotherModelOfTheSameLayout) {
    const World predicted({});
    const World other({"model.n_inner=128"});
    const auto differences = differences_of(predicted.prediction.trace, other.as_measured());
    ASSERT_EQ(differences.size(), 3u);  // the key, and a line for each pipeline rank
    EXPECT_EQ(differences[0], "/model/n_inner: predicted 256, measured 128");
}

// What changes no op is no hindrance.
TEST(Compare, JoinsRunsThatDifferInTheirLearningRate) {
    const World predicted({});
    const World other({"training.optimizer.learning_rate=1e-3"});
    EXPECT_TRUE(differences_of(predicted.prediction.trace, other.as_measured()).empty());
}

TEST(Compare, RefusesSidesThatAreSwapped) {
    const World world({});
    trace::Trace measured = world.as_measured();
    measured.origin = trace::Origin::predicted;
    EXPECT_THROW(world.compared(measured), PlansDiffer);
}

TEST(Compare, RefusesAMeasuredTraceThatLacksARank) {
    const World world({});
    trace::Trace measured = world.as_measured();
    measured.tracks.erase(measured.tracks.begin() + 3);
    for (trace::Track& track : measured.tracks)
        track.events.change([](trace::Event& event, std::size_t) { event.late_track = -1; });
    const auto differences = differences_of(world.prediction.trace, measured);
    ASSERT_EQ(differences.size(), 2u);
    EXPECT_EQ(differences[0], "ranks: predicted 8, measured 7");
    EXPECT_EQ(differences[1], "measured rank 3: has no track of its own");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
