// Scenarios inferred from recorded steps: of traces whose truth is known, since we wrote them of a
// plan, made them up, or recorded them of a program that is beside them.
#include <filesystem>
#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calib/compare/inferred_scenario.hpp"
#include "plan/assemble/build_plan.hpp"
#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"
#include "trace/formats/chakra.hpp"
#include "trace/formats/kineto.hpp"
#include "trace/formats/recorded_file.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

StepFacts facts_of(const trace::RecordedTrace& trace, const std::string& file) {
    return step_facts(trace, recorded_rank(trace, file));
}

// Of every kind of rank of this scenario's plan, as `simulate --chakra` writes it.
Inference of_plan(const plan::Scenario& scenario, const std::string& name) {
    const plan::Plan plan = plan::build_plan(scenario);
    sim::SimulateOptions how;
    how.plan = &plan;
    const sim::Prediction prediction =
        sim::simulate(scenario, sim::load_profiles(scenario.cluster), how, "");
    const trace::ChakraPrices prices(plan, prediction.trace);
    const std::string folder = testing::TempDir() + "/inferred_" + name;
    std::filesystem::remove_all(folder);
    trace::write_chakra(plan, prices.representatives(), &prices, folder);
    std::vector<StepFacts> ranks;
    for (const plan::Rank rank : prices.representatives()) {
        const std::string file = fmt::format("{}/rank.{}.et", folder, rank);
        for (const trace::RecordedTrace& trace : trace::read_recorded(file))
            ranks.push_back(facts_of(trace, file));
    }
    return infer_scenario(ranks);
}

// The scenario that the keys make, of the alternatives those that are said.
plan::Scenario read(const Inference& inference, const theory::Sets& sets) {
    Json text = scenario_of(inference.keys);
    text["cluster"] = "clusters/cpu-8.json";
    return theory::scenario(sets, text.dump().c_str());
}

constexpr const char* kGpt = R"({
  "model": {"model_type": "gpt2", "n_layer": 4, "n_embd": 96, "n_head": 8, "n_positions": 128,
            "n_inner": 320, "vocab_size": 512, "tie_word_embeddings": false,
            "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
  "cluster": "clusters/cpu-8.json",
  "layout": {"micro_batch_size": 2, "global_batch_size": 32},
  "training": {"sequence_length": 40, "precision": "fp32", "vocabulary_multiple": 1}
})";
constexpr const char* kLlama = R"({
  "model": {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 128,
            "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 352,
            "vocab_size": 640},
  "cluster": "clusters/cpu-8.json",
  "layout": {"micro_batch_size": 1, "global_batch_size": 16},
  "training": {"sequence_length": 48, "precision": "bf16", "vocabulary_multiple": 1}
})";
constexpr const char* kSquared = R"({
  "model": {"model_type": "megatron", "num_layers": 4, "hidden_size": 128,
            "num_attention_heads": 8, "num_query_groups": 2, "kv_channels": 24,
            "ffn_hidden_size": 448, "vocab_size": 640, "position_embedding_type": "rope",
            "normalization": "LayerNorm", "add_bias_linear": false,
            "untie_embeddings_and_output_weights": true, "hidden_dropout": 0,
            "attention_dropout": 0},
  "cluster": "clusters/cpu-8.json",
  "layout": {"micro_batch_size": 1, "global_batch_size": 16},
  "training": {"sequence_length": 48, "precision": "bf16", "vocabulary_multiple": 1}
})";

struct Planted {
    const char* name;
    const char* text;
    theory::Sets sets;
};

class PlantedLayout : public testing::TestWithParam<Planted> {};

