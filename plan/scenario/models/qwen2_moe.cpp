// Qwen1.5-MoE and Qwen2-MoE (Yang et al. 2024, arXiv 2407.10671): Qwen2 with mixtures of experts
// beside one that every token goes through, weighed by a gate of its own.
#include "plan/scenario/models/layer_types.hpp"
#include "plan/scenario/models/qwen_experts.hpp"

namespace orrery::plan {
namespace {

constexpr ExpertKeys kQwen2Keys = {"num_experts", "num_experts_per_tok", 60, 4};

void read_qwen2_moe(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 16;
    read_llama_like(reading, section, usual, model);
    model.attention().qkv_bias = true;
    section.boolean("qkv_bias", model.attention().qkv_bias);
    read_silu(section, model);
    read_qwen_windows(reading, section, model);
    ExpertMlp experts;
    experts.expert.ffn_hidden = 1408;
    experts.shared_ffn = 5632;
    section.integer("shared_expert_intermediate_size", experts.shared_ffn, {0, kMostFfn},
                    Presence::optional, "shared_expert_ffn");
    experts.shared_gate = experts.shared_ffn > 0;
    read_qwen_experts(reading, section, kQwen2Keys, experts, model);
}

void write_qwen2_moe(const Model& model, Json& out) {
    write_llama_like(model, out);
    out["qkv_bias"] = model.attention().qkv_bias;
    write_qwen_experts(model, kQwen2Keys, out);
    if (const ExpertMlp* experts = model.experts())
        out["shared_expert_intermediate_size"] = experts->shared_ffn;
    write_qwen_windows(model, out);
}

}  // namespace

Family qwen2_moe() {
    std::vector<const char*> keys = qwen_expert_keys();
    keys.push_back("shared_expert_intermediate_size");
    return {"qwen2_moe", std::move(keys), read_qwen2_moe, write_qwen2_moe};
}

}  // namespace orrery::plan
