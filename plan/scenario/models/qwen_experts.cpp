#include "plan/scenario/models/qwen_experts.hpp"

#include "plan/scenario/models/layer_types.hpp"

namespace orrery::plan {

void read_qwen_experts(Reading& reading, Section& section, const ExpertKeys& keys,
                       ExpertMlp experts, Model& model) {
    read_routing(reading, section, keys, experts.routing);
    section.boolean("norm_topk_prob", experts.routing.normalizes);
    const std::int64_t width = experts.expert.ffn_hidden;
    experts.expert = model.mlp();
    experts.expert.ffn_hidden = width;
    section.integer("moe_intermediate_size", experts.expert.ffn_hidden, {1, kMostFfn},
                    Presence::optional, "expert_ffn");
    const std::vector<bool> dense = read_dense_layers(reading, section, model);
    if (experts.routing.experts > 0) set_experts(model, experts, dense);
}

void write_qwen_experts(const Model& model, const ExpertKeys& keys, Json& out) {
    write_dense_layers(model, out);
    const ExpertMlp* experts = model.experts();
    if (experts == nullptr) {
        write_routing({0, 1}, keys, out);
        return;
    }
    write_routing(experts->routing, keys, out);
    out["norm_topk_prob"] = experts->routing.normalizes;
    out["moe_intermediate_size"] = experts->expert.ffn_hidden;
}

std::vector<const char*> qwen_expert_keys() {
    std::vector<const char*> keys = llama_like_keys();
    keys.insert(keys.end(), {"use_sliding_window", "num_experts", "moe_intermediate_size",
                             "decoder_sparse_step", "mlp_only_layers", "norm_topk_prob"});
    return keys;
}

}  // namespace orrery::plan
