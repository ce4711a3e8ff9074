// Mixtral (Jiang et al. 2024, arXiv 2401.04088): Mistral whose MLPs are mixtures of experts. The
// scores of a token's experts, and of no others, add up to 1.
#include "plan/scenario/models/experts.hpp"
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

constexpr ExpertKeys kMixtralKeys = {"num_local_experts", "num_experts_per_tok", 8, 2};

void read_mixtral(Reading& reading, Section& section, Model& model) {
    LlamaLike usual;
    usual.kv_heads = 8;
    usual.rope_theta = 1e6;
    usual.norm_epsilon = 1e-5;
    read_llama_like(reading, section, usual, model);
    read_silu(section, model);
    section.integer("sliding_window", model.attention().window, {}, Presence::optional,
                    "attention_window");
    ExpertMlp experts;
    experts.expert = model.mlp();
    experts.routing.normalizes = true;
    read_routing(reading, section, kMixtralKeys, experts.routing);
    if (experts.routing.experts > 0) set_experts(model, experts);
}

void write_mixtral(const Model& model, Json& out) {
    write_llama_like(model, out);
    const ExpertMlp* experts = model.layer().experts();
    write_routing(experts != nullptr ? experts->routing : Routing{0, 1}, kMixtralKeys, out);
    out["sliding_window"] =
        model.attention().window > 0 ? Json(model.attention().window) : Json(nullptr);
}

}  // namespace

Family mixtral() {
    std::vector<const char*> keys = llama_like_keys();
    keys.push_back(kMixtralKeys.experts);
    return {"mixtral", std::move(keys), read_mixtral, write_mixtral};
}

}  // namespace orrery::plan
