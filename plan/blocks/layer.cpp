// Forward of one transformer layer, in the order of Megatron-LM's ParallelTransformerLayer:
// norm, qkv, attention, projection, residual; norm, fc1, activation, fc2, residual. In a parallel
// block both branches come first, then one residual.
#include "plan/blocks/context_attention.hpp"
#include "plan/blocks/layer_parts.hpp"
#include "plan/blocks/norms.hpp"

namespace orrery::plan {
namespace {

// residual + dropout(branch + biases); one kernel, as fused in every current stack. `biased` are
// the linears whose biases were left to it.
TensorId residual(ForwardWriter& w, const Scenario& scenario, const std::string& name,
                  TensorId branch, TensorId x, const std::vector<std::string>& biased,
                  const std::string& result, std::int64_t place) {
    const Dims& d = w.dims();
    std::vector<TensorId> reads = {branch, x};
    for (const std::string& linear : biased)
        reads.push_back(w.vector(linear + ".bias", d.hidden, Start::zero));
    const TensorId out = w.activation(result, d.sharded_tokens, d.hidden);
    std::vector<TensorId> writes = {out};
    ResidualAdd sum{d.sharded_tokens, d.hidden};
    if (scenario.model.hidden_dropout > 0) {
        sum.drop = {scenario.model.hidden_dropout, place};
        add_dropout(w, scenario.training.framework.dropout_masks, name + "_mask",
                    {d.sharded_tokens, d.hidden}, reads, writes);
    }
    w.op(sum, name, std::move(reads), std::move(writes));
    return out;
}

// Where heads are exchanged for tokens, on their way back to these.
TensorId attention_result(ForwardWriter& w) {
    const Dims& d = w.dims();
    return w.activation(d.exchanges_heads ? "context_whole" : "context",
                        d.batch * d.attended_sequence(), d.attended_heads() * d.value_dim);
}

// Of the heads that one kernel sees.
AttentionForm attention_form(const SoftmaxAttention& attention, const Dims& d) {
    AttentionForm form;
    form.heads = d.attended_heads();
    form.kv_heads = d.attended_kv_heads();
    form.head_dim = d.head_dim;
    form.value_dim = attention.value_dim;
    form.total_heads = attention.heads;
    form.scale = attention.scale();
    form.alibi = attention.alibi_factor();
    form.soft_cap = attention.soft_cap;
    form.sinks = attention.sinks;
    if (attention.dropout > 0) form.drop = {attention.dropout, kAttentionDrop};
    return form;
}

// Causal attention that keeps the log-sum-exp of each row instead of s×s scores (Dao 2022).
TensorId flash_attention(ForwardWriter& w, const AttentionForm& form, TensorId qkv,
                         TensorId sinks) {
    const Dims& d = w.dims();
    const std::int64_t samples = d.batch * d.chunks(), s = d.attended_sequence() / d.chunks();
    const TensorId out = attention_result(w);
    const TensorId lse = w.tensor("lse", Role::scratch, d.wide_dtype, {samples, form.heads, s});
    std::vector<TensorId> reads = {qkv};
    if (form.sinks) reads.push_back(sinks);
    w.op(Attention{{{form, samples, s, s}, d.window}}, "attention", std::move(reads), {out, lse});
    return out;
}

// QKᵀ, masked softmax, dropout, PV as kernels of their own: the stack of 2019–2022.
TensorId unfused_attention(ForwardWriter& w, const Scenario& scenario, const AttentionForm& form,
                           TensorId qkv, TensorId sinks) {
    const Dims& d = w.dims();
    const std::int64_t s = d.attended_sequence() / d.chunks();
    const std::int64_t maps = d.batch * d.chunks() * form.heads;
    auto scores_like = [&](const std::string& name, DType dtype) {
        return w.tensor(name, Role::scratch, dtype, {maps, s, s});
    };
    const LayerModule around = w.begin_module(LayerModule::attention_core);
    const TensorId scores = scores_like("scores", d.dtype);
    // Packed rows have heads of two widths where form.value_dim says so.
    const bool unequal = form.value_dim > 0;
    w.op(BatchedGemm{s, s, d.head_dim, maps, form.heads, form.kv_heads, AttentionProduct::scores,
                     form.scale, unequal ? d.value_dim : 0},
         "QK", {qkv}, {scores});
    TensorId probabilities = scores_like("probabilities", d.dtype);
    std::vector<TensorId> scored = {scores};
    if (form.sinks) scored.push_back(sinks);
    w.op(Softmax{maps, s, s, form.heads, form.total_heads, d.window, form.alibi, form.soft_cap,
                 form.sinks},
         "softmax", std::move(scored), {probabilities});
    if (form.drop.rate > 0) {
        const TensorId dropped = scores_like("dropped", d.dtype);
        std::vector<TensorId> reads = {probabilities};
        std::vector<TensorId> writes = {dropped};
        add_dropout(w, scenario.training.framework.dropout_masks, "attention_mask", {maps, s, s},
                    reads, writes);
        w.op(Dropout{maps * s * s, form.drop, 0, form.heads, form.total_heads, s},
             "attention dropout", std::move(reads), std::move(writes));
        probabilities = dropped;
    }
    const TensorId out = attention_result(w);
    w.op(BatchedGemm{s, d.value_dim, s, maps, form.heads, form.kv_heads, AttentionProduct::context,
                     form.scale, unequal ? d.head_dim : 0},
         "PV", {probabilities, qkv}, {out});
    w.end_module(around);
    return out;
}

TensorId attention(ForwardWriter& w, const Scenario& scenario, const SoftmaxAttention& spec,
                   TensorId qkv) {
    const Dims& d = w.dims();
    const AttentionForm form = attention_form(spec, d);
    const TensorId sinks =
        spec.sinks
            ? w.parameter("sinks.weight", {{spec.heads}, Cut::rows, {spec.heads}, Start::normal})
            : TensorId{-1};
    auto local = [&](TensorId rows) {
        return scenario.training.framework.attention_kernel == AttentionKernel::flash
                   ? flash_attention(w, form, rows, sinks)
                   : unfused_attention(w, scenario, form, rows, sinks);
    };
    if (d.context == 1) return local(qkv);
    switch (scenario.layout.context_algorithm) {
        case ContextAlgorithm::ring:
            return ring_attention(w, form, qkv, sinks);
        case ContextAlgorithm::all_gather:
            return gathered_attention(w, form, qkv, sinks);
        case ContextAlgorithm::all_to_all:
            break;
    }
    const TensorId whole =
        heads_for_tokens(w, "qkv", qkv, {d.qkv_width(), d.k_width(), d.v_width()});
    return tokens_for_heads(w, "context", local(whole), d.context_width());
}

// Queries and keys of packed rows, normed. A norm over all heads needs the sums of those of the
// other tensor ranks.
TensorId qk_norm(ForwardWriter& w, const Model& model, const SoftmaxAttention& spec, TensorId qkv) {
    const Dims& d = w.dims();
    const std::int64_t width = (d.heads + d.kv_heads) * d.head_dim;
    const bool over_width = spec.qk_norm == QkNorm::width;
    const Start start = start_of_norm(model);
    const auto weight = [&](const std::string& name, std::int64_t heads) {
        if (over_width)
            return w.parameter(
                name, {{heads * spec.head_dim}, Cut::rows, {heads * spec.head_dim}, start});
        ParameterSpec of_each{{spec.head_dim}, Cut::whole, {}, start};
        of_each.partial_gradient = true;
        return w.parameter(name, std::move(of_each));
    };
    const bool weighted = spec.qk_norm != QkNorm::unweighted;
    std::vector<TensorId> reads = {qkv};
    if (weighted)
        reads.insert(reads.end(),
                     {weight("q_norm.weight", spec.heads), weight("k_norm.weight", spec.kv_heads)});
    if (over_width) {
        const TensorId sums = w.tensor("qk_sums", Role::scratch, d.wide_dtype, {d.tokens, 2});
        w.op(NormalizeQkSums{d.tokens, width, d.heads, d.kv_heads, d.head_dim}, "qk_norm sums",
             {qkv}, {sums})
            .dtype = d.wide_dtype;
        if (d.tensor > 1)
            w.op(AllReduce{2 * d.tokens}, "qk_norm sums", {sums}, {sums}).dtype = d.wide_dtype;
        reads.push_back(sums);
    }
    const TensorId normed = w.activation("qkv_normed", d.tokens, d.qkv_width());
    w.op(NormalizeQk{{d.tokens, width, d.heads, d.kv_heads, d.head_dim, over_width ? d.tensor : 0,
                      model.norm_epsilon, weighted ? model.norm_weight_offset : 0, weighted}},
         "qk_norm", std::move(reads), {normed});
    return normed;
}

// Attention of a normed input, up to what its projection reads.
TensorId attention_branch(ForwardWriter& w, const Scenario& scenario, const LayerSpec& layer,
                          TensorId normed) {
    const Dims& d = w.dims();
    const SoftmaxAttention& spec = layer.attention();
    if (spec.latents.on())
        return attention(w, scenario, spec, heads_of_latents(w, scenario, spec, normed));
    const std::int64_t q = spec.heads * spec.head_dim, kv = spec.kv_heads * spec.head_dim;
    TensorId qkv = w.column_parallel("qkv", normed, d.hidden, {q, kv, kv}, spec.qkv_bias);
    if (spec.qk_norm != QkNorm::none) qkv = qk_norm(w, scenario.model, spec, qkv);
    if (spec.rotary_dim > 0) {
        RopeScaling scaling = spec.rope_scaling;
        scaling.attention_factor = 1;  // it is in the scale of the scores
        w.op(Rope{{d.tokens, (d.heads + d.kv_heads) * spec.rotary_dim, d.heads, d.kv_heads,
                   d.head_dim, spec.rotary_dim, spec.rope_theta, scaling}},
             "rope", {qkv}, {qkv});
    }
    if (spec.temper_floor > 0)
        w.op(TemperQueries{d.tokens, d.heads * d.head_dim, d.heads, d.kv_heads, d.head_dim,
                           spec.temper_floor, spec.temper_scale},
             "temperature", {qkv}, {qkv});
    // ALiBi is an arithmetic of row, column and head within either kernel (Press 2022).
    return attention(w, scenario, spec, qkv);
}

}  // namespace

const char* name_of(Activation activation) {
    switch (activation) {
        case Activation::gelu:
            return "gelu";
        case Activation::relu:
            return "relu";
        case Activation::squared_relu:
            return "squared relu";
        case Activation::swiglu:
            return "swiglu";
        case Activation::geglu:
            return "geglu";
        case Activation::clamped_swiglu:
            return "clamped swiglu";
    }
    return "";
}

ActivationFunction function_of(const DenseMlp& mlp) {
    const bool erf = mlp.gelu == Gelu::erf;
    switch (mlp.activation) {
        case Activation::gelu:
            return erf ? ActivationFunction::gelu_erf : ActivationFunction::gelu_tanh;
        case Activation::relu:
            return ActivationFunction::relu;
        case Activation::squared_relu:
            return ActivationFunction::squared_relu;
        case Activation::swiglu:
            return ActivationFunction::swiglu;
        case Activation::clamped_swiglu:
            return ActivationFunction::clamped_swiglu;
        case Activation::geglu:
            break;
    }
    return erf ? ActivationFunction::geglu_erf : ActivationFunction::geglu_tanh;
}

// Where backward makes every second product again, gate and up lie apart: one is kept, the other
// made again.
TensorId mlp_branch(ForwardWriter& w, const Scenario& scenario, const DenseMlp& mlp,
                    const std::string& prefix, TensorId normed) {
    const Dims& d = w.dims();
    const std::int64_t width = mlp.ffn_hidden / d.tensor;
    const std::vector<std::int64_t> sections(mlp.gated() ? 2 : 1, mlp.ffn_hidden);
    std::vector<TensorId> f1 = {
        w.column_parallel(prefix + "fc1", normed, d.hidden, sections, mlp.bias)};
    if (mlp.gated() && scenario.layout.recompute == Recompute::selective_op)
        f1.push_back(w.halve_product("gate", "up"));
    const TensorId f2 = w.activation(prefix + "activated", d.tokens, width);
    const LayerModule around = w.begin_module(LayerModule::mlp_activation);
    w.op(Activate{d.tokens, width, function_of(mlp), mlp.limit}, name_of(mlp.activation),
         std::move(f1), {f2});
    w.end_module(around);
    return f2;
}

namespace {

std::vector<std::string> only_if(bool biased, const std::string& linear) {
    return biased ? std::vector<std::string>{linear} : std::vector<std::string>{};
}

// x + norm_after(branch(norm_before(x))), each norm where the layer has it. A norm after a branch
// stands between it and the residual, so that nothing is left to add there.
TensorId sequential_layer(ForwardWriter& w, const Scenario& scenario, const LayerSpec& layer,
                          TensorId x) {
    const Model& model = scenario.model;
    const SoftmaxAttention& spec = layer.attention();
    const auto before = [&](const char* name, TensorId from) {
        return layer.norm_before ? norm(w, model, name, from) : from;
    };
    const auto after = [&](const char* name, TensorId branch) {
        return layer.norm_after ? norm(w, model, name, branch) : branch;
    };
    const TensorId n1 = before("norm1", x);
    const TensorId context = attention_branch(w, scenario, layer, n1);
    const TensorId projected =
        after("post_norm1", w.row_parallel("projection", context, spec.context_width()));
    const TensorId middle =
        residual(w, scenario, "projection", projected, x,
                 only_if(spec.projection_bias, "projection"), "middle", kFirstDrop);
    const TensorId n2 = before("norm2", middle);
    const LayerModule around = w.begin_module(LayerModule::mlp);
    const ExpertMlp* const experts = layer.experts();
    const TensorId product =
        experts != nullptr ? expert_branch(w, scenario, *experts, n2)
                           : w.row_parallel("fc2", mlp_branch(w, scenario, layer.dense(), "", n2),
                                            layer.dense().ffn_hidden);
    w.end_module(around);
    const TensorId down = after("post_norm2", product);
    const bool biased = experts == nullptr && layer.dense().bias;
    return residual(w, scenario, "fc2", down, middle, only_if(biased, "fc2"), "y", kSecondDrop);
}

// x + attention(norm1(x)) + mlp(norm2(x)), with one norm for both where the model shares it (Wang
// 2021, GPT-J; Black 2022). The branches are added before they are reduced over the tensor group,
// so that a layer has one reduction in place of two.
TensorId parallel_layer(ForwardWriter& w, const Scenario& scenario, const LayerSpec& layer,
                        TensorId x) {
    const Dims& d = w.dims();
    const Model& model = scenario.model;
    const SoftmaxAttention& spec = layer.attention();
    const DenseMlp& mlp = layer.dense();
    const TensorId n1 = norm(w, model, "norm1", x);
    const TensorId n2 = layer.shared_norm ? n1 : norm(w, model, "norm2", x);
    const TensorId context = attention_branch(w, scenario, layer, n1);
    const TensorId projected = w.row_parallel_partial("projection", context, spec.context_width());
    const LayerModule around = w.begin_module(LayerModule::mlp);
    const TensorId activated = mlp_branch(w, scenario, mlp, "", n2);
    const TensorId down = w.row_parallel_partial("fc2", activated, mlp.ffn_hidden);
    w.end_module(around);
    const TensorId sum = w.activation("branches", d.tokens, d.hidden);
    w.op(Add{d.tokens, d.hidden}, "branches", {projected, down}, {sum});
    std::vector<std::string> biased = only_if(spec.projection_bias, "projection");
    if (mlp.bias) biased.emplace_back("fc2");
    return residual(w, scenario, "branches", w.reduce_over_tensor("branches", sum), x, biased, "y",
                    kFirstDrop);
}

}  // namespace

TensorId layer_of(ForwardWriter& w, const Scenario& scenario, const LayerSpec& layer, TensorId x) {
    return layer.parallel_block ? parallel_layer(w, scenario, layer, x)
                                : sequential_layer(w, scenario, layer, x);
}

ForwardBlock layer_forward(const Scenario& scenario, const Dims& d, const LayerSpec& layer) {
    ForwardWriter w((layer.name.empty() ? "layer" : layer.name + "_layer") + ".forward", d);
    const TensorId x = w.activation("x", d.sharded_tokens, d.hidden);
    w.input(x);
    w.output(layer_of(w, scenario, layer, x));
    return w.finish();
}

}  // namespace orrery::plan
