// Steps whose loss spikes are not taken: by all ranks or by none, and the model is then the one
// that never saw them.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kBatch = 8;  // samples of a step (kGpt)
constexpr std::int32_t kUsual = 7;
constexpr std::int32_t kUnheardOf = 60;
constexpr double kSkipAbove = 3;
constexpr std::size_t kWindow = 2;

using Steps = std::set<std::int64_t>;

// The same token again and again, which a model soon knows. In one sample of the odd steps another
// one follows it: one data-parallel rank alone has that sample.
runtime::SampleReader samples(const Steps& odd) {
    return [odd](std::int64_t sample, std::span<std::int32_t> tokens,
                 std::span<std::int32_t> targets) {
        const bool is_odd = odd.contains(sample / kBatch + 1) && sample % kBatch == 3;
        std::fill(tokens.begin(), tokens.end(), kUsual);
        std::fill(targets.begin(), targets.end(), is_odd ? kUnheardOf : kUsual);
    };
}

// Steps that the definition in scenario.hpp skips, from the losses of a run.
std::vector<bool> skipped_by_definition(const std::vector<double>& losses, double skip_above,
                                        std::size_t window) {
    std::vector<double> taken;
    std::vector<bool> skipped;
    for (const double loss : losses) {
        bool skips = false;
        if (taken.size() >= window) {
            const auto last = taken.end() - static_cast<std::ptrdiff_t>(window);
            const double mean =
                std::accumulate(last, taken.end(), 0.0) / static_cast<double>(window);
            skips = loss > skip_above * mean;
        }
        skipped.push_back(skips);
        if (!skips) taken.push_back(loss);
    }
    return skipped;
}

std::vector<bool> spikes(const Trained& run) {
    std::vector<bool> spiked;
    for (const runtime::Skipped skipped : run.skipped)
        spiked.push_back(skipped == runtime::Skipped::loss_spike);
    return spiked;
}

Trained train_steps(Sets sets, std::int64_t steps, const Steps& odd,
                    const std::function<void(plan::Plan&)>& change_plan = {}) {
    sets.push_back("training.optimizer.learning_rate=0.01");
    RunOptions options;
    options.steps = steps;
    options.samples = samples(odd);
    options.change_plan = change_plan;
    return train(scenario(kGpt, sets), options);
}

Sets skipping(Sets sets) {
    sets.push_back("training.loss_spike.skip_above=3");
    sets.push_back("training.loss_spike.window=2");
    return sets;
}

constexpr std::int64_t kUsualSteps = 11;
const Steps kOdd = {10, 11};

// Those of steps that changed the model; fp16 begins with some that overflow.
std::vector<double> losses_taken(const Trained& run) {
    std::vector<double> taken;
    for (std::size_t i = 0; i < run.losses.size(); ++i)
        if (run.skipped[i] == runtime::Skipped::no) taken.push_back(run.losses[i]);
    return taken;
}

// All samples are alike but the odd ones: without these the data are those of two steps less.
bool is_as_if_it_never_saw_them(const Trained& run, const Sets& sets) {
    const Trained usual = train_steps(sets, kUsualSteps, {});
    return run.disagreement.empty() && losses_taken(run) == losses_taken(usual) &&
           run.parameters == usual.parameters;
}

class LossSpikeIn : public testing::TestWithParam<NamedLayout> {};

TEST_P(LossSpikeIn, LeavesTheModelAsIfTheBatchHadNotBeenThere) {
    const std::int64_t steps = kUsualSteps + static_cast<std::int64_t>(kOdd.size());
    const Trained run = train_steps(skipping(GetParam().sets), steps, kOdd);
    std::vector<bool> expected(static_cast<std::size_t>(steps), false);
    for (const std::int64_t step : kOdd)
        expected[static_cast<std::size_t>(step - 1)] = true;
    EXPECT_EQ(spikes(run), expected) << testing::PrintToString(run.losses);
    EXPECT_EQ(spikes(run), skipped_by_definition(run.losses, kSkipAbove, kWindow));
    EXPECT_EQ(run.disagreement, "");
    EXPECT_TRUE(is_as_if_it_never_saw_them(run, GetParam().sets));
    for (const runtime::RankMemory& memory : run.result.memory)
        EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
}

