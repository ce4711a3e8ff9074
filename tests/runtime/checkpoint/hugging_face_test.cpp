// Names, orders and types of Hugging Face: what is written stands where transformers looks for it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "runtime/checkpoint/hugging_face.hpp"
#include "runtime/checkpoint/stored_numbers.hpp"
#include "tests/runtime/checkpoint/faulty_files.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

const HuggingFaceModel kGpt2{"gpt2", 4, 4};
const HuggingFaceModel kLlama{"llama", 4, 2};
const std::vector<NamedShape> kGpt2Parameters = {
    {"embedding.weight", {5, 4}}, {"layer.0/qkv.weight", {12, 4}}, {"layer.0/qkv.bias", {12}}};
const std::vector<NamedShape> kLlamaParameters = {
    {"layer.1/qkv.weight", {8, 3}}, {"layer.1/fc1.weight", {6, 3}}, {"final_norm.weight", {3}}};

// Element i of parameter p: 100·p + i.
void numbered(const std::vector<NamedShape>& parameters, const std::string& parameter,
              std::int64_t first, std::span<double> values) {
    double base = 0;
    for (const NamedShape& each : parameters) {
        if (each.parameter == parameter) break;
        base += 100;
    }
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = base + static_cast<double>(first) + static_cast<double>(i);
}

class HuggingFace : public testing::Test {
  protected:
    ~HuggingFace() override { std::filesystem::remove_all(folder_); }
    void write(const HuggingFaceModel& model, const std::vector<NamedShape>& parameters,
               const std::string& dtype) {
        UnsynchronisedFiles files;
        write_hugging_face(
            files, folder_, "{}", model, parameters, dtype,
            [&](const std::string& parameter, std::int64_t first, std::span<double> values) {
                numbered(parameters, parameter, first, values);
            });
    }
    std::vector<double> stored(const std::string& name, std::vector<std::int64_t> shape) {
        const MappedFile file(folder_ + "/model.safetensors");
        const SafetensorsFile tensors = read_safetensors(file.path(), file.bytes());
        const StoredTensor* tensor = tensors.find(name);
        if (tensor == nullptr || tensor->shape != shape) return {};
        const std::int64_t size = bytes_of_stored(tensor->dtype);
        std::vector<double> values;
        for (std::int64_t at = tensor->begin; at < tensor->end; at += size)
            values.push_back(load_number(file.bytes().data() + at, tensor->dtype));
        return values;
    }
    std::string folder_ = testing::TempDir() + "hugging-face";
};

TEST_F(HuggingFace, Gpt2HasItsProjectionsTransposed) {
    write(kGpt2, kGpt2Parameters, "F32");
    const std::vector<double> weight = stored("transformer.h.0.attn.c_attn.weight", {4, 12});
    ASSERT_EQ(weight.size(), 48U);
    for (std::size_t in = 0; in < 4; ++in)
        for (std::size_t out = 0; out < 12; ++out)
            EXPECT_EQ(weight[in * 12 + out], 100 + static_cast<double>(out * 4 + in));
    EXPECT_EQ(stored("transformer.wte.weight", {5, 4})[7], 7);
    EXPECT_EQ(stored("transformer.h.0.attn.c_attn.bias", {12})[3], 203);
}

TEST_F(HuggingFace, LlamaHasItsJointProjectionsApart) {
    write(kLlama, kLlamaParameters, "F32");
    const std::string layer = "model.layers.1.";
    EXPECT_EQ(stored(layer + "self_attn.q_proj.weight", {4, 3}).front(), 0);
    EXPECT_EQ(stored(layer + "self_attn.k_proj.weight", {2, 3}).front(), 12);  // row 4
    EXPECT_EQ(stored(layer + "self_attn.v_proj.weight", {2, 3}).front(), 18);  // row 6
    EXPECT_EQ(stored(layer + "mlp.gate_proj.weight", {3, 3}).front(), 100);
    EXPECT_EQ(stored(layer + "mlp.up_proj.weight", {3, 3}).front(), 109);
    EXPECT_EQ(stored("model.norm.weight", {3}), (std::vector<double>{200, 201, 202}));
}

// Two experts of width 2 in a model of width 3.
const std::vector<NamedShape> kExpertParameters = {{"layer.0/router.weight", {2, 3}},
                                                   {"layer.0/experts.fc1.weight", {8, 3}},
                                                   {"layer.0/experts.fc2.weight", {6, 2}}};