TEST_P(PlantedLayout, IsInferredOfItsPlansTrace) {
    const plan::Scenario truth = theory::scenario(GetParam().sets, GetParam().text);
    const Inference inference = of_plan(truth, GetParam().name);
    ASSERT_THAT(inference.missing, ElementsAre());
    const plan::Scenario found = read(inference, {});
    EXPECT_EQ(found.model.layers, truth.model.layers);
    EXPECT_EQ(found.model.hidden, truth.model.hidden);
    EXPECT_EQ(found.model.vocabulary, truth.model.vocabulary);
    EXPECT_EQ(found.model.attention().heads, truth.model.attention().heads);
    EXPECT_EQ(found.model.attention().kv_heads, truth.model.attention().kv_heads);
    EXPECT_EQ(found.model.attention().head_dim, truth.model.attention().head_dim);
    EXPECT_EQ(found.model.attention().qkv_bias, truth.model.attention().qkv_bias);
    EXPECT_EQ(found.model.mlp().ffn_hidden, truth.model.mlp().ffn_hidden);
    EXPECT_EQ(found.model.mlp().activation, truth.model.mlp().activation);
    EXPECT_EQ(found.model.mlp().bias, truth.model.mlp().bias);
    EXPECT_EQ(found.model.norm, truth.model.norm);
    EXPECT_EQ(found.model.learned_positions, truth.model.learned_positions);
    EXPECT_EQ(found.model.max_positions, truth.model.max_positions);
    EXPECT_EQ(found.layout.tensor_parallel, truth.layout.tensor_parallel);
    EXPECT_EQ(found.layout.pipeline_parallel, truth.layout.pipeline_parallel);
    EXPECT_EQ(found.layout.data_parallel, truth.layout.data_parallel);
    EXPECT_EQ(found.layout.virtual_pipeline, truth.layout.virtual_pipeline);
    EXPECT_EQ(found.layout.schedule, truth.layout.schedule);
    EXPECT_EQ(found.layout.sequence_parallel, truth.layout.sequence_parallel);
    if (truth.layout.sequence_parallel) {
        EXPECT_EQ(found.training.framework.gathered_inputs,
                  truth.training.framework.gathered_inputs);
    }
    EXPECT_EQ(found.layout.zero_stage, truth.layout.zero_stage);
    EXPECT_EQ(found.layout.reshard_after_forward, truth.layout.reshard_after_forward);
    EXPECT_EQ(found.layout.recompute, truth.layout.recompute);
    EXPECT_EQ(found.layout.micro_batch_size, truth.layout.micro_batch_size);
    EXPECT_EQ(found.layout.global_batch_size, truth.layout.global_batch_size);
    EXPECT_EQ(found.training.sequence_length, truth.training.sequence_length);
    EXPECT_EQ(found.training.precision, truth.training.precision);
    EXPECT_EQ(found.training.framework.norm_kernel, truth.training.framework.norm_kernel);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, PlantedLayout,
    testing::Values(
        Planted{"data", kGpt, {}}, Planted{"tensor", kGpt, {"layout.tensor_parallel=4"}},
        Planted{
            "tensor_pipeline", kGpt, {"layout.tensor_parallel=2", "layout.pipeline_parallel=2"}},
        Planted{"gpipe", kGpt, {"layout.pipeline_parallel=4", "layout.schedule=gpipe"}},
        Planted{"interleaved",
                kLlama,
                {"layout.pipeline_parallel=2", "layout.virtual_pipeline=2",
                 "layout.schedule=interleaved"}},
        Planted{"sequence", kLlama, {"layout.tensor_parallel=4", "layout.sequence_parallel=true"}},
        Planted{"sequence_kept",
                kLlama,
                {"layout.tensor_parallel=4", "layout.sequence_parallel=true",
                 "training.gathered_inputs=kept"}},
        Planted{"zero1", kLlama, {"layout.zero_stage=1"}},
        Planted{"zero2", kLlama, {"layout.zero_stage=2"}},
        Planted{"zero3", kLlama, {"layout.zero_stage=3", "layout.tensor_parallel=2"}},
        Planted{"kept", kLlama, {"layout.zero_stage=3", "layout.reshard_after_forward=false"}},
        Planted{"again", kLlama, {"layout.recompute=full", "layout.pipeline_parallel=4"}},
        Planted{"added_norms", kGpt, {"training.norm_kernel=fused_add"}},
        Planted{"epilogues", kGpt, {"training.activation_kernel=epilogue"}},
        Planted{"residuals", kGpt, {"training.residual_kernel=epilogue"}},
        Planted{"bias_gradients", kGpt, {"training.bias_gradient_kernel=epilogue"}},
        Planted{"epilogues_again",
                kGpt,
                {"training.activation_kernel=epilogue", "layout.recompute=full"}},
        Planted{"added_norms_again",
                kLlama,
                {"training.norm_kernel=fused_add", "layout.recompute=full"}},
        Planted{"core", kGpt, {"layout.recompute=selective", "training.attention_kernel=unfused"}},
        Planted{"parts", kSquared, {"layout.tensor_parallel=2", "layout.zero_stage=1"}}),
    [](const auto& planted) { return std::string(planted.param.name); });

