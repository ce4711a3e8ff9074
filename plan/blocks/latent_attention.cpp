// Queries, keys and values of latent attention, in the form that training computes: narrow rows,
// which every tensor rank makes whole of its share of the tokens, are normed, and multiplied to the
// rank's heads (DeepSeek-AI 2024, arXiv 2405.04434, section 2.1.2; Megatron Core's
// MLASelfAttention).
#include "plan/blocks/layer_parts.hpp"
#include "plan/blocks/norms.hpp"

namespace orrery::plan {

TensorId heads_of_latents(ForwardWriter& w, const Scenario& scenario, const SoftmaxAttention& spec,
                          TensorId normed) {
    const Dims& d = w.dims();
    const Latents& latents = spec.latents;
    const std::int64_t turned = spec.rotary_dim, plain = spec.head_dim - turned;
    TensorId low = normed;
    if (latents.q_rank > 0)
        low = norm(w, scenario.model, "q_norm", w.whole_product("q_down", normed, latents.q_rank));
    const TensorId both = w.whole_product("kv_down", normed, latents.kv_rank + turned);
    const TensorId latent = w.activation("kv_latent", d.sharded_tokens, latents.kv_rank);
    const TensorId keys = w.activation("rotary_keys", d.sharded_tokens, turned);
    Rearrange apart{d.sharded_tokens, latents.kv_rank + turned, turned, 1,
                    Rearrangement::columns_apart};
    w.op(apart, "kv columns apart", {both}, {latent, keys});
    const TensorId kv_low = norm(w, scenario.model, "kv_norm", latent);

    const LayerModule around = w.begin_module(LayerModule::latent_up);
    const TensorId q = w.column_parallel(latents.q_rank > 0 ? "q_up" : "q", low, w.width(low),
                                         {spec.q_width()}, false);
    const TensorId kv = w.column_parallel("kv_up", kv_low, latents.kv_rank,
                                          {spec.heads * (plain + spec.values())}, false);
    const TensorId all_keys = w.all_rows("rotary_keys", keys);
    LatentHeads heads{{d.tokens, d.qkv_width(), d.heads, plain, turned, spec.values()}};
    heads.theta = spec.rope_theta;
    heads.interleaved = latents.interleaved;
    heads.turned_scale = spec.rope_scaling.attention_factor;
    heads.scaling = spec.rope_scaling;
    heads.scaling.attention_factor = 1;  // it is in turned_scale
    const TensorId qkv = w.activation("qkv", d.tokens, d.qkv_width());
    w.op(heads, "latent heads", {q, kv, all_keys}, {qkv});
    w.part_of_gradient();
    w.end_module(around);
    return qkv;
}

}  // namespace orrery::plan
