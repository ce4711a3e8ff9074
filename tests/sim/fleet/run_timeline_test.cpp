// One run of those drawn, as it goes on: nothing is lost between its stretches, and each stop is
// where its failure says.
#include "sim/fleet/run_timeline.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "plan/scenario/reader.hpp"
#include "sim/engine/engine.hpp"
#include "sim/fleet/goodput.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

constexpr double kHour = 3600, kDay = 86400;

double sum_of(const RunSeconds& seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double at(const RunSeconds& seconds, RunAccount account) {
    return seconds[static_cast<std::size_t>(account)];
}

// All that a run can meet: causes of three kinds, one spare, a layout on fewer nodes, copies in
// memory, data that come late.
RunModel eventful() {
    RunModel model;
    model.work_s = 20 * kDay;
    model.early = 0.05;
    model.late = 0.1;
    model.data_share = 0.125;
    model.warming_s = 2 * kHour;
    model.causes = {{"node", 1 / (7 * kHour), 200, true, false, true},
                    {"run", 1 / (30 * kHour), 100, false, false, false},
                    {"silent", 1 / (40 * kHour), 5000, true, true, true}};
    model.rate_log_sd = 0.5;
    model.diagnosis_s = 120;
    model.replacement_s = 60;
    model.restart_s = 240;
    model.load_s = 80;
    model.interval_s = 1800;
    model.stall_s = 20;
    model.write_s = 400;
    model.memory_interval_s = 300;
    model.memory_stall_s = 1;
    model.memory_load_s = 2;
    model.spare_nodes = 1;
    model.repair_s = 20 * kHour;
    model.degraded_pace = 0.8;
    return model;
}

TEST(RunTimeline, ItsStretchesAreTheRunThatIsDrawn) {
    const RunModel model = eventful();
    RunSeconds met{};
    for (std::uint64_t i = 0; i < 30; ++i) {
        const RunTimeline run = record_run(model, 5, i);
        const RunOutcome drawn = draw_run(model, 5, i);
        EXPECT_EQ(run.outcome.seconds, drawn.seconds);
        EXPECT_EQ(run.outcome.failures, drawn.failures);
        EXPECT_EQ(run.failures.size(), static_cast<std::size_t>(drawn.failures));
        ASSERT_FALSE(run.stretches.empty());
        double now_s = 0;
        RunSeconds sums{};
        for (const RunStretch& stretch : run.stretches) {
            EXPECT_EQ(stretch.begin_s, now_s);
            EXPECT_GT(stretch.end_s, stretch.begin_s);
            EXPECT_NEAR(sum_of(stretch.seconds), stretch.end_s - stretch.begin_s, 1e-6);
            now_s = stretch.end_s;
            for (std::size_t a = 0; a < kRunAccounts; ++a)
                sums[a] += stretch.seconds[a];
        }
        EXPECT_NEAR(now_s, drawn.wall_s(), 1e-9 * now_s);
        for (std::size_t a = 0; a < kRunAccounts; ++a) {
            EXPECT_NEAR(sums[a], drawn.seconds[a], 1e-9 * now_s) << name(RunAccount(a));
            met[a] += sums[a];
        }
    }
    for (std::size_t a = 0; a < kRunAccounts; ++a)
        EXPECT_GT(met[a], 0) << name(RunAccount(a)) << ": the runs have met everything";
}

TEST(RunTimeline, WaitsForDataAreAShareOfTheStepsAndTheWarmingBefore) {
    const RunModel model = eventful();
    const RunTimeline run = record_run(model, 5, 0);
    EXPECT_EQ(run.stretches[0].does, RunAccount::data);
    EXPECT_EQ(run.stretches[0].end_s, model.warming_s);
    const double data_s = at(run.outcome.seconds, RunAccount::data) - model.warming_s;
    const double steps_s = at(run.outcome.seconds, RunAccount::steps);
    EXPECT_NEAR(data_s / (steps_s + data_s), 0.125, 1e-9);
}

// Each stop is told: the work that is undone ends where the failure strikes, or goes on from there
// until a silent one is noticed; then it is noticed, found and restarted, in this order.
TEST(RunTimeline, AFailureCostsWhatItsCauseSays) {
    RunModel model = eventful();
    model.memory_interval_s = 0;
    model.degraded_pace = 0;
    model.spare_nodes = 1'000'000;  // none waits
    const RunTimeline run = record_run(model, 5, 3);
    ASSERT_GT(run.failures.size(), 20U);
    RunSeconds of_failures{};
    for (std::size_t number = 0; number < run.failures.size(); ++number) {
        const RunFailure& failure = run.failures[number];
        const RunCause& cause = model.causes[failure.cause];
        const RunSeconds cost = run.cost_of(number);
        EXPECT_NEAR(at(cost, RunAccount::detection), cause.silent ? 0 : cause.detection_s, 1e-6);
        EXPECT_NEAR(at(cost, RunAccount::diagnosis), 120, 1e-6);
        EXPECT_NEAR(at(cost, RunAccount::restart), 240 + 80 + (cause.replaces_node ? 60 : 0), 1e-6);
        // No more than an interval, and what is done while a checkpoint is written.
        const double undone = at(cost, RunAccount::lost_work) - (cause.silent ? 5000 : 0);
        EXPECT_GE(undone, -1e-6);
        EXPECT_LE(undone, 1.3 * 1800 + 400);  // an interval has as many steps, some slower
        const RunStretch& first = run.stretches[failure.first_stretch];
        if (undone > 1e-3) {
            EXPECT_EQ(first.does, RunAccount::lost_work);
            EXPECT_NEAR(failure.at_s, first.begin_s + undone, 1e-3);
        }
        for (std::size_t a = 0; a < kRunAccounts; ++a)
            of_failures[a] += cost[a];
    }
    for (const RunAccount account :
         {RunAccount::lost_work, RunAccount::detection, RunAccount::diagnosis, RunAccount::restart})
        EXPECT_NEAR(at(of_failures, account), at(run.outcome.seconds, account), 1e-3);
}

TEST(RunTimeline, CellsPartTheRunWithoutRemainder) {
    const RunTimeline run = record_run(eventful(), 5, 2);
    const double end_s = run.stretches.back().end_s;
    for (const double cell_s : {600.0, kHour, 7 * kDay, end_s / 3, end_s, 2 * end_s}) {
        const std::vector<RunCell> cells = cells_of(run, cell_s);
        EXPECT_EQ(cells.size(), static_cast<std::size_t>(std::ceil(end_s / cell_s - 1e-9)));
        RunSeconds sums{};
        std::size_t failures = 0;
        for (std::size_t c = 0; c < cells.size(); ++c) {
            const double length_s = std::min(cell_s, end_s - static_cast<double>(c) * cell_s);
            EXPECT_NEAR(sum_of(cells[c].seconds), length_s, 1e-6 * cell_s) << cell_s << ' ' << c;
            for (std::size_t a = 0; a < kRunAccounts; ++a)
                sums[a] += cells[c].seconds[a];
            if (cells[c].failures > 0) {
                EXPECT_EQ(cells[c].first_failure, failures);
            }
            failures += cells[c].failures;
        }
        EXPECT_EQ(failures, run.failures.size());
        for (std::size_t a = 0; a < kRunAccounts; ++a)
            EXPECT_NEAR(sums[a], run.outcome.seconds[a], 1e-9 * end_s);
    }
}

// By hand: a run of ten intervals that a silent failure would never be told from is one stretch.
TEST(RunTimeline, WithoutFailuresItIsOneStretch) {
    RunModel model;
    model.work_s = 1000;
    model.interval_s = 100;
    model.stall_s = 3;
    const RunTimeline run = record_run(model, 1, 0);
    ASSERT_EQ(run.stretches.size(), 1U);
    // Nine checkpoints: the run ends with its last interval.
    EXPECT_NEAR(run.stretches[0].end_s, 1000 + 9 * 3, 1e-9);
    EXPECT_NEAR(at(run.stretches[0].seconds, RunAccount::saving), 27, 1e-9);
    const std::vector<RunCell> cells = cells_of(run, 500);
    ASSERT_EQ(cells.size(), 3U);
    EXPECT_NEAR(at(cells[0].seconds, RunAccount::saving), 27 * 500 / 1027.0, 1e-9);
    EXPECT_NEAR(sum_of(cells[2].seconds), 27, 1e-9);
}

Goodput goodput_of(const GoodputOptions& options) {
    plan::ReadResult read = plan::read_scenario(
        std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/gpt3-175b-a100x1024.json",
        {"training.tokens=1e11", "reliability=meta-rsc"}, theory::library());
    Prediction prediction;
    prediction.step.time_s = 20;
    prediction.conserved.parameters = 175'000'000'000;
    prediction.conserved.tokens_per_step =
        read.scenario->layout.global_batch_size * read.scenario->training.sequence_length;
    prediction.throughput.tokens_per_s =
        static_cast<double>(prediction.conserved.tokens_per_step) / 20;
    return predict_goodput(*read.scenario, prediction, 0, options);
}

TEST(RunTimeline, TheRunThatIsShownIsTheOneInTheMiddle) {
    for (const std::size_t count : {1U, 100U, 101U}) {
        const Goodput goodput = goodput_of({count, 3});
        ASSERT_TRUE(goodput.middle);
        const double wall_s = goodput.middle->outcome.wall_s();
        std::size_t shorter = 0, longer = 0;
        for (const RunOutcome& outcome : draw_runs(goodput.model, 3, count)) {
            shorter += outcome.wall_s() < wall_s ? 1 : 0;
            longer += outcome.wall_s() > wall_s ? 1 : 0;
        }
        EXPECT_EQ(shorter, (count - 1) / 2);
        EXPECT_EQ(longer, count / 2);
        EXPECT_EQ(draw_run(goodput.model, 3, goodput.middle->run).wall_s(), wall_s);
    }
}

TEST(RunTimeline, ARunThatIsNotWantedAnyMoreIsStopped) {
    std::atomic<bool> stop{true};
    EXPECT_THROW(goodput_of({100, 3, &stop}), Stopped);
    stop = false;
    EXPECT_GT(goodput_of({100, 3, &stop}).days, 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