TEST_F(HuggingFace, ExpertsHaveTensorsOfTheirOwn) {
    ASSERT_EQ(experts_of(kExpertParameters), 2);
    const HuggingFaceModel mixtral{"mixtral", 4, 2, 2}, qwen{"qwen2_moe", 4, 2, 2};
    write(mixtral, kExpertParameters, "F32");
    std::string block = "model.layers.0.block_sparse_moe.";
    EXPECT_EQ(stored(block + "gate.weight", {2, 3}).front(), 0);
    EXPECT_EQ(stored(block + "experts.0.w1.weight", {2, 3}).front(), 100);
    EXPECT_EQ(stored(block + "experts.0.w3.weight", {2, 3}).front(), 106);  // row 2
    EXPECT_EQ(stored(block + "experts.1.w1.weight", {2, 3}).front(), 112);  // row 4
    EXPECT_EQ(stored(block + "experts.1.w3.weight", {2, 3}).front(), 118);
    EXPECT_EQ(stored(block + "experts.1.w2.weight", {3, 2}).front(), 206);
    std::vector<NamedShape> shared = kExpertParameters;
    shared.push_back({"layer.0/shared_fc1.weight", {4, 3}});
    shared.push_back({"layer.0/shared_fc2.weight", {3, 2}});
    shared.push_back({"layer.0/shared_gate.weight", {1, 3}});
    write(qwen, shared, "F32");
    block = "model.layers.0.mlp.";
    EXPECT_EQ(stored(block + "gate.weight", {2, 3}).front(), 0);
    EXPECT_EQ(stored(block + "experts.1.up_proj.weight", {2, 3}).front(), 118);
    EXPECT_EQ(stored(block + "experts.0.down_proj.weight", {3, 2}).front(), 200);
    EXPECT_EQ(stored(block + "shared_expert.up_proj.weight", {2, 3}).front(), 306);
    EXPECT_EQ(stored(block + "shared_expert.down_proj.weight", {3, 2}).front(), 400);
    EXPECT_EQ(stored(block + "shared_expert_gate.weight", {1, 3}).front(), 500);
    EXPECT_THROW(hugging_face_parts(mixtral, "layer.0/shared_fc1.weight", {4, 3}), DataError);
}

TEST_F(HuggingFace, LatentsAndBiasesHaveDeepSeeksNames) {
    std::vector<NamedShape> parameters = kExpertParameters;
    for (const auto& [name, shape] : std::vector<std::pair<const char*, std::vector<std::int64_t>>>{
             {"router.bias", {2}},
             {"q_down.weight", {4, 3}},
             {"q_norm.weight", {4}},
             {"q_up.weight", {6, 4}},
             {"kv_down.weight", {5, 3}},
             {"kv_norm.weight", {3}},
             {"kv_up.weight", {8, 3}},
             {"projection.weight", {3, 4}},
             {"shared_fc1.weight", {4, 3}}})
        parameters.push_back({std::string("layer.0/") + name, shape});
    write({"deepseek_v3", 0, 0, 2}, parameters, "F32");
    const std::string layer = "model.layers.0.", attention = layer + "self_attn.";
    EXPECT_EQ(stored(layer + "mlp.gate.e_score_correction_bias", {2}).front(), 300);
    EXPECT_EQ(stored(attention + "q_a_proj.weight", {4, 3}).front(), 400);
    EXPECT_EQ(stored(attention + "q_a_layernorm.weight", {4}).front(), 500);
    EXPECT_EQ(stored(attention + "q_b_proj.weight", {6, 4}).front(), 600);
    EXPECT_EQ(stored(attention + "kv_a_proj_with_mqa.weight", {5, 3}).front(), 700);
    EXPECT_EQ(stored(attention + "kv_a_layernorm.weight", {3}).front(), 800);
    EXPECT_EQ(stored(attention + "kv_b_proj.weight", {8, 3}).front(), 900);
    EXPECT_EQ(stored(attention + "o_proj.weight", {3, 4}).front(), 1000);
    EXPECT_EQ(stored(layer + "mlp.shared_experts.up_proj.weight", {2, 3}).front(), 1106);
    const auto direct = hugging_face_parts({"deepseek_v2"}, "layer.3/q.weight", {6, 3});
    EXPECT_EQ(direct.front().tensor, "model.layers.3.self_attn.q_proj.weight");
}

