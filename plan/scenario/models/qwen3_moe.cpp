// Qwen3's mixtures of experts (Yang et al. 2025, arXiv 2505.09388): Qwen3 with 128 experts, of
// which a token goes through 8, and no shared one.
#include "plan/scenario/models/layer_types.hpp"
#include "plan/scenario/models/qwen_experts.hpp"

namespace orrery::plan {
namespace {

constexpr ExpertKeys kQwen3Keys = {"num_experts", "num_experts_per_tok", 128, 8};

void read_qwen3_moe(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 4;
    read_llama_like(reading, section, usual, model);
    section.boolean("attention_bias", model.attention().qkv_bias);
    model.attention().projection_bias = model.attention().qkv_bias;
    model.attention().qk_norm = QkNorm::heads;
    read_silu(section, model);
    read_qwen_windows(reading, section, model);
    ExpertMlp experts;
    experts.expert.ffn_hidden = 768;
    read_qwen_experts(reading, section, kQwen3Keys, experts, model);
}

void write_qwen3_moe(const Model& model, Json& out) {
    write_llama_like(model, out);
    out["attention_bias"] = model.attention().qkv_bias;
    write_qwen_experts(model, kQwen3Keys, out);
    write_qwen_windows(model, out);
}

}  // namespace

Family qwen3_moe() {
    return {"qwen3_moe", qwen_expert_keys(), read_qwen3_moe, write_qwen3_moe};
}

}  // namespace orrery::plan
