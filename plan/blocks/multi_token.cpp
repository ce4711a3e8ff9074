// Multi-token prediction (DeepSeek-AI 2024, arXiv 2412.19437, section 2.2; Gloeckle et al. 2024):
// from the model's last hidden state and the embedding of the next token one more layer makes the
// hidden state that the token after it is predicted from. The head takes both states, so that parts
// of a stage remain a chain.
#include "plan/blocks/multi_token.hpp"

#include "plan/blocks/layer_parts.hpp"
#include "plan/blocks/norms.hpp"

namespace orrery::plan {
namespace {

// Rows of two hidden states side by side, as one of twice the width; and back.
Rearrange pair_of(const Dims& d, Rearrangement form) {
    return {d.sharded_tokens, 2 * d.hidden, d.hidden, 1, form};
}

TensorId side_by_side(ForwardWriter& w, const std::string& name, TensorId first, TensorId last) {
    const Dims& d = w.dims();
    const TensorId both = w.activation(name, d.sharded_tokens, 2 * d.hidden);
    w.op(pair_of(d, Rearrangement::columns_together), "states columns together", {first, last},
         {both});
    return both;
}

}  // namespace

std::pair<TensorId, TensorId> states_of(ForwardWriter& w, TensorId both) {
    const Dims& d = w.dims();
    const TensorId first = w.activation("hidden_state", d.sharded_tokens, d.hidden);
    const TensorId last = w.activation("beside", d.sharded_tokens, d.hidden);
    w.op(pair_of(d, Rearrangement::columns_apart), "states columns apart", {both}, {first, last});
    return {first, last};
}

ForwardBlock mtp_embedding_forward(const Scenario& scenario, const Dims& d) {
    ForwardWriter w("mtp_embedding.forward", d);
    const TensorId x = w.activation("x", d.sharded_tokens, d.hidden);
    w.input(x);
    w.output(side_by_side(w, "both", x, embedded(w, scenario, 1)));
    return w.finish();
}

// DeepSeek-AI 2024, arXiv 2412.19437, equations 21 to 23; the order of the two in the projection is
// that of Megatron Core's MultiTokenPredictionLayer.
ForwardBlock mtp_layer_forward(const Scenario& scenario, const Dims& d, const LayerSpec& layer) {
    ForwardWriter w("mtp_layer.forward", d);
    const TensorId both = w.activation("both", d.sharded_tokens, 2 * d.hidden);
    w.input(both);
    const auto [state, next] = states_of(w, both);
    const TensorId normed_next = norm(w, scenario.model, "enorm", next);
    const TensorId normed_state = norm(w, scenario.model, "hnorm", state);
    const TensorId merged = side_by_side(w, "merged", normed_next, normed_state);
    const TensorId y = layer_of(w, scenario, layer, w.whole_product("eh_proj", merged, d.hidden));
    w.output(side_by_side(w, "handed_on", state, norm(w, scenario.model, "mtp_norm", y)));
    return w.finish();
}

}  // namespace orrery::plan
