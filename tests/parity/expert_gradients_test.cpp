// layout.expert_gradients_by_source: what a run trains is the same to the last bit whatever
// expert_parallel is. Against the layout in which every rank has all experts and sums its own rows'
// gradients alone.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

struct Spread {
    std::string name;
    Sets model;                     // what it makes of a Mixtral
    std::vector<std::string> keys;  // of the layout
    std::vector<int> parallel;      // expert_parallel, of the same ranks
    int split = 1;
};

void PrintTo(const Spread& spread, std::ostream* os) {
    *os << spread.name;
}

Trained train_spread(const Spread& spread, int parallel, bool by_source,
                     const RunOptions& options = {}) {
    std::vector<std::string> keys = spread.keys;
    keys.push_back("expert_parallel=" + std::to_string(parallel));
    keys.push_back("expert_tensor_parallel=" + std::to_string(spread.split));
    if (by_source) keys.emplace_back("expert_gradients_by_source=true");
    Sets sets = spread.model;
    for (const std::string& set : layout("", keys).sets)
        sets.push_back(set);
    return train(scenario(kMixtral, sets), options);
}

class ExpertGradients : public testing::TestWithParam<Spread> {};

TEST_P(ExpertGradients, BySourceAreTheSameBitsWhereverExpertsAre) {
    const Spread& spread = GetParam();
    RunOptions few;
    few.steps = 3;
    // Whose matrices are cut has rows of several ranks on each.
    const Trained apart = train_spread(spread, 1, spread.split > 1, few);
    for (const int parallel : spread.parallel) {
        SCOPED_TRACE(parallel);
        expect_same_bits(train_spread(spread, parallel, true, few), apart);
    }
}

Sets with(Sets sets, Sets more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

std::vector<Spread> spreads() {
    const Sets fp32 = {"training.precision=fp32"},
               bf16 = {"training.precision=bf16", "training.gradient_dtype=fp32"};
    const Sets many = with(bf16, {"model.num_experts_per_tok=5"});
    const std::string tp2 = "tensor_parallel=2", sp = "sequence_parallel=true",
                      dp2 = "data_parallel=2", dp4 = "data_parallel=4", dp8 = "data_parallel=8",
                      pp2 = "pipeline_parallel=2", batch = "global_batch_size=16";
    const auto zero = [](int stage) { return "zero_stage=" + std::to_string(stage); };
    return {
        {"data_4", fp32, {dp4}, {2, 4}},
        {"data_8", bf16, {dp8}, {2, 4, 8}},
        {"fp64", {"training.precision=fp64"}, {dp4}, {4}},
        {"many_chosen", many, {dp4}, {2, 4}},
        {"micro_batch_2", bf16, {dp4, "micro_batch_size=2"}, {2}},
        {"tensor_data", fp32, {tp2, sp, dp2}, {2, 4}},
        {"context_data", bf16, {"context_parallel=2", dp2}, {4}},
        {"split_2", fp32, {dp8}, {2, 4}, 2},
        {"biases", with(fp32, gpt_oss_model()), {dp4}, {2, 4}},
        {"latent", with(bf16, deepseek_model()), {dp4}, {4}},
        {"biased_router", with(fp32, biased_router_model()), {dp4}, {2}},
        {"dropped",
         with(fp32, {"training.routing.capacity_factor=1", "training.routing.balance_loss=0.1"}),
         {dp4},
         {4}},
        {"zero1", fp32, {dp8, zero(1)}, {2, 8}},
        {"zero2", bf16, {dp8, zero(2), batch}, {2, 4}},
        {"zero3", fp32, {dp8, zero(3), batch}, {4}},
        {"zero1_groups", fp32, {dp8, zero(1), "zero_group_size=4", batch}, {2, 4}},
        {"zero2_groups", fp32, {dp8, zero(2), "zero_group_size=4", batch}, {2}},
        {"zero2_biases_zb_h1",
         with(fp32, gpt_oss_model()),
         {dp4, pp2, zero(2), "schedule=zb-h1"},
         {2}},
        {"late", bf16, {dp4, "training.overlap_gradient_reduce=false"}, {2, 4}},
        {"late_zero2_groups",
         fp32,
         {dp8, zero(2), "zero_group_size=4", batch, "training.overlap_gradient_reduce=false"},
         {2}},
        {"small_buckets", fp32, {dp4, zero(1), "training.gradient_bucket_mb=0.02"}, {2}},
        {"pipeline", bf16, {dp4, pp2}, {2, 4}},
        {"interleaved", fp32, {dp2, pp2, "virtual_pipeline=2", "schedule=interleaved"}, {2}},
        {"recomputed", bf16, {dp4, "recompute=full"}, {4}},
        {"optimizer_on_the_host",
         with(bf16, {"layout.offload.optimizer=host",
                     "cluster.host_memory={\"capacity_GB\": 1, \"bandwidth_GBps\": 10, "
                     "\"latency_us\": 1}"}),
         {dp4, zero(1)},
         {2}},
    };
}

INSTANTIATE_TEST_SUITE_P(All, ExpertGradients, testing::ValuesIn(spreads()),
                         [](const auto& tested) { return tested.param.name; });

// Where a pass of one micro-batch hides the exchanges of another, which all experts on a rank have
// none of.
TEST(ExpertGradients, OfExchangesThatAreHiddenAreThoseOfOthers) {
    Spread spread{
        "",
        {"training.precision=fp32"},
        {"data_parallel=4", "pipeline_parallel=2", "virtual_pipeline=2", "schedule=interleaved"},
        {}};
    const Trained apart = train_spread(spread, 1, false);
    spread.keys.emplace_back("overlap_expert_communication=true");
    for (const int parallel : {2, 4})
        expect_same_bits(train_spread(spread, parallel, true), apart);
}

// Rows of several ranks are else summed in one product, which rounds elsewhere.
TEST(ExpertGradients, TogetherAreOtherBits) {
    const Spread four{"", {"training.precision=fp32"}, {"data_parallel=4"}, {}};
    RunOptions one;
    one.steps = 1;
    const Trained alone = train_spread(four, 1, false, one);
    const Trained spread = train_spread(four, 4, false, one);
    EXPECT_EQ(spread.losses, alone.losses);
    EXPECT_NE(spread.gradients, alone.gradients);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
