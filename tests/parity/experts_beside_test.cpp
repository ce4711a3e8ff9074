// Experts beside what others have: states, gradients, parameters and activations in other tiers, as
// in offload_test.cpp, of mixtures whose experts are spread over data ranks where there are
// several; steps that are validated later; states that a part of the ranks share out.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

// Tensor ranks share out the tokens that they send.
Trained train_experts(Sets sets, const RunOptions& options) {
    const auto has = [&](const char* set) {
        return std::find(sets.begin(), sets.end(), set) != sets.end();
    };
    if (has("layout.data_parallel=2")) sets.emplace_back("layout.expert_parallel=2");
    if (has("layout.tensor_parallel=2") && !has("layout.sequence_parallel=true"))
        sets.emplace_back("layout.sequence_parallel=true");
    return train(scenario(kMixtral, sets), options);
}

class OffloadedExperts : public testing::TestWithParam<NamedLayout> {};

TEST_P(OffloadedExperts, TrainWhatTheyDoOnTheDevice) {
    RunOptions calm;
    calm.steps = 3;
    RunOptions delayed = calm;
    delayed.cpu.poison = true;
    delayed.cpu.delay_seed = 1;
    const Trained expected = train_experts(on_the_device(GetParam()), calm);
    const Trained found = train_experts(GetParam().sets, delayed);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(found.norms, expected.norms);
    EXPECT_EQ(found.gradients, expected.gradients);
    EXPECT_EQ(found.parameters, expected.parameters);
    EXPECT_EQ(found.disagreement, "");
}

INSTANTIATE_TEST_SUITE_P(All, OffloadedExperts, testing::ValuesIn(offload_layouts()),
                         [](const auto& tested) { return tested.param.name; });

// Steps that are clipped, and with fp16's loss scale some that are taken back: routers' biases step
// with them.
TEST(PostValidatedExperts, TrainWhatWaitingDoes) {
    for (const NamedLayout& where : {layout("", {"pipeline_parallel=2", "schedule=zb-h1"}),
                                     layout("", {"pipeline_parallel=2", "data_parallel=2",
                                                 "schedule=zb-h1", "expert_parallel=2"}),
                                     layout("", {"pipeline_parallel=2", "data_parallel=4",
                                                 "expert_parallel=2", "zero_stage=1"})})
        for (const Sets& precision :
             std::vector<Sets>{{"training.precision=fp32", "training.optimizer.clip_norm=0.01"},
                               {"training.precision=fp16",
                                R"(training.loss_scale={"initial": 2097152, "growth_interval": 4,
                                "hysteresis": 1})"}}) {
            const auto trained = [&](bool later) {
                Sets sets = where.sets;
                sets.insert(sets.end(), precision.begin(), precision.end());
                if (later) sets.emplace_back("layout.optimizer_post_validation=true");
                plan::Scenario made = scenario(kMixtral, sets);
                for (plan::LayerSpec& kind : made.model.kinds) {
                    auto& experts = std::get<plan::ExpertMlp>(kind.mlp);
                    experts.routing.score = plan::RouterScore::sigmoid;
                    experts.routing.biased = true;
                }
                RunOptions few;
                few.steps = 6;
                return train(made, few);
            };
            const Trained waiting = trained(false), later = trained(true);
            EXPECT_EQ(later.losses, waiting.losses);
            EXPECT_EQ(later.skipped, waiting.skipped);
            EXPECT_EQ(later.parameters, waiting.parameters);
        }
}

// Each part of the data ranks has all experts: on every rank, once, twice, cut, beside tensor and
// pipeline ranks.
const std::vector<NamedLayout>& parts_of_ranks() {
    static const std::vector<NamedLayout> all = {
        layout("all_on_each", {"data_parallel=4", "zero_group_size=2"}),
        layout("once", {"data_parallel=4", "zero_group_size=2", "expert_parallel=2"}),
        layout("twice", {"data_parallel=8", "zero_group_size=4", "expert_parallel=2"}),
        layout("cut", {"data_parallel=4", "zero_group_size=2", "expert_tensor_parallel=2"}),
        layout("tensor", {"data_parallel=4", "zero_group_size=2", "expert_parallel=2",
                          "tensor_parallel=2", "sequence_parallel=true"}),
        layout("spread_over_tensor", {"data_parallel=4", "zero_group_size=2", "expert_parallel=4",
                                      "tensor_parallel=2", "sequence_parallel=true"}),
        layout("pipeline", {"data_parallel=4", "zero_group_size=2", "expert_parallel=2",
                            "pipeline_parallel=2"}),
    };
    return all;
}

class ExpertsOfHybridZero : public testing::TestWithParam<NamedLayout> {};

TEST_P(ExpertsOfHybridZero, TrainTheModelOfOneRank) {
    static const Trained alone = train(scenario(kMixtral, {"training.precision=fp64"}), {});
    for (const int stage : {1, 2, 3}) {
        Sets sets = GetParam().sets;
        sets.emplace_back("layout.zero_stage=" + std::to_string(stage));
        sets.emplace_back("training.precision=fp64");
        expect_same_training(train(scenario(kMixtral, sets), {}), alone, kFp64);
    }
}

INSTANTIATE_TEST_SUITE_P(All, ExpertsOfHybridZero, testing::ValuesIn(parts_of_ranks()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
