// DeepSeek-V2 and V3 (DeepSeek-AI 2024, arXiv 2405.04434 and 2412.19437), Kimi K2 and what else is
// built as they are: latent attention, dense layers first, then mixtures of experts beside some
// that every token goes through, chosen within groups. Hugging Face's modeling_deepseek_v2.py and
// modeling_deepseek_v3.py.
#include <fmt/format.h>

#include <algorithm>

#include "plan/scenario/models/experts.hpp"
#include "plan/scenario/models/llama_like.hpp"

namespace orrery::plan {
namespace {

// What the two differ in where a config is silent, and otherwise.
struct Version {
    ExpertKeys experts;
    std::int64_t dense_layers = 0;
    std::int64_t expert_ffn = 0;
    std::int64_t shared_experts = 0;
    std::int64_t q_rank = 0;
    RouterScore score = RouterScore::softmax;
    std::int64_t groups = 1, kept_groups = 1;
    std::int64_t group_best = 1;  // scores that a group is judged by
    bool normalizes = false;
    double factor = 1;
    bool chooses_interleaving = false;
    bool biased = false;  // chosen by scores to which a bias is added
    bool predicts_further = false;
};

constexpr char kNextPredictors[] = "num_nextn_predict_layers";

constexpr Version kV2 = {.experts = {"n_routed_experts", "num_experts_per_tok", 64, 6},
                         .expert_ffn = 1407,
                         .shared_experts = 2,
                         .q_rank = 1536};
constexpr Version kV3 = {.experts = {"n_routed_experts", "num_experts_per_tok", 256, 8},
                         .dense_layers = 3,
                         .expert_ffn = 2048,
                         .shared_experts = 1,
                         .q_rank = 1536,
                         .score = RouterScore::sigmoid,
                         .groups = 8,
                         .kept_groups = 4,
                         .group_best = 2,
                         .normalizes = true,
                         .factor = 2.5,
                         .chooses_interleaving = true,
                         .biased = true,
                         .predicts_further = true};

void read_latents(Reading& reading, Section& section, const Version& version, Model& model) {
    SoftmaxAttention& attention = model.attention();
    Latents& latents = attention.latents;
    latents.q_rank = is_null(reading, "q_lora_rank") ? 0 : version.q_rank;
    latents.kv_rank = 512;
    std::int64_t plain = 128, turned = 64;
    attention.value_dim = 128;
    section.integer("q_lora_rank", latents.q_rank, {1, kMostHidden});
    section.integer("kv_lora_rank", latents.kv_rank, {1, kMostHidden});
    section.integer("qk_nope_head_dim", plain, {1, kMostHidden}, Presence::optional, "head_dim");
    section.integer("qk_rope_head_dim", turned, {2, kMostHidden});
    section.integer("v_head_dim", attention.value_dim, {1, kMostHidden});
    if (version.chooses_interleaving) section.boolean("rope_interleave", latents.interleaved);
    if (section.good("qk_rope_head_dim") && turned % 2 != 0)
        reading
            .report("S011", section.pointer("qk_rope_head_dim"),
                    "rotary positions need an even part of each head")
            .arithmetic = fmt::format("qk_rope_head_dim = {}", turned);
    attention.rotary_dim = turned;
    attention.head_dim = plain + turned;
    if (reading.good({"model.heads", "model.kv_heads"}) && attention.kv_heads != attention.heads)
        refuse_value(reading, section, "num_key_value_heads",
                     "latents that make fewer heads of keys than of queries",
                     "num_key_value_heads like num_attention_heads");
}

// Groups of experts, of which a token's come from the best few.
void read_groups(Reading& reading, Section& section, const Version& version, Routing& routing) {
    std::string how;
    const bool is_v2 = version.score == RouterScore::softmax;
    if (is_v2)
        section.word_of("topk_method", how, {"greedy", "group_limited_greedy"}, "greedy");
    else
        section.word_of("topk_method", how, {"noaux_tc"}, "noaux_tc");
    std::string score;
    section.word_of("scoring_func", score, {is_v2 ? "softmax" : "sigmoid"},
                    is_v2 ? "softmax" : "sigmoid");
    std::int64_t groups = version.groups, kept = version.kept_groups;
    section.integer("n_group", groups, {1, kMostExperts});
    section.integer("topk_group", kept, {1, kMostExperts});
    if (!section.good("n_group") || !section.good("topk_group") || groups == 1 || how == "greedy")
        return;
    const std::int64_t each = routing.experts / groups;
    if (kept > groups || routing.experts % groups != 0 || routing.chosen > kept * each ||
        version.group_best > each) {
        reading
            .report("S011", section.pointer("n_group"),
                    "the groups of experts do not hold a token's experts")
            .arithmetic = fmt::format(
            "n_routed_experts / n_group = {} / {}, topk_group = {}, num_experts_per_tok = {}",
            routing.experts, groups, kept, routing.chosen);
        return;
    }
    routing.groups = groups;
    routing.kept_groups = kept;
    routing.group_best = version.group_best;
}

void read_mixtures(Reading& reading, Section& section, const Version& version, Model& model) {
    ExpertMlp experts;
    Routing& routing = experts.routing;
    routing.score = version.score;
    routing.normalizes = version.normalizes;
    routing.factor = version.factor;
    routing.biased = version.biased;
    read_routing(reading, section, version.experts, routing);
    section.boolean("norm_topk_prob", routing.normalizes);
    section.number("routed_scaling_factor", routing.factor, kPositive);
    experts.expert = model.mlp();
    experts.expert.ffn_hidden = version.expert_ffn;
    section.integer("moe_intermediate_size", experts.expert.ffn_hidden, {1, kMostFfn},
                    Presence::optional, "expert_ffn");
    std::int64_t shared = is_null(reading, "n_shared_experts") ? 0 : version.shared_experts;
    section.integer("n_shared_experts", shared, {0, kMostExperts});
    experts.shared_ffn = shared * experts.expert.ffn_hidden;
    reading.remember("model.shared_expert_ffn", section.pointer("n_shared_experts"),
                     std::to_string(shared));
    if (reading.good({"model.experts", "model.experts_per_token"}) && routing.experts > 0)
        read_groups(reading, section, version, routing);
    std::int64_t dense = version.dense_layers, step = 1;
    section.integer("first_k_dense_replace", dense, {0, kMostLayers});
    section.integer("moe_layer_freq", step, {1, kMostLayers});
    if (step != 1)
        refuse_value(reading, section, "moe_layer_freq", "dense layers between those of experts",
                     "\"moe_layer_freq\": 1");
    if (!reading.good({"model.layers"}) || routing.experts == 0) return;
    std::vector<bool> is_dense(static_cast<std::size_t>(model.layers));
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        is_dense[static_cast<std::size_t>(layer)] = layer < dense;
    set_experts(model, experts, is_dense);
}

void read_deepseek(Reading& reading, Section& section, const Version& version, Model& model) {
    LlamaLike usual;
    usual.head_dim = 64;  // what Hugging Face writes of heads is their turned part
    read_llama_like(reading, section, usual, model);
    refuse_attention_bias(reading, section);
    read_silu(section, model);
    read_latents(reading, section, version, model);
    read_mixtures(reading, section, version, model);
    read_stored_type(reading, section, "fp8");
    if (version.predicts_further) read_mtp_layers(reading, section, model, kNextPredictors);
}

void write_experts(const Version& version, const Model& model, Json& out) {
    out["moe_layer_freq"] = 1;
    std::int64_t dense = 0;
    while (dense < model.layers && model.kinds[model.kind_of(dense)].experts() == nullptr)
        ++dense;
    out["first_k_dense_replace"] = dense;
    const ExpertMlp* experts = model.experts();
    if (experts == nullptr) return write_routing({0, 1}, version.experts, out);
    const Routing& routing = experts->routing;
    write_routing(routing, version.experts, out);
    out["norm_topk_prob"] = routing.normalizes;
    out["routed_scaling_factor"] = plain(routing.factor);
    out["moe_intermediate_size"] = experts->expert.ffn_hidden;
    out["n_shared_experts"] = experts->shared_ffn / experts->expert.ffn_hidden;
    out["n_group"] = std::max<std::int64_t>(1, routing.groups);
    out["topk_group"] = std::max<std::int64_t>(1, routing.kept_groups);
    if (version.score == RouterScore::softmax)
        out["topk_method"] = routing.groups > 0 ? "group_limited_greedy" : "greedy";
}

void write_deepseek(const Version& version, const Model& model, Json& out) {
    write_llama_like(model, out);
    const SoftmaxAttention& attention = model.attention();
    const Latents& latents = attention.latents;
    out["head_dim"] = attention.rotary_dim;
    out["kv_lora_rank"] = latents.kv_rank;
    out["qk_nope_head_dim"] = attention.head_dim - attention.rotary_dim;
    out["qk_rope_head_dim"] = attention.rotary_dim;
    out["v_head_dim"] = attention.values();
    if (version.chooses_interleaving) out["rope_interleave"] = latents.interleaved;
    write_experts(version, model, out);
    if (version.predicts_further && model.mtp_layers > 0) out[kNextPredictors] = model.mtp_layers;
    // null, where queries have no latent: it has the same place whenever it is read again.
    out.erase("q_lora_rank");
    out["q_lora_rank"] = latents.q_rank > 0 ? Json(latents.q_rank) : Json(nullptr);
}

Family deepseek(const char* name, decltype(Family::read) read, decltype(Family::write) write) {
    std::vector<const char*> keys = llama_like_keys();
    keys.insert(keys.end(), {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
                             "v_head_dim", "n_routed_experts", "n_shared_experts",
                             "moe_intermediate_size", "first_k_dense_replace", "moe_layer_freq",
                             "n_group", "topk_group", "routed_scaling_factor", "norm_topk_prob"});
    return {name, std::move(keys), read, write};
}

}  // namespace

Family deepseek_v2() {
    return deepseek(
        "deepseek_v2",
        [](Reading& reading, Section& section, Model& model) {
            read_deepseek(reading, section, kV2, model);
        },
        [](const Model& model, Json& out) { write_deepseek(kV2, model, out); });
}

Family deepseek_v3() {
    return deepseek(
        "deepseek_v3",
        [](Reading& reading, Section& section, Model& model) {
            read_deepseek(reading, section, kV3, model);
        },
        [](const Model& model, Json& out) { write_deepseek(kV3, model, out); });
}

}  // namespace orrery::plan
