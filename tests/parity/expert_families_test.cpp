// Mixtures of experts that are not Mixtral's: with biases and a clamped activation (gpt-oss), of
// weighed rows, beside layers that attend in chunks (Llama 4), and without gates. Each layout
// trains the model of one rank.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "plan/assemble/build_plan.hpp"
#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

const Sets& model_of(const std::string& family) {
    static const Sets llama4 = {"model.model_type=llama4_text", "model.head_dim=4",
                                "model.num_experts_per_tok=1",  "model.intermediate_size_mlp=96",
                                "model.moe_layers=[1,3]",       "model.no_rope_layers=[1,0,1,0]",
                                "model.attention_chunk_size=8", "model.use_qk_norm=true",
                                "model.floor_scale=4",          "model.attn_scale=0.25"};
    static const Sets mixtral;
    if (family == "ungated") return mixtral;
    return family == "gpt_oss" ? gpt_oss_model() : llama4;
}

struct Case {
    std::string family;
    NamedLayout layout;
};

void PrintTo(const Case& c, std::ostream* os) {
    *os << c.family << " " << c.layout.name;
}

plan::Scenario scenario_of(const std::string& family, const Sets& where) {
    Sets sets = model_of(family);
    sets.insert(sets.end(), {"training.precision=fp64", "training.routing.balance_loss=0.1",
                             "training.routing.z_loss=0.01"});
    sets.insert(sets.end(), where.begin(), where.end());
    plan::Scenario s = scenario(kMixtral, sets);
    if (family == "ungated")
        std::get<plan::ExpertMlp>(s.model.layer().mlp).expert.activation = plan::Activation::gelu;
    return s;
}

class ExpertFamilies : public testing::TestWithParam<Case> {};

TEST_P(ExpertFamilies, TrainTheModelOfOneRank) {
    static std::map<std::string, Trained> runs;
    const Case& c = GetParam();
    if (runs.count(c.family) == 0) runs[c.family] = train(scenario_of(c.family, {}), {});
    const Trained& alone = runs.at(c.family);
    const Trained run = train(scenario_of(c.family, c.layout.sets), {});
    expect_same_training(run, alone, kFp64);
}

std::vector<Case> cases() {
    std::vector<Case> all;
    const auto add = [&](const char* name, const std::vector<std::string>& keys) {
        for (const char* family : {"gpt_oss", "llama4"})
            all.push_back({family, layout(name, keys)});
    };
    const std::string dp2 = "data_parallel=2", dp4 = "data_parallel=4", ep2 = "expert_parallel=2",
                      tp2 = "tensor_parallel=2", sp = "sequence_parallel=true",
                      pp2 = "pipeline_parallel=2", by_module = "recompute=selective";
    add("data_2", {dp2});
    add("spread_4", {dp4, "expert_parallel=4"});
    add("spread_2_unfused", {dp2, ep2, "training.attention_kernel=unfused"});
    add("spread_2_sequence", {tp2, sp, dp2, ep2});
    add("spread_2_exchanged", {"context_parallel=2", "context_algorithm=all_to_all", dp2, ep2});
    add("spread_2_zb_h1", {pp2, dp2, ep2, "schedule=zb-h1"});
    add("spread_2_zero1", {pp2, dp4, ep2, "zero_stage=1"});
    add("spread_2_zero3", {dp4, ep2, "zero_stage=3"});
    add("spread_4_zb_2p_zero3",
        {tp2, sp, dp2, "expert_parallel=4", "schedule=zb-2p", "zero_stage=3"});
    add("recomputed_modules",
        {dp2, ep2, by_module, R"(recompute_modules=["layernorm","moe_act"])"});
    add("recomputed_experts", {tp2, sp, ep2, by_module, R"(recompute_modules=["moe"])"});
    add("recomputed_full", {dp2, ep2, "recompute=full"});
    // Weighed by a kernel of its own.
    const std::string apart = "training.expert_biases=split";
    all.push_back({"ungated", layout("apart", {apart})});
    all.push_back({"ungated", layout("spread_2_apart", {dp2, ep2, apart, "zero_stage=1"})});
    all.push_back({"ungated", layout("recomputed_apart",
                                     {pp2, dp2, ep2, by_module, R"(recompute_modules=["moe_act"])",
                                      "schedule=zb-h1", apart})});
    all.push_back({"gpt_oss", layout("spread_2_ring", {"context_parallel=2", dp2, ep2})});
    all.push_back({"llama4", layout("split_2", {dp2, "expert_tensor_parallel=2"})});
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, ExpertFamilies, testing::ValuesIn(cases()), [](const auto& tested) {
    return tested.param.family + "_" + tested.param.layout.name;
});

