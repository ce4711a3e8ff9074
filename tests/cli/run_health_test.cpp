// What a run's watch tells its output, from steps that are made for it.
#include "runtime/train/run_health.hpp"

#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>

#include "cli/run/train_run.hpp"
#include "plan/scenario/reader.hpp"
#include "tests/cli/world.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using ::testing::HasSubstr;

const std::string kTinyGpt = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json";

plan::Scenario tiny_scenario(std::vector<std::string> sets) {
    const plan::ReadResult read =
        plan::read_scenario(kTinyGpt, sets, std::string(ORRERY_SOURCE_DIR) + "/scenarios");
    EXPECT_TRUE(read.scenario) << plan::format_text(read.errors);
    return read.scenario.value_or(plan::Scenario{});
}

// Keeps what is noticed.
struct Notices {
    std::vector<runtime::HealthNotice> all;

    std::function<void(const runtime::HealthNotice&)> keep() {
        return [this](const runtime::HealthNotice& notice) { all.push_back(notice); };
    }
};

runtime::StepReport step_of(std::int64_t number, double loss, std::vector<double> computed_s) {
    runtime::StepReport step;
    step.step = number;
    step.loss = loss;
    step.time_s = 0.1;
    step.computed_s = std::move(computed_s);
    return step;
}

// 2 pipeline × 2 data: ranks 0 and 1 are of the first stage.
const std::vector<std::string> kTwoStages = {"layout.pipeline_parallel=2", "layout.data_parallel=2",
                                             "layout.tensor_parallel=1"};
const std::vector<std::string> kHostsOfFour = {"one", "one", "two", "two"};

TEST(RunHealth, NamesAStragglerAmongThoseThatDoTheSame) {
    const plan::Scenario scenario = tiny_scenario(kTwoStages);
    TrainRun run{scenario};
    run.cores = 64;
    run.ranks_here = 4;
    Notices notices;
    runtime::RunHealth health(run.scenario, {run.ranks_take_turns(), nullptr}, notices.keep());
    health.met(kHostsOfFour);
    for (std::int64_t number = 1; number <= 10; ++number)
        health.stepped(step_of(number, 1, {0.02, 0.02, 0.05, 0.06}));
    ASSERT_EQ(notices.all.size(), 1U);
    EXPECT_EQ(notices.all[0].rank, 3);
    EXPECT_EQ(notices.all[0].host, "two");
}

// What does more than the peak has no utilisation of it: the peak is of another machine.
TEST(TrainRun, PrintsNoUtilisationAboveTheWhole) {
    const plan::Scenario scenario = tiny_scenario({});
    TrainRun run{scenario};
    run.conserved.model_flops_per_step = 3e9;
    run.peak_flops_per_s = 1e9;
    const std::int64_t samples = scenario.layout.global_batch_size;
    EXPECT_DOUBLE_EQ(run.mfu(samples, 6).value(), 0.5);
    EXPECT_DOUBLE_EQ(run.mfu(samples, 3).value(), 1);
    EXPECT_FALSE(run.mfu(samples, 2.9).has_value());
}

// The shipped profile is of one core; a rank has as many as its team has threads.
TEST(TrainRun, HasThePeakOfAllCoresOfItsRanks) {
    const auto peak = [](const std::string& threads) {
        const plan::Scenario scenario = tiny_scenario({"run.threads_per_rank=" + threads});
        return train_run_of(scenario, 1, 0).peak_flops_per_s.value();
    };
    EXPECT_DOUBLE_EQ(peak("3"), 3 * peak("1"));
}

TEST(RunHealth, SaysNothingOfRanksThatTakeTurnsOnACore) {
    const plan::Scenario scenario = tiny_scenario(kTwoStages);
    TrainRun run{scenario};
    run.cores = 2;
    run.ranks_here = 4;
    Notices notices;
    runtime::RunHealth health(run.scenario, {run.ranks_take_turns(), nullptr}, notices.keep());
    health.met(kHostsOfFour);
    for (std::int64_t number = 1; number <= 10; ++number)
        health.stepped(step_of(number, 1, {0.02, 0.02, 0.05, 0.06}));
    EXPECT_TRUE(notices.all.empty());
}

TEST(RunHealth, HoldsRanksAgainstAPrediction) {
    const std::string file = testing::TempDir() + "predicted.orrery";
    std::vector<std::string> words = {"simulate", kTinyGpt, "--trace", file};
    for (const std::string& set : kTwoStages)
        words.insert(words.end(), {"--set", set});
    ASSERT_EQ(cli::run(words).code, 0);
    const trace::Trace predicted = trace::read_trace(file);
    const plan::Scenario scenario = tiny_scenario(kTwoStages);
    const std::vector<double> expected = runtime::expected_compute_s(scenario.layout, predicted);
    ASSERT_EQ(expected.size(), 4U);
    EXPECT_GT(expected[0], 0);
    EXPECT_EQ(expected[0], expected[1]);
    EXPECT_EQ(expected[2], expected[3]);
    EXPECT_NE(expected[0], expected[2]) << "the last stage has the head, the first the embedding";
    TrainRun run{scenario};
    run.cores = 64;
    run.ranks_here = 4;
    Notices notices;
    runtime::RunHealth health(run.scenario, {run.ranks_take_turns(), &predicted}, notices.keep());
    health.met(kHostsOfFour);
    for (std::int64_t number = 1; number <= 10; ++number)
        health.stepped(
            step_of(number, 1, {expected[0], expected[1], 1.5 * expected[2], expected[3]}));
    ASSERT_EQ(notices.all.size(), 1U);
    EXPECT_EQ(notices.all[0].rank, 2);
    EXPECT_THAT(notices.all[0].message, HasSubstr("computes 50 % longer than its peers"));
    EXPECT_THAT(notices.all[0].message, HasSubstr(" s were predicted"));
}

TEST(RunHealth, TellsOfALossThatIsNoNumberAndOfOneThatDiverges) {
    const plan::Scenario scenario = tiny_scenario({"run.health.diverging_window=3"});
    const TrainRun run{scenario};
    Notices notices;
    runtime::RunHealth health(run.scenario, {run.ranks_take_turns(), nullptr}, notices.keep());
    const double none = std::numeric_limits<double>::quiet_NaN();
    runtime::StepReport skipped = step_of(1, none, {});
    skipped.skipped = runtime::Skipped::overflow;
    health.stepped(skipped);
    EXPECT_TRUE(notices.all.empty()) << "the step was not taken";
    for (std::int64_t number = 2; number <= 7; ++number)
        health.stepped(step_of(number, 2, {}));
    for (std::int64_t number = 8; number <= 10; ++number)
        health.stepped(step_of(number, 3, {}));
    health.stepped(step_of(11, none, {}));
    ASSERT_EQ(notices.all.size(), 2U);
    EXPECT_EQ(notices.all[0].ailment, runtime::Ailment::diverging);
    EXPECT_EQ(notices.all[0].step, 9) << "(2 + 3 + 3)/3 is 1.33 × 2";
    EXPECT_EQ(notices.all[1].ailment, runtime::Ailment::not_finite);
    EXPECT_EQ(notices.all[1].message, "the loss is no number");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