const NamedLayout kLayouts[] = {
    layout("alone", {}),
    layout("alone_fp64", {"training.precision=fp64"}),
    layout("alone_bf16", {"training.precision=bf16"}),
    layout("alone_fp16", {"training.precision=fp16"}),
    layout("no_clipping", {"training.optimizer.clip_norm=0"}),
    layout("sequence_2", {"tensor_parallel=2", "sequence_parallel=true"}),
    layout("data_4", {"data_parallel=4", "training.gradient_bucket_mb=0.02"}),
    layout("zero1_data_2", {"data_parallel=2", "zero_stage=1"}),
    layout("zero2_hybrid", {"data_parallel=4", "zero_stage=2", "zero_group_size=2"}),
    layout("zero3_pipeline", {"data_parallel=2", "pipeline_parallel=2", "zero_stage=3"}),
    layout("pipeline_4_gpipe", {"pipeline_parallel=4", "schedule=gpipe"}),
    layout("interleaved_fp16", {"pipeline_parallel=2", "schedule=interleaved", "virtual_pipeline=2",
                                "training.precision=fp16"}),
    layout("tensor_pipeline_data", {"tensor_parallel=2", "pipeline_parallel=2", "data_parallel=2"}),
};
INSTANTIATE_TEST_SUITE_P(All, LossSpikeIn, testing::ValuesIn(kLayouts),
                         [](const auto& tested) { return tested.param.name; });

// A loss that a rank has not heard of makes it go on where others skip.
TEST(LossSpikeMutation, EveryRankMustKnowTheLoss) {
    const std::int64_t steps = kUsualSteps + static_cast<std::int64_t>(kOdd.size());
    for (const char* parallel : {"tensor_parallel", "data_parallel", "pipeline_parallel"}) {
        const Sets sets = {std::string("layout.") + parallel + "=2"};
        bool removed = false;
        const Trained run = train_steps(skipping(sets), steps, kOdd, [&](plan::Plan& plan) {
            for (plan::Block& block : plan.blocks)
                for (plan::Op& op : block.ops)
                    if (block.name == "loss_spike" && op.kind() == plan::OpKind::all_reduce) {
                        op.group = plan::GroupKind::context;  // of one rank
                        removed = true;
                    }
        });
        EXPECT_TRUE(removed) << parallel;
        EXPECT_FALSE(is_as_if_it_never_saw_them(run, sets)) << parallel;
    }
}

// Nothing is skipped before the window is full, even of a run that goes astray at once.
TEST(LossSpike, TakesTheFirstStepsWhateverTheirLoss) {
    Sets sets = {"training.loss_spike.skip_above=1.5", "training.loss_spike.window=3",
                 "layout.pipeline_parallel=2"};
    sets.push_back("training.optimizer.learning_rate=3");
    RunOptions options;
    options.steps = 8;
    const Trained run = train(scenario(kGpt, sets), options);
    EXPECT_GT(run.losses[1], 1.5 * run.losses[0]) << "the run does not go astray";
    EXPECT_EQ(spikes(run), skipped_by_definition(run.losses, 1.5, 3));
    EXPECT_EQ(std::vector(run.skipped.begin(), run.skipped.begin() + 3),
              std::vector(3, runtime::Skipped::no));
}

// What overflow skips neither counts nor spikes.
TEST(LossSpike, LeavesStepsThatOverflowAside) {
    Sets sets = skipping({"training.precision=fp16", "training.loss_scale.initial=1e30",
                          "training.loss_scale.hysteresis=1", "layout.data_parallel=2"});
    const Trained run = train_steps(sets, 120, {});
    std::vector<double> losses;
    std::vector<bool> spiked;
    for (std::size_t i = 0; i < run.losses.size(); ++i) {
        if (run.skipped[i] == runtime::Skipped::overflow) continue;
        losses.push_back(run.losses[i]);
        spiked.push_back(run.skipped[i] == runtime::Skipped::loss_spike);
    }
    EXPECT_LT(losses.size(), run.losses.size());
    EXPECT_GT(losses.size(), kWindow);
    EXPECT_EQ(spiked, skipped_by_definition(losses, kSkipAbove, kWindow));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
