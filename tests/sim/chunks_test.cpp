// Chunks of layers: which is the longest and why, what the schedule alone leaves to wait, and how
// whole layers are dealt out better.
#include "sim/chunks.hpp"

#include <gtest/gtest.h>

#include "plan/assemble/build_plan.hpp"
#include "sim/whatif/balanced_layers.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using Sets = std::vector<std::string>;

constexpr auto kBubble = static_cast<std::size_t>(trace::Account::bubble);
constexpr auto kImbalance = static_cast<std::size_t>(trace::Account::imbalance);

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/a100-80gb-sxm.json");
    return loaded;
}

// Kernels of some length, so that waiting is for them.
Sets pipeline(const std::string& layers, const Sets& more = {}) {
    Sets sets = {"model.n_embd=2048",
                 "model.n_positions=1024",
                 "training.sequence_length=1024",
                 "model.n_layer=16",
                 "layout.pipeline_parallel=4",
                 "layout.layers_per_stage=" + layers,
                 "layout.global_batch_size=16",
                 "training.launch_us=0"};
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

Prediction predicted(const Sets& sets) {
    return simulate(theory::scenario(sets), profile(), {}, "{}");
}

// Shared out over all ranks, a large vocabulary makes no chunk longer than another.
TEST(Chunks, ASharedVocabularyLeavesNothingToBalance) {
    const Sets large =
        pipeline("[4,4,4,4]", {"model.vocab_size=65536", "layout.global_batch_size=32"});
    Sets shared = large;
    shared.emplace_back("layout.vocabulary_parallel=vocab-1");
    const Prediction whole = predicted(large), parts = predicted(shared);
    EXPECT_GT(whole.step.breakdown_s[kImbalance], 0.05 * whole.step.time_s);
    EXPECT_LT(parts.step.breakdown_s[kImbalance], 0.002 * parts.step.time_s);
    EXPECT_LT(parts.step.time_s, whole.step.time_s - 0.5 * whole.step.breakdown_s[kImbalance]);
}

// The head of a large vocabulary makes the last chunk the longest, and nothing else does.
TEST(Chunks, TheLongestIsNamedWithWhatMakesItSo) {
    const Prediction small = predicted(pipeline("[4,4,4,4]"));
    const Prediction large = predicted(pipeline("[4,4,4,4]", {"model.vocab_size=65536"}));
    ASSERT_TRUE(large.step.heaviest_chunk);
    const HeaviestChunk& chunk = *large.step.heaviest_chunk;
    EXPECT_EQ(chunk.stage, 3);
    EXPECT_EQ(chunk.pipeline_rank, 3);
    EXPECT_NE(chunk.op.find("logits"), std::string::npos) << chunk.op;
    EXPECT_GT(chunk.time_s, chunk.mean_s);
    EXPECT_GT(chunk.op_excess_s, 0);
    EXPECT_LE(chunk.op_excess_s, chunk.time_s - chunk.mean_s);
    EXPECT_GT(large.step.breakdown_s[kImbalance], small.step.breakdown_s[kImbalance]);
    const Prediction deep = predicted(pipeline("[4,7,4,1]"));
    ASSERT_TRUE(deep.step.heaviest_chunk);
    EXPECT_EQ(deep.step.heaviest_chunk->stage, 1);
}

// 1F1B of p ranks and m micro-batches idles (p − 1)/m of the work of one rank where chunks are
// equal; as far as they are not, the rest is imbalance, to the picosecond of each rank.
TEST(Chunks, WhatTheScheduleLeavesIsTheBubbleWhateverTheChunks) {
    const Prediction even = predicted(pipeline("[4,4,4,4]"));
    const Prediction uneven = predicted(pipeline("[3,3,3,7]"));
    const auto waiting = [](const Prediction& prediction) {
        return prediction.step.breakdown_s[kBubble] + prediction.step.breakdown_s[kImbalance];
    };
    // The same work in the same schedule: embedding and head are small here.
    EXPECT_LT(uneven.step.breakdown_s[kBubble], 1.1 * even.step.breakdown_s[kBubble]);
    EXPECT_GT(waiting(uneven), 2 * waiting(even));
    EXPECT_GT(uneven.step.breakdown_s[kImbalance], uneven.step.breakdown_s[kBubble]);
    const double work = even.step.breakdown_s[static_cast<std::size_t>(trace::Account::compute)];
    EXPECT_NEAR(even.step.breakdown_s[kBubble] / work, 3.0 / 16, 0.02);
    for (const Prediction* prediction : {&even, &uneven}) {
        const trace::Trace& trace = prediction->trace;
        for (const trace::Accounts& accounts : prediction->sums.accounts) {
            Picoseconds sum = 0;
            for (const Picoseconds account : accounts) {
                EXPECT_GE(account, 0);
                sum += account;
            }
            EXPECT_EQ(sum, trace.step_end - trace.step_start);
        }
    }
}

// With times that are multiplied every chunk takes the mean, in each kind of pass.
TEST(Chunks, EqualisedTheyTakeTheSame) {
    const plan::Scenario scenario = theory::scenario(pipeline("[3,3,3,7]"));
    const plan::Plan plan = plan::build_plan(scenario);
    Machine machine = build_machine(plan, scenario, profile(), false);
    const Chunks before(plan, machine);
    const std::vector<double> times = before.times();
    double mean = 0;
    for (const double time : times)
        mean += time / 4;
    const auto factors = before.equalising();
    for (std::size_t t = 0; t < machine.input.tracks.size(); ++t) {
        const auto& linked =
            machine.input.linked[static_cast<std::size_t>(machine.input.tracks[t].program)];
        const auto& steps =
            plan.programs[static_cast<std::size_t>(machine.input.tracks[t].program)].steps;
        double sum = 0;
        for (std::size_t i = 0; i < factors[t].size(); ++i)
            if (plan::is_compute(steps[linked.step[i]].action.kind))
                sum += factors[t][i] *
                       static_cast<double>((*machine.input.tracks[t].durations)[linked.op[i]]);
        EXPECT_NEAR(sum / 16 / mean, 1, 1e-9) << t;
    }
}

TEST(Chunks, LayersAreDealtOutSoThatTheStepIsShorter) {
    const auto asked = [](const Sets& sets) {
        return balanced_layers(
            theory::scenario(sets), profile(), predicted(sets),
            [&](const std::vector<std::string>& changes) -> std::optional<plan::Scenario> {
                Sets all = sets;
                all.insert(all.end(), changes.begin(), changes.end());
                return theory::scenario(all);
            });
    };
    const Sets sets = pipeline("[3,3,3,7]");
    const auto balanced = asked(sets);
    ASSERT_TRUE(balanced);
    EXPECT_EQ(balanced->setting.key, "layout.layers_per_stage");
    EXPECT_EQ(balanced->setting.value, "[4,4,4,4]");
    EXPECT_EQ(balanced->step_time_s, predicted(pipeline("[4,4,4,4]")).step.time_s);
    EXPECT_EQ(balanced->gain_s, predicted(sets).step.time_s - balanced->step_time_s);
    // The head is worth a few layers: the last chunk gets fewer.
    const auto with_head = asked(pipeline("[4,4,4,4]", {"model.vocab_size=65536"}));
    ASSERT_TRUE(with_head);
    EXPECT_EQ(with_head->setting.value.back(), ']');
    EXPECT_LT(with_head->setting.value[with_head->setting.value.size() - 2], '4');
    EXPECT_FALSE(asked(pipeline("[4,4,4,4]")));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