// The z-loss tells: without it another model is trained.
TEST(ExpertFamilies, TheLossOfLogitsCounts) {
    RunOptions two;
    two.steps = 2;
    const Trained with = train(scenario_of("gpt_oss", {}), two);
    const Trained without = train(scenario_of("gpt_oss", {"training.routing.z_loss=0"}), two);
    EXPECT_EQ(with.losses[0], without.losses[0]);
    EXPECT_NE(with.losses[1], without.losses[1]);
}

std::size_t pairs_of(const plan::Scenario& scenario) {
    std::size_t pairs = 0;
    for (const plan::Program& program : plan::build_plan(scenario).programs)
        for (const plan::Step& step : program.steps)
            pairs += step.beside_last ? 1 : 0;
    return pairs;
}

// Steps that are issued in turns compute what they do one after another, in the same order of sums.
TEST(OverlappedExchanges, TrainTheSameModelToTheLastBit) {
    const std::string dp2 = "data_parallel=2", dp4 = "data_parallel=4", ep2 = "expert_parallel=2",
                      pp2 = "pipeline_parallel=2", vp2 = "virtual_pipeline=2",
                      bf16 = "training.precision=bf16";
    for (std::vector<std::string> keys : std::vector<std::vector<std::string>>{
             {dp2, ep2, bf16},
             {dp4, "expert_parallel=4", "zero_stage=1"},
             {dp4, ep2, "expert_tensor_parallel=2", "zero_stage=2"},
             {pp2, vp2, dp2, ep2, "schedule=interleaved"},
             {pp2, vp2, ep2, "schedule=interleaved", "tensor_parallel=2", "sequence_parallel=true"},
             {pp2, vp2, dp2, ep2, "schedule=dualpipe-v", bf16},
             {pp2, vp2, dp2, ep2, "schedule=dualpipe-v", "expert_dispatcher=deduplicated"},
             {dp2, ep2, "recompute=selective", R"(recompute_modules=["moe_act","layernorm"])"}}) {
        SCOPED_TRACE(fmt::format("{}", fmt::join(keys, " ")));
        const Trained apart = train(scenario(kMixtral, layout("", keys).sets), {});
        keys.emplace_back("overlap_expert_communication=true");
        const plan::Scenario overlapped = scenario(kMixtral, layout("", keys).sets);
        EXPECT_GT(pairs_of(overlapped), 0U);
        const Trained together = train(overlapped, {});
        EXPECT_EQ(together.losses, apart.losses);
        EXPECT_EQ(together.norms, apart.norms);
        EXPECT_EQ(together.parameters, apart.parameters);
        EXPECT_EQ(together.disagreement, "");
    }
}

// Memory that changes hands is filled with NaN, and ops run late by chance: what either step of a
// pair touches is there for both.
TEST(OverlappedExchanges, ChangeNothingUnderAnyTiming) {
    for (std::vector<std::string> keys : std::vector<std::vector<std::string>>{
             {"data_parallel=2", "zero_stage=1"},
             {"pipeline_parallel=2", "virtual_pipeline=2", "schedule=interleaved",
              "tensor_parallel=2", "sequence_parallel=true"},
             {"pipeline_parallel=2", "virtual_pipeline=2", "schedule=dualpipe-v",
              "data_parallel=2"},
             {"data_parallel=2", "expert_dispatcher=deduplicated"}}) {
        keys.insert(keys.end(), {"expert_parallel=2", "overlap_expert_communication=true"});
        const plan::Scenario overlapped = scenario(kMixtral, layout("", keys).sets);
        RunOptions calm;
        calm.steps = 3;
        const Trained expected = train(overlapped, calm);
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
            RunOptions delayed = calm;
            delayed.cpu.poison = true;
            delayed.cpu.delay_seed = seed;
            const Trained run = train(overlapped, delayed);
            EXPECT_EQ(run.losses, expected.losses) << keys.front() << " seed " << seed;
            EXPECT_EQ(run.parameters, expected.parameters) << keys.front() << " seed " << seed;
        }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
