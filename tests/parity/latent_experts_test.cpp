// Latent attention beside mixtures of experts, as DeepSeek-V3 has them: a dense layer first,
// experts in groups, sigmoid scores, one that every token goes through.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

plan::Scenario deepseek(const Sets& where) {
    Sets sets = deepseek_model();
    sets.emplace_back("training.precision=fp64");
    sets.insert(sets.end(), where.begin(), where.end());
    return scenario(kMixtral, sets);
}

class LatentExperts : public testing::TestWithParam<NamedLayout> {};

TEST_P(LatentExperts, TrainTheModelOfOneRank) {
    static const Trained alone = train(deepseek({}), {});
    const Trained run = train(deepseek(GetParam().sets), {});
    expect_same_training(run, alone, kFp64);
}

// Each bias has gone bias_rate against the sign of what its expert had more than the mean of the
// whole step, which no rank and no micro-batch sees alone.
TEST(RouterBiases, FollowTheLoadsOfTheStep) {
    const double rate = 0.25;
    RunOptions one;
    one.steps = 1;
    for (const Sets& where :
         {layout("", {"data_parallel=4", "expert_parallel=2", "zero_stage=1"}).sets,
          layout("", {"tensor_parallel=2", "sequence_parallel=true", "context_parallel=2"}).sets}) {
        Sets sets = where;
        sets.push_back("training.routing.bias_rate=" + std::to_string(rate));
        const Trained run = train(deepseek(sets), one);
        ASSERT_EQ(run.expert_counts.size(), 3U);  // the first layer is dense
        for (std::size_t i = 0; i < run.expert_counts.size(); ++i) {
            const std::vector<std::int64_t>& counts = run.expert_counts[i];
            const std::vector<double>& biases =
                run.parameters.at("layer." + std::to_string(i + 1) + "/router.bias");
            const std::int64_t mean =
                std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) / 8;
            for (std::size_t expert = 0; expert < counts.size(); ++expert)
                EXPECT_EQ(biases[expert], counts[expert] > mean   ? -rate
                                          : counts[expert] < mean ? rate
                                                                  : 0);
        }
    }
}

std::vector<NamedLayout> layouts() {
    std::vector<NamedLayout> all;
    const auto add = [&](const char* name, const std::vector<std::string>& keys) {
        all.push_back(layout(name, keys));
    };
    const std::string dp2 = "data_parallel=2", dp4 = "data_parallel=4", ep2 = "expert_parallel=2",
                      tp2 = "tensor_parallel=2", sp = "sequence_parallel=true",
                      pp2 = "pipeline_parallel=2", by_module = "recompute=selective";
    add("spread_4", {dp4, "expert_parallel=4"});
    add("spread_2_sequence", {tp2, sp, dp2, ep2});
    add("overlapped_sequence", {tp2, sp, dp2, ep2, "training.tensor_overlap_parts=2"});
    add("overlapped_zb_h1",
        {tp2, sp, pp2, ep2, "schedule=zb-h1", "training.tensor_overlap_parts=4"});
    add("spread_2_split_2_ring", {"context_parallel=2", dp2, ep2, "expert_tensor_parallel=2"});
    add("spread_2_zb_h1", {pp2, dp2, ep2, "schedule=zb-h1"});
    add("spread_2_dualpipe_v", {pp2, dp2, ep2, "schedule=dualpipe-v", "virtual_pipeline=2"});
    add("spread_2_zero1_uneven", {pp2, dp4, ep2, "zero_stage=1", "layers_per_stage=[3,1]"});
    add("spread_2_zero3", {dp4, ep2, "zero_stage=3"});
    add("recomputed_latents", {dp2, ep2, by_module, R"(recompute_modules=["mla_up_proj"])"});
    add("recomputed_latents_sequence",
        {tp2, sp, ep2, by_module, R"(recompute_modules=["mla_up_proj","layernorm","moe_act"])"});
    add("recomputed_experts", {dp2, ep2, by_module, R"(recompute_modules=["moe"])"});
    add("recomputed_experts_sequence",
        {tp2, sp, dp2, ep2, by_module, R"(recompute_modules=["moe","mlp"])"});
    add("recomputed_groups", {dp2, ep2, "recompute=every_k", "recompute_every=2"});
    add("recomputed_full", {dp2, ep2, "recompute=full"});
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, LatentExperts, testing::ValuesIn(layouts()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