TEST_F(HuggingFace, WhatIsWrittenIsReadInAnyPieces) {
    const auto check = [&](const HuggingFaceModel& model, const std::vector<NamedShape>& parameters,
                           const char* dtype) {
        write(model, parameters, dtype);
        const HuggingFaceWeights weights(folder_, model, parameters);
        for (const NamedShape& each : parameters) {
            const std::int64_t elements = elements_of(each.shape);
            for (std::int64_t first = 0; first < elements; first += 5) {
                std::vector<double> read(
                    static_cast<std::size_t>(std::min<std::int64_t>(7, elements - first)));
                std::vector<double> expected(read.size());
                weights.read(each.parameter, first, read);
                numbered(parameters, each.parameter, first, expected);
                EXPECT_EQ(read, expected) << each.parameter << " from " << first;
            }
        }
    };
    for (const char* dtype : {"F32", "F16"}) {  // all numbers are below 2^11
        check(kGpt2, kGpt2Parameters, dtype);
        check(kLlama, kLlamaParameters, dtype);
        check({"qwen3_moe", 4, 2, 2}, kExpertParameters, dtype);
    }
}

TEST_F(HuggingFace, WhatTheModelLacksIsNamed) {
    write(kLlama, {{"final_norm.weight", {3}}}, "BF16");
    const auto complaint = [&](const std::vector<NamedShape>& parameters) {
        try {
            const HuggingFaceWeights weights(folder_, kLlama, parameters);
        } catch (const DataError& refused) {
            return std::string(refused.what()).substr(folder_.size());
        }
        return std::string();
    };
    EXPECT_EQ(complaint({{"head.weight", {5, 3}}}),
              ": has no tensor lm_head.weight, which the scenario's model needs as [5, 3]");
    EXPECT_EQ(complaint({{"final_norm.weight", {4}}}),
              ": tensor model.norm.weight is BF16 [3], the scenario's model needs [4]");
    EXPECT_THROW(hugging_face_parts({"bloom", 1, 1}, "final_norm.weight", {4}), DataError);
}

TEST_F(HuggingFace, IsReadFromSeveralFilesWithAnIndex) {
    write(kLlama, {{"final_norm.weight", {3}}}, "F32");
    std::filesystem::rename(folder_ + "/model.safetensors",
                            folder_ + "/model-00001-of-00002.safetensors");
    write(kLlama, {{"embedding.weight", {2, 2}}}, "F32");
    std::filesystem::rename(folder_ + "/model.safetensors",
                            folder_ + "/model-00002-of-00002.safetensors");
    std::ofstream(folder_ + "/model.safetensors.index.json")
        << R"({"weight_map":{"model.norm.weight":"model-00001-of-00002.safetensors",)"
        << R"("model.embed_tokens.weight":"model-00002-of-00002.safetensors"}})";
    const HuggingFaceWeights weights(folder_, kLlama,
                                     {{"final_norm.weight", {3}}, {"embedding.weight", {2, 2}}});
    std::vector<double> values(3);
    weights.read("final_norm.weight", 0, values);
    EXPECT_EQ(values, (std::vector<double>{0, 1, 2}));
}

// One name after the other.
std::vector<std::string> names_of(const std::string& family, const std::string& parameter,
                                  const std::vector<std::int64_t>& shape) {
    std::vector<std::string> names;
    for (const HuggingFacePart& part : hugging_face_parts({family, 4, 2}, parameter, shape))
        names.push_back(part.tensor);
    return names;
}

TEST(HuggingFaceNames, NormsStandWhereTheFamilyHasThem) {
    using Names = std::vector<std::string>;
    const std::string layer = "model.layers.2.";
    EXPECT_EQ(names_of("qwen3", "layer.2/norm2.weight", {3}),
              Names{layer + "post_attention_layernorm.weight"});
    EXPECT_EQ(names_of("qwen3", "layer.2/q_norm.weight", {2}),
              Names{layer + "self_attn.q_norm.weight"});
    EXPECT_EQ(names_of("gemma2", "layer.2/norm2.weight", {3}),
              Names{layer + "pre_feedforward_layernorm.weight"});
    EXPECT_EQ(names_of("gemma3_text", "layer.2/post_norm1.weight", {3}),
              Names{layer + "post_attention_layernorm.weight"});
    EXPECT_EQ(names_of("olmo2", "layer.2/post_norm2.weight", {3}),
              Names{layer + "post_feedforward_layernorm.weight"});
    EXPECT_THROW(names_of("olmo2", "layer.2/norm1.weight", {3}), DataError);
}

TEST(HuggingFaceNames, Phi3HasOneMatrixWhereOthersHaveSeveral) {
    using Names = std::vector<std::string>;
    EXPECT_EQ(names_of("phi3", "layer.0/qkv.weight", {8, 3}),
              Names{"model.layers.0.self_attn.qkv_proj.weight"});
    EXPECT_EQ(names_of("phi3", "layer.0/fc1.weight", {6, 3}),
              Names{"model.layers.0.mlp.gate_up_proj.weight"});
    EXPECT_EQ(names_of("llama", "layer.0/fc1.weight", {6, 3}).size(), 2U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
