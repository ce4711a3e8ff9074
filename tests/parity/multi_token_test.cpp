// Multi-token prediction: each layout trains the model of one rank, with a layer of experts that
// predicts a second token, and with a dense one.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

const Sets& model_of(const std::string& family) {
    static const Sets deepseek = {"model.model_type=deepseek_v3",
                                  "model.num_nextn_predict_layers=1",
                                  "model.num_local_experts=null",
                                  "model.n_routed_experts=8",
                                  "model.num_key_value_heads=16",
                                  "model.intermediate_size=96",
                                  "model.moe_intermediate_size=32",
                                  "model.first_k_dense_replace=1",
                                  "model.q_lora_rank=24",
                                  "model.kv_lora_rank=12",
                                  "model.qk_nope_head_dim=3",
                                  "model.qk_rope_head_dim=4",
                                  "model.v_head_dim=5",
                                  "model.n_group=4",
                                  "model.topk_group=2"};
    static const Sets megatron = {
        R"(model={"model_type": "megatron", "num_layers": 4, "hidden_size": 64,
                  "num_attention_heads": 16, "ffn_hidden_size": 96, "swiglu": true,
                  "position_embedding_type": "rope", "normalization": "LayerNorm",
                  "hidden_dropout": 0, "attention_dropout": 0, "mtp_num_layers": 1,
                  "untie_embeddings_and_output_weights": true, "vocab_size": 125})"};
    return family == "deepseek" ? deepseek : megatron;
}

plan::Scenario scenario_of(const std::string& family, const Sets& where) {
    Sets sets = model_of(family);
    sets.insert(sets.end(), {"training.precision=fp64", "training.mtp_loss_scaling_factor=0.3"});
    sets.insert(sets.end(), where.begin(), where.end());
    return scenario(kMixtral, sets);
}

struct Case {
    std::string family;
    NamedLayout layout;
};

void PrintTo(const Case& c, std::ostream* os) {
    *os << c.family << " " << c.layout.name;
}

class MultiToken : public testing::TestWithParam<Case> {};

TEST_P(MultiToken, TrainTheModelOfOneRank) {
    static std::map<std::string, Trained> runs;
    const Case& c = GetParam();
    if (runs.count(c.family) == 0) runs[c.family] = train(scenario_of(c.family, {}), {});
    const Trained& alone = runs.at(c.family);
    ASSERT_EQ(alone.further_losses.size(), alone.losses.size());
    expect_same_training(train(scenario_of(c.family, c.layout.sets), {}), alone, kFp64);
}

std::vector<Case> cases() {
    std::vector<Case> all;
    const std::string dp2 = "data_parallel=2", dp4 = "data_parallel=4", tp2 = "tensor_parallel=2",
                      sp = "sequence_parallel=true", pp2 = "pipeline_parallel=2",
                      pp4 = "pipeline_parallel=4", vp2 = "virtual_pipeline=2",
                      by_module = "recompute=selective", ep2 = "expert_parallel=2";
    const auto add = [&](const char* name, std::vector<std::string> keys) {
        all.push_back({"megatron", layout(name, keys)});
        if (std::count(keys.begin(), keys.end(), tp2) > 0 &&
            std::count(keys.begin(), keys.end(), sp) == 0)
            return;  // refused beside experts
        if (std::count(keys.begin(), keys.end(), dp2) + std::count(keys.begin(), keys.end(), dp4) >
            0)
            keys.push_back(ep2);
        all.push_back({"deepseek", layout(name, keys)});
    };
    add("data_4", {dp4});
    add("tensor_2", {tp2});
    add("tensor_2_sequence", {tp2, sp, dp2});
    add("pipeline_2", {pp2});
    add("pipeline_2_gpipe_sequence", {pp2, tp2, sp, "schedule=gpipe"});
    add("pipeline_4_last_without_layers", {pp4, dp2, "layers_per_stage=[2,1,1,0]"});
    add("interleaved", {pp2, vp2, dp2, "schedule=interleaved"});
    add("zb_h1", {pp2, dp2, "schedule=zb-h1"});
    add("zb_v", {pp2, vp2, "schedule=zb-v"});  // one rank holds both ends
    add("dualpipe_v", {pp2, vp2, dp2, "schedule=dualpipe-v"});
    add("ring", {"context_parallel=2", dp2, pp2});
    add("exchanged", {"context_parallel=2", "context_algorithm=all_to_all"});
    add("zero1", {dp4, "zero_stage=1", "micro_batch_size=2"});
    add("zero2", {dp4, "zero_stage=2"});
    add("zero3", {dp4, "zero_stage=3"});
    add("zero1_pipeline", {dp2, pp2, "zero_stage=1"});
    add("zero3_pipeline_sequence", {dp2, pp2, tp2, sp, "zero_stage=3", "schedule=gpipe"});
    add("recomputed_full", {dp2, "recompute=full"});
    add("recomputed_groups", {pp2, "recompute=every_k", "recompute_every=2"});
    add("recomputed_chosen", {dp2, "recompute=selective_layer", "recompute_every=2"});
    add("recomputed_modules", {dp2, by_module, R"(recompute_modules=["layernorm","mlp"])"});
    add("unfused_attention", {dp2, "training.attention_kernel=unfused"});
    add("deferred_head", {pp2, "training.defer_embedding_gradient=true"});
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, MultiToken, testing::ValuesIn(cases()), [](const auto& tested) {
    return tested.param.family + "_" + tested.param.layout.name;
});

// One step with a weight of nothing but the further loss: gradients are what it adds.
TEST(MultiTokenLoss, CountsByItsFactor) {
    RunOptions one;
    one.steps = 1;
    const auto gradients = [&](const char* factor) {
        return train(scenario_of("megatron",
                                 {std::string("training.mtp_loss_scaling_factor=") + factor}),
                     one)
            .gradients;
    };
    const Whole single = gradients("0.5"), doubled = gradients("1"), tripled = gradients("1.5");
    // Linear in the factor: equal steps of it change every gradient by the same.
    for (const auto& [name, of_doubled] : doubled)
        for (std::size_t i = 0; i < of_doubled.size(); ++i)
            EXPECT_NEAR(of_doubled[i] - single.at(name)[i], tripled.at(name)[i] - of_doubled[i],
                        1e-14)
                << name;
    // And what only the further loss reaches has nothing else.
    for (const char* name : {"layer.4/eh_proj.weight", "layer.4/enorm.weight"})
        for (std::size_t i = 0; i < doubled.at(name).size(); ++i)
            EXPECT_NEAR(doubled.at(name)[i], 2 * single.at(name)[i],
                        1e-14 + 1e-12 * std::abs(doubled.at(name)[i]))
                << name;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