// A tied matrix is stepped once: where the trace leaves it open the other is an alternative.
TEST(InferredTying, IsSaidOrLeftToThePlan) {
    for (const bool tied : {true, false})
        for (const char* pipeline : {"1", "2"}) {
            const plan::Scenario truth =
                theory::scenario({fmt::format("model.tie_word_embeddings={}", tied),
                                  fmt::format("layout.pipeline_parallel={}", pipeline)},
                                 kGpt);
            const Inference inference = of_plan(truth, fmt::format("tied_{}_{}", tied, pipeline));
            const InferredKey* key = inference.find("model.tie_word_embeddings");
            ASSERT_NE(key, nullptr);
            const bool open = !key->alternatives.empty();
            EXPECT_TRUE(key->value == tied || (open && key->alternatives.front() == tied));
            EXPECT_EQ(open, key->certainty != Certainty::certain);
        }
}

// Of a rank of a GPU job: operators with the sizes of its share, and NCCL's kernels with the
// members of their groups.
class MadeUp {
  public:
    void op(const std::string& name, const std::string& dims, double length = 8) {
        add("cpu_op", name, 1, at_, length,
            fmt::format(R"("Input Dims": {}, "Input type": ["c10::BFloat16"])", dims));
        at_ += 10;
    }
    void within(const std::string& around, const std::function<void()>& inner) {
        const double begin = at_++;
        inner();
        add("cpu_op", around, 1, begin, at_ - begin, "");
        ++at_;
    }
    // Of a collective of this many elements.
    void kernel(const std::string& name, std::int64_t elements, std::int64_t members) {
        ++number_;
        add("cuda_runtime", "cudaLaunchKernel", 1, at_, 1,
            fmt::format(R"("correlation": {})", number_));
        add("kernel", name, 7, at_ + 2, 5,
            fmt::format(R"("correlation": {}, "stream": 7, "Collective name": "x", )"
                        R"("dtype": "BFloat16", "In msg nelems": {}, "Out msg nelems": {}, )"
                        R"("Group size": {})",
                        number_, elements, elements, members));
        at_ += 10;
    }
    void product(std::int64_t m, std::int64_t n, std::int64_t k) {
        op("aten::mm", fmt::format("[[{},{}],[{},{}]]", m, k, k, n));
    }
    StepFacts facts(std::int64_t rank, std::int64_t world) {
        const std::string path = testing::TempDir() + "made_up.json";
        std::ofstream(path) << fmt::format(
            R"({{"deviceProperties": [{{"id": 0, "name": "NVIDIA H100 80GB HBM3"}}],
                 "distributedInfo": {{"rank": {}, "world_size": {}}}, "traceEvents": [{}
                 {{"ph": "M", "name": "process_name", "pid": 1, "args": {{"name": "p"}}}}]}})",
            rank, world, events_);
        return facts_of(trace::read_kineto(path, true), "made_up.json");
    }

  private:
    void add(const std::string& category, const std::string& name, int pid, double start,
             double length, const std::string& arguments) {
        events_ +=
            fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": 7, "ts": {}, )"
                        R"("dur": {}, "args": {{{}}}}},)",
                        category, name, pid, start, length, arguments);
    }
    std::string events_;
    double at_ = 0;
    int number_ = 0;
};

