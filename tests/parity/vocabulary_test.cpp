// A vocabulary that pipeline ranks share out: each layout trains the model of one rank, whichever
// words its ranks hold and whenever they compute with them.
#include <gtest/gtest.h>

#include <map>

#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

struct Case {
    const char* name;
    const char* model;
    NamedLayout layout;
};

void PrintTo(const Case& c, std::ostream* os) {
    *os << c.name << " " << c.layout.name;
}

Trained trained(const Case& c, const Sets& where, const char* precision) {
    Sets sets = where;
    sets.push_back(std::string("training.precision=") + precision);
    return train(scenario(c.model, sets));
}

class SharedVocabulary : public testing::TestWithParam<Case> {};

TEST_P(SharedVocabulary, TrainsTheModelOfOneRank) {
    static std::map<std::string, Trained> runs;
    const Case& c = GetParam();
    if (runs.count(c.name) == 0) runs[c.name] = trained(c, {}, "fp64");
    expect_same_training(trained(c, c.layout.sets, "fp64"), runs.at(c.name), kFp64);
}

TEST_P(SharedVocabulary, TrainsTheModelOfOneRankInFp32) {
    static std::map<std::string, Trained> runs;
    const Case& c = GetParam();
    if (runs.count(c.name) == 0) runs[c.name] = trained(c, {}, "fp32");
    expect_same_training(trained(c, c.layout.sets, "fp32"), runs.at(c.name), kFp32);
}

std::vector<Case> cases() {
    std::vector<Case> all;
    const std::string vocab = "vocabulary_parallel=vocab-1", once = "vocabulary_parallel=vocab-2",
                      inter = "vocabulary_parallel=interlaced", pp2 = "pipeline_parallel=2",
                      pp4 = "pipeline_parallel=4", tp2 = "tensor_parallel=2",
                      sp = "sequence_parallel=true", dp2 = "data_parallel=2",
                      v2 = "virtual_pipeline=2";
    const auto add = [&](const char* name, const std::vector<std::string>& keys) {
        all.push_back({"gpt", kGpt, layout(name, keys)});      // one table for both ends
        all.push_back({"llama", kLlama, layout(name, keys)});  // one for each
    };
    add("pipeline_2", {pp2, vocab});
    add("pipeline_4_data", {pp4, dp2, vocab});
    add("interlaced_2_data", {pp2, dp2, inter});
    add("interlaced_4", {pp4, inter});
    add("tensor", {pp2, tp2, vocab});
    add("tensor_sequence", {pp2, tp2, sp, dp2, vocab});
    add("interlaced_tensor_sequence", {pp4, tp2, sp, inter});
    add("gpipe", {pp4, "schedule=gpipe", vocab});
    add("interleaved", {pp2, v2, "schedule=interleaved", vocab});
    add("zb_h1", {pp4, "schedule=zb-h1", vocab});
    add("zb_v", {pp2, v2, dp2, "schedule=zb-v", vocab});
    add("v_half", {pp2, v2, "schedule=v-half", vocab});
    add("dualpipe_v", {pp2, v2, "schedule=dualpipe-v", vocab});
    add("zero1", {pp2, dp2, "zero_stage=1", vocab});
    add("zero2", {pp2, dp2, "zero_stage=2", vocab});
    add("zero3", {pp2, dp2, "zero_stage=3", vocab});
    add("zero3_kept", {pp2, dp2, "zero_stage=3", "reshard_after_forward=false", vocab});
    add("zero3_interlaced", {pp2, dp2, "zero_stage=3", inter});
    add("recomputed", {pp2, "recompute=full", vocab});
    add("one_barrier", {pp2, once});
    add("one_barrier_4_data", {pp4, dp2, once});
    add("one_barrier_tensor", {pp2, tp2, once});
    add("one_barrier_tensor_sequence", {pp2, tp2, sp, dp2, once});
    add("one_barrier_zb_h1", {pp4, "schedule=zb-h1", once});
    add("one_barrier_v_half", {pp2, v2, "schedule=v-half", once});
    add("one_barrier_interleaved", {pp2, v2, "schedule=interleaved", once});
    add("one_barrier_zero3", {pp2, dp2, "zero_stage=3", once});
    add("one_barrier_wide_logits", {pp2, "training.logits_dtype=fp32", once});
    for (const char* model : {kGpt, kLlama}) {
        NamedLayout offloaded = layout("offloaded_states", {pp2, vocab});
        offloaded.sets.push_back("layout.offload.optimizer=host");
        for (const std::string& known : offload_cluster())
            offloaded.sets.push_back(known);
        all.push_back({model == kGpt ? "gpt" : "llama", model, offloaded});
    }
    add("fused_loss", {pp2, "training.loss_logits=fused", inter});
    all.push_back({"bloom", kBloom, layout("norm_of_embedding", {pp2, vocab})});
    all.push_back(
        {"bloom", kBloom, layout("norm_of_embedding_zb_v", {pp2, v2, "schedule=zb-v", vocab})});
    all.push_back({"llama", kLlama, layout("ring", {"context_parallel=2", pp2, vocab})});
    all.push_back({"mixtral", kMixtral, layout("experts", {pp2, dp2, "expert_parallel=2", vocab})});
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, SharedVocabulary, testing::ValuesIn(cases()), [](const auto& tested) {
    return std::string(tested.param.name) + "_" + tested.param.layout.name;
});

// The sums of all parts are added in the order of parts on every rank: what a schedule or ZeRO
// changes is when, and who holds what.
TEST(SharedVocabularyBitwise, SchedulesAndShardingTrainTheSameBits) {
    const auto run = [](const std::vector<std::string>& keys) {
        std::vector<std::string> all = {"pipeline_parallel=2", "data_parallel=2",
                                        "vocabulary_parallel=vocab-1"};
        all.insert(all.end(), keys.begin(), keys.end());
        return train(scenario(kGpt, layout("", all).sets)).losses;
    };
    const std::vector<double> expected = run({});
    EXPECT_EQ(run({"schedule=gpipe"}), expected);
    EXPECT_EQ(run({"schedule=zb-h1"}), expected);
    EXPECT_EQ(run({"zero_stage=1"}), expected);
}

// A part of the vocabulary that is left out of the joined sums is another model.
TEST(SharedVocabularyMutation, AForgottenPartIsFound) {
    const Sets sets = layout("", {"pipeline_parallel=2", "vocabulary_parallel=vocab-1"}).sets;
    const Trained right = train(scenario(kGpt, sets));
    RunOptions forgets;
    std::int64_t changed = 0;
    forgets.change_plan = [&](plan::Plan& plan) {
        for (plan::Block& block : plan.blocks)
            for (plan::Op& op : block.ops)
                if (op.is<plan::CrossEntropyJoin>()) {
                    op.as<plan::CrossEntropyJoin>().parts = 1;
                    ++changed;
                }
    };
    const Trained wrong = train(scenario(kGpt, sets), forgets);
    EXPECT_GT(changed, 0);
    EXPECT_GT(difference(wrong.gradients, right.gradients).relative, 1e-3);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
