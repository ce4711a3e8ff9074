// What our parameters are called at Hugging Face (transformers' modeling_gpt2.py,
// modeling_llama.py and those after it).
#include <array>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "runtime/checkpoint/hugging_face.hpp"

namespace orrery::runtime {
namespace {

struct NameOfBlock {
    std::string_view ours;  // without ".weight" or ".bias"
    std::string_view theirs;
    bool conv1d = false;
};

constexpr std::array<NameOfBlock, 6> kGpt2Layer{{{"norm1", "ln_1"},
                                                 {"qkv", "attn.c_attn", true},
                                                 {"projection", "attn.c_proj", true},
                                                 {"norm2", "ln_2"},
                                                 {"fc1", "mlp.c_fc", true},
                                                 {"fc2", "mlp.c_proj", true}}};
constexpr std::array<NameOfBlock, 4> kGpt2Whole{{{"embedding", "transformer.wte"},
                                                 {"positions", "transformer.wpe"},
                                                 {"final_norm", "transformer.ln_f"},
                                                 {"head", "lm_head"}}};
constexpr std::array<NameOfBlock, 3> kLlamaWhole{
    {{"embedding", "model.embed_tokens"}, {"final_norm", "model.norm"}, {"head", "lm_head"}}};
// Of the layers of Llama and of the families after it; what is missing here has no such block.
constexpr std::array<NameOfBlock, 4> kLlamaLayer{{{"projection", "self_attn.o_proj"},
                                                  {"q_norm", "self_attn.q_norm"},
                                                  {"k_norm", "self_attn.k_norm"},
                                                  {"fc2", "mlp.down_proj"}}};
constexpr std::array<NameOfBlock, 2> kNormsBefore{
    {{"norm1", "input_layernorm"}, {"norm2", "post_attention_layernorm"}}};
constexpr std::array<NameOfBlock, 2> kNormsAfter{
    {{"post_norm1", "post_attention_layernorm"}, {"post_norm2", "post_feedforward_layernorm"}}};
constexpr std::array<NameOfBlock, 4> kNormsAround{{{"norm1", "input_layernorm"},
                                                   {"post_norm1", "post_attention_layernorm"},
                                                   {"norm2", "pre_feedforward_layernorm"},
                                                   {"post_norm2", "post_feedforward_layernorm"}}};
constexpr std::array<NameOfBlock, 2> kFused{
    {{"qkv", "self_attn.qkv_proj"}, {"fc1", "mlp.gate_up_proj"}}};

// Of a layer of experts.
struct ExpertNames {
    std::string_view block;
    std::string_view gate, up, down;  // of each expert
    std::string_view shared;          // what every token goes through; empty: there is none
};
constexpr ExpertNames kMixtral{"block_sparse_moe", "w1", "w3", "w2", ""};
constexpr ExpertNames kQwen2Moe{"mlp", "gate_proj", "up_proj", "down_proj", "shared_expert"};
constexpr ExpertNames kQwen3Moe{"mlp", "gate_proj", "up_proj", "down_proj", ""};
constexpr ExpertNames kDeepSeek{"mlp", "gate_proj", "up_proj", "down_proj", "shared_experts"};
// Beside the names of Llama's layers.
constexpr std::array<NameOfBlock, 11> kDeepSeekLayer{{{"q_down", "self_attn.q_a_proj"},
                                                      {"q_norm", "self_attn.q_a_layernorm"},
                                                      {"q_up", "self_attn.q_b_proj"},
                                                      {"q", "self_attn.q_proj"},
                                                      {"kv_down", "self_attn.kv_a_proj_with_mqa"},
                                                      {"kv_norm", "self_attn.kv_a_layernorm"},
                                                      {"kv_up", "self_attn.kv_b_proj"},
                                                      {"enorm", "enorm"},
                                                      {"hnorm", "hnorm"},
                                                      {"eh_proj", "eh_proj"},
                                                      {"mtp_norm", "shared_head.norm"}}};

struct LlamaLike {
    std::string_view family;
    std::string_view architecture;
    std::span<const NameOfBlock> norms;
    std::span<const NameOfBlock> own{};  // instead of, or beside, those of Llama's layers
    const ExpertNames* experts = nullptr;
};
constexpr std::array<LlamaLike, 14> kLikeLlama{
    {{"llama", "LlamaForCausalLM", kNormsBefore},
     {"mistral", "MistralForCausalLM", kNormsBefore},
     {"qwen2", "Qwen2ForCausalLM", kNormsBefore},
     {"qwen3", "Qwen3ForCausalLM", kNormsBefore},
     {"olmo2", "Olmo2ForCausalLM", kNormsAfter},
     {"phi3", "Phi3ForCausalLM", kNormsBefore, kFused},
     {"gemma", "GemmaForCausalLM", kNormsBefore},
     {"gemma2", "Gemma2ForCausalLM", kNormsAround},
     {"gemma3_text", "Gemma3ForCausalLM", kNormsAround},
     {"mixtral", "MixtralForCausalLM", kNormsBefore, {}, &kMixtral},
     {"qwen2_moe", "Qwen2MoeForCausalLM", kNormsBefore, {}, &kQwen2Moe},
     {"qwen3_moe", "Qwen3MoeForCausalLM", kNormsBefore, {}, &kQwen3Moe},
     {"deepseek_v2", "DeepseekV2ForCausalLM", kNormsBefore, kDeepSeekLayer, &kDeepSeek},
     {"deepseek_v3", "DeepseekV3ForCausalLM", kNormsBefore, kDeepSeekLayer, &kDeepSeek}}};

// "layer.3/qkv.weight": 3, "qkv", ".weight".
struct OurName {
    std::string layer;
    std::string block;
    std::string ending;
};

OurName our_name(const std::string& parameter) {
    OurName name;
    std::string own = parameter;
    constexpr std::string_view kLayer = "layer.";
    if (const std::size_t slash = parameter.find('/');
        slash != std::string::npos && parameter.starts_with(kLayer)) {
        name.layer = parameter.substr(kLayer.size(), slash - kLayer.size());
        own = parameter.substr(slash + 1);
    }
    const std::size_t dot = own.rfind('.');
    name.block = own.substr(0, dot);
    name.ending = dot == std::string::npos ? "" : own.substr(dot);
    return name;
}

std::vector<HuggingFacePart> gpt2_parts(const OurName& name, std::int64_t rows) {
    if (name.layer.empty()) {
        for (const NameOfBlock& each : kGpt2Whole)
            if (each.ours == name.block)
                return {{std::string(each.theirs) + name.ending, 0, rows, false}};
        return {};
    }
    for (const NameOfBlock& each : kGpt2Layer)
        if (each.ours == name.block)
            return {{fmt::format("transformer.h.{}.{}{}", name.layer, each.theirs, name.ending), 0,
                     rows, each.conv1d && name.ending == ".weight"}};
    return {};
}

// Rows of experts stand one expert after another, of each its gate before the other factor.
std::vector<HuggingFacePart> expert_parts(const HuggingFaceModel& model, const ExpertNames& names,
                                          const OurName& name, std::int64_t rows) {
    std::vector<HuggingFacePart> parts;
    const auto add = [&](const std::string& theirs, std::int64_t first, std::int64_t count) {
        parts.push_back(
            {fmt::format("model.layers.{}.{}.{}{}", name.layer, names.block, theirs, name.ending),
             first, count, false});
    };
    const auto of_gated = [&](const std::string& before, std::int64_t first, std::int64_t count) {
        add(fmt::format("{}.{}", before, names.gate), first, count / 2);
        add(fmt::format("{}.{}", before, names.up), first + count / 2, count / 2);
    };
    const std::string shared(names.shared);
    const std::int64_t each = model.experts > 0 ? rows / model.experts : 0;
    if (name.block == "router" && name.ending == ".bias")
        parts.push_back({fmt::format("model.layers.{}.{}.gate.e_score_correction_bias", name.layer,
                                     names.block),
                         0, rows, false});
    else if (name.block == "router")
        add("gate", 0, rows);
    for (std::int64_t expert = 0; expert < model.experts; ++expert) {
        const std::string own = fmt::format("experts.{}", expert);
        if (name.block == "experts.fc1") of_gated(own, expert * each, each);
        if (name.block == "experts.fc2")
            add(fmt::format("{}.{}", own, names.down), expert * each, each);
    }
    if (shared.empty()) return parts;
    if (name.block == "shared_fc1") of_gated(shared, 0, rows);
    if (name.block == "shared_fc2") add(fmt::format("{}.{}", shared, names.down), 0, rows);
    if (name.block == "shared_gate") add(shared + "_gate", 0, rows);
    return parts;
}

std::vector<HuggingFacePart> llama_parts(const HuggingFaceModel& model, const LlamaLike& like,
                                         const OurName& name, std::int64_t rows) {
    const auto named = [&](std::string_view theirs, std::int64_t first, std::int64_t count) {
        const std::string layer =
            name.layer.empty() ? "" : fmt::format("model.layers.{}.", name.layer);
        return HuggingFacePart{fmt::format("{}{}{}", layer, theirs, name.ending), first, count,
                               false};
    };
    std::vector<std::span<const NameOfBlock>> tables = {like.own, kLlamaLayer, like.norms};
    if (name.layer.empty()) tables = {kLlamaWhole};
    for (const std::span<const NameOfBlock> table : tables)
        for (const NameOfBlock& each : table)
            if (each.ours == name.block) return {named(each.theirs, 0, rows)};
    const std::int64_t q = model.q_rows, kv = model.kv_rows, half = rows / 2;
    if (name.block == "qkv")
        return {named("self_attn.q_proj", 0, q), named("self_attn.k_proj", q, kv),
                named("self_attn.v_proj", q + kv, kv)};
    if (name.block == "fc1")
        return {named("mlp.gate_proj", 0, half), named("mlp.up_proj", half, half)};
    if (like.experts != nullptr && !name.layer.empty())
        return expert_parts(model, *like.experts, name, rows);
    return {};
}

}  // namespace

std::vector<std::string> hugging_face_families() {
    std::vector<std::string> all = {"gpt2"};
    for (const LlamaLike& like : kLikeLlama)
        all.emplace_back(like.family);
    return all;
}

std::string hugging_face_architecture(const std::string& family) {
    for (const LlamaLike& like : kLikeLlama)
        if (family == like.family) return std::string(like.architecture);
    return "GPT2LMHeadModel";
}

std::int64_t experts_of(const std::vector<NamedShape>& parameters) {
    for (const NamedShape& each : parameters)
        if (our_name(each.parameter).block == "router") return each.shape.at(0);
    return 0;
}

std::vector<HuggingFacePart> hugging_face_parts(const HuggingFaceModel& model,
                                                const std::string& parameter,
                                                const std::vector<std::int64_t>& shape) {
    const OurName name = our_name(parameter);
    const std::int64_t rows = shape.empty() ? 0 : shape[0];
    std::vector<HuggingFacePart> parts;
    if (model.family == "gpt2")
        parts = gpt2_parts(name, rows);
    else
        for (const LlamaLike& like : kLikeLlama)
            if (model.family == like.family) parts = llama_parts(model, like, name, rows);
    std::int64_t named = 0;
    for (const HuggingFacePart& part : parts)
        named += part.rows;
    if (parts.empty() || named != rows)
        throw DataError(
            parameter,
            fmt::format("has no name at Hugging Face in a model of family {}", model.family));
    return parts;
}

std::vector<std::int64_t> HuggingFacePart::shape(const std::vector<std::int64_t>& whole) const {
    if (whole.size() < 2) return {rows};
    if (transposed) return {whole[1], rows};
    return {rows, whole[1]};
}

}  // namespace orrery::runtime