// Llama 3 70B's widths over eight tensor-parallel ranks (Llama team 2024, table 3), two of its
// layers in each of two stages, three micro-batches of 4,096 tokens, of the first stage's rank 3 of
// 32 ranks: two copies of the model.
TEST(InferredOfAGpuTrace, HasItsTensorPipelineAndDataParallelRanks) {
    constexpr std::int64_t kTokens = 4096, kHidden = 8192, kHeads = 64, kKvHeads = 8, kHead = 128,
                           kInner = 28672, kWords = 128256, kTensor = 8, kStageLayers = 2;
    MadeUp step;
    const auto forward = [&] {
        step.op("aten::embedding",
                fmt::format("[[{},{}],[1,{}]]", kWords / kTensor, kHidden, kTokens));
        step.kernel("ncclDevKernel_AllReduce_Sum_bf16", kTokens * kHidden, kTensor);
        for (std::int64_t layer = 0; layer < kStageLayers; ++layer) {
            step.op("aten::_fused_rms_norm", fmt::format("[[1,{},{}]]", kTokens, kHidden));
            step.product(kTokens, (kHeads + 2 * kKvHeads) * kHead / kTensor, kHidden);
            const std::string queries =
                fmt::format("[1,{},{},{}]", kTokens, kHeads / kTensor, kHead);
            const std::string keys =
                fmt::format("[1,{},{},{}]", kTokens, kKvHeads / kTensor, kHead);
            step.op("flash_attn::_flash_attn_forward",
                    fmt::format("[{},{},{}]", queries, keys, keys));
            step.product(kTokens, kHidden, kHeads * kHead / kTensor);
            step.kernel("ncclDevKernel_AllReduce_Sum_bf16", kTokens * kHidden, kTensor);
            step.op("aten::_fused_rms_norm", fmt::format("[[1,{},{}]]", kTokens, kHidden));
            step.product(kTokens, 2 * kInner / kTensor, kHidden);
            step.op("aten::silu", fmt::format("[[1,{},{}]]", kTokens, kInner / kTensor));
            step.product(kTokens, kHidden, kInner / kTensor);
            step.kernel("ncclDevKernel_AllReduce_Sum_bf16", kTokens * kHidden, kTensor);
        }
        step.kernel("ncclDevKernel_SendRecv", kTokens * kHidden, 2);
    };
    const auto backward = [&] {
        step.within("autograd::engine::evaluate_function: MmBackward0",
                    [&] { step.product(kHidden, kHidden / kTensor, kTokens); });
    };
    forward();
    forward();
    backward();
    forward();
    backward();
    backward();
    const std::int64_t parameters = 2 *
                                    (kHidden * (kHeads + 2 * kKvHeads) * kHead +
                                     kHeads * kHead * kHidden + 3 * kInner * kHidden) /
                                    kTensor;
    step.kernel("ncclDevKernel_ReduceScatter_Sum_f32", parameters, 2);
    step.kernel("ncclDevKernel_AllGather", parameters, 2);
    const Inference inference = infer_scenario({step.facts(3, 32)});
    ASSERT_THAT(inference.missing, ElementsAre());
    const auto value = [&](const char* key) {
        const InferredKey* found = inference.find(key);
        return found == nullptr ? Json("none") : found->value;
    };
    EXPECT_EQ(value("model.model_type"), "llama");
    EXPECT_EQ(value("model.hidden_size"), kHidden);
    EXPECT_EQ(value("model.num_attention_heads"), kHeads);
    EXPECT_EQ(value("model.num_key_value_heads"), kKvHeads);
    EXPECT_EQ(value("model.intermediate_size"), kInner);
    EXPECT_EQ(value("model.vocab_size"), kWords) << "a sum behind the look-up: its table is cut";
    EXPECT_EQ(value("model.num_hidden_layers"), 2 * kStageLayers);
    EXPECT_EQ(inference.find("model.num_hidden_layers")->certainty, Certainty::likely)
        << "the other stage is in no file";
    EXPECT_EQ(value("layout.tensor_parallel"), kTensor);
    EXPECT_EQ(value("layout.pipeline_parallel"), 2);
    EXPECT_EQ(value("layout.data_parallel"), 2);
    EXPECT_EQ(value("layout.zero_stage"), 1);
    EXPECT_EQ(value("layout.schedule"), "1f1b") << "two forward before the first backward";
    EXPECT_EQ(value("layout.global_batch_size"), 1 * 3 * 2);
    EXPECT_EQ(value("training.sequence_length"), kTokens);
    EXPECT_EQ(value("training.precision"), "bf16");
    EXPECT_EQ(inference.ranks, 32);
}

TEST(InferredOfTooLittle, SaysWhatToRecord) {
    MadeUp forward;
    forward.product(64, 64, 64);
    EXPECT_THAT(infer_scenario({forward.facts(0, 1)}).missing,
                ElementsAre(HasSubstr("no backward pass")));
    MadeUp routed;
    routed.product(64, 64, 64);
    routed.op("aten::_grouped_mm", "[[64,64],[4,64,64]]");
    routed.within("autograd::engine::evaluate_function: MmBackward0",
                  [&] { routed.product(64, 64, 64); });
    EXPECT_THAT(infer_scenario({routed.facts(0, 1)}).missing,
                ElementsAre(HasSubstr("mixtures of experts are not inferred")));
    MadeUp none;
    none.product(64, 64, 64);
    none.within("autograd::engine::evaluate_function: MmBackward0",
                [&] { none.product(64, 64, 64); });
    EXPECT_THAT(infer_scenario({none.facts(0, 1)}).missing,
                ElementsAre("made_up.json: no call of attention in a forward pass"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
