// Forward of one transformer layer, in the order of Megatron-LM's ParallelTransformerLayer:
// norm, qkv, attention, projection, residual; norm, fc1, activation, fc2, residual. In a parallel
// block both branches come first, then one residual.
#include "plan/blocks/context_attention.hpp"
#include "plan/blocks/forward_block.hpp"

namespace orrery::plan {
namespace {

// What norms of single operations keep beside their input: the input in fp32, and the result before
// it is weighted. Backward reads each once (derive_cast).
void keep_copy(ForwardWriter& w, const std::string& label, TensorId of, DType dtype) {
    const Dims& d = w.dims();
    const TensorId copy =
        w.tensor(label + "_kept", Role::scratch, dtype, {d.sharded_tokens, d.hidden});
    w.op(Cast{d.sharded_tokens * d.hidden}, label, {of}, {copy}).dtype = dtype;
}

TensorId norm(ForwardWriter& w, const Model& model, const std::string& name, TensorId x) {
    const Dims& d = w.dims();
    const LayerModule around = w.begin_module(LayerModule::norm);
    if (d.composed_norms) keep_copy(w, name + "_input", x, d.wide_dtype);
    const TensorId weight = w.parameter(name + ".weight", {d.hidden}, true);
    std::vector<TensorId> reads = {x, weight};
    if (model.layer_norm()) reads.push_back(w.parameter(name + ".bias", {d.hidden}, true));
    const TensorId out = w.activation(name, d.sharded_tokens, d.hidden);
    // LayerNorm keeps mean and 1/σ per token, RMSNorm 1/σ alone.
    const TensorId stats = w.tensor(name + "_stats", Role::scratch, d.wide_dtype,
                                    {d.sharded_tokens, model.layer_norm() ? 2 : 1});
    w.op(Normalize{d.sharded_tokens, d.hidden, model.layer_norm(), model.norm_epsilon,
                   model.norm_weight_offset},
         name, std::move(reads), {out, stats});
    if (d.composed_norms) keep_copy(w, name + "_unweighted", out, d.dtype);
    w.end_module(around);
    return out;
}

// What dropout leaves for backward: a mask of a byte per element that it writes, or the key of its
// counter-based random numbers, which it reads and backward reads again (Salmon et al. 2011).
void add_dropout(ForwardWriter& w, DropoutMasks masks, const std::string& mask,
                 const std::vector<std::int64_t>& dims, std::vector<TensorId>& reads,
                 std::vector<TensorId>& writes) {
    if (masks == DropoutMasks::stored)
        writes.push_back(w.tensor(mask, Role::scratch, DType::u8, dims));
    else
        reads.push_back(w.dropout_key());
}

// Places of Drop: attention's probabilities, and what the two residuals add; that of a parallel
// block, and positions, which no layer has beside them, have the first one's.
constexpr std::int64_t kAttentionDrop = 1, kFirstDrop = 2, kSecondDrop = 3;

// residual + dropout(branch + biases); one kernel, as fused in every current stack. `biased` are
// the linears whose biases were left to it.
TensorId residual(ForwardWriter& w, const Scenario& scenario, const std::string& name,
                  TensorId branch, TensorId x, const std::vector<std::string>& biased,
                  const std::string& result, std::int64_t place) {
    const Dims& d = w.dims();
    std::vector<TensorId> reads = {branch, x};
    for (const std::string& linear : biased)
        reads.push_back(w.parameter(linear + ".bias", {d.hidden}, true));
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
                        d.batch * d.attended_sequence(), d.attended_heads() * d.head_dim);
}

// Of the heads that one kernel sees.
AttentionForm attention_form(const Scenario& scenario, const Dims& d) {
    const Model& model = scenario.model;
    AttentionForm form;
    form.heads = d.attended_heads();
    form.kv_heads = d.attended_kv_heads();
    form.head_dim = d.head_dim;
    form.total_heads = model.heads;
    form.scale = model.attention_scale();
    form.alibi = model.alibi_factor();
    if (model.attention_dropout > 0) form.drop = {model.attention_dropout, kAttentionDrop};
    return form;
}

// Causal attention that keeps the log-sum-exp of each row instead of s×s scores (Dao 2022).
TensorId flash_attention(ForwardWriter& w, const AttentionForm& form, TensorId qkv) {
    const Dims& d = w.dims();
    const std::int64_t s = d.attended_sequence();
    const TensorId out = attention_result(w);
    const TensorId lse = w.tensor("lse", Role::scratch, d.wide_dtype, {d.batch, form.heads, s});
    w.op(Attention{{{form, d.batch, s, s}, d.window}}, "attention", {qkv}, {out, lse});
    return out;
}

// QKᵀ, masked softmax, dropout, PV as kernels of their own: the stack of 2019–2022.
TensorId unfused_attention(ForwardWriter& w, const Scenario& scenario, const AttentionForm& form,
                           TensorId qkv) {
    const Dims& d = w.dims();
    const std::int64_t s = d.attended_sequence(), maps = d.batch * form.heads;
    auto scores_like = [&](const std::string& name, DType dtype) {
        return w.tensor(name, Role::scratch, dtype, {maps, s, s});
    };
    const LayerModule around = w.begin_module(LayerModule::attention_core);
    const TensorId scores = scores_like("scores", d.dtype);
    w.op(BatchedGemm{s, s, d.head_dim, maps, form.heads, form.kv_heads, AttentionProduct::scores,
                     form.scale},
         "QK", {qkv}, {scores});
    TensorId probabilities = scores_like("probabilities", d.dtype);
    w.op(Softmax{maps, s, s, form.heads, form.total_heads, d.window, form.alibi}, "softmax",
         {scores}, {probabilities});
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
    w.op(BatchedGemm{s, d.head_dim, s, maps, form.heads, form.kv_heads, AttentionProduct::context,
                     form.scale},
         "PV", {probabilities, qkv}, {out});
    w.end_module(around);
    return out;
}

TensorId attention(ForwardWriter& w, const Scenario& scenario, TensorId qkv) {
    const Dims& d = w.dims();
    const AttentionForm form = attention_form(scenario, d);
    auto local = [&](TensorId rows) {
        return scenario.training.framework.attention_kernel == AttentionKernel::flash
                   ? flash_attention(w, form, rows)
                   : unfused_attention(w, scenario, form, rows);
    };
    if (d.context == 1) return local(qkv);
    switch (scenario.layout.context_algorithm) {
        case ContextAlgorithm::ring:
            return ring_attention(w, form, qkv);
        case ContextAlgorithm::all_gather:
            return gathered_attention(w, form, qkv);
        case ContextAlgorithm::all_to_all:
            break;
    }
    const TensorId whole = heads_for_tokens(w, "qkv", qkv, d.qkv_width(), d.kv_heads * d.head_dim);
    return tokens_for_heads(w, "context", local(whole), d.context_width());
}

// Attention of a normed input, up to what its projection reads.
TensorId attention_branch(ForwardWriter& w, const Scenario& scenario, TensorId normed) {
    const Dims& d = w.dims();
    const Model& model = scenario.model;
    const TensorId qkv = w.column_parallel("qkv", normed, d.qkv_width(), model.qkv_bias);
    if (model.rotary()) {
        RopeScaling scaling = model.rope_scaling;
        scaling.attention_factor = 1;  // it is in the scale of the scores
        w.op(Rope{{d.tokens, (d.heads + d.kv_heads) * model.rotary_dim, d.heads, d.kv_heads,
                   d.head_dim, model.rotary_dim, model.rope_theta, scaling}},
             "rope", {qkv}, {qkv});
    }
    // ALiBi is an arithmetic of row, column and head within either kernel (Press 2022).
    return attention(w, scenario, qkv);
}

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
    }
    return "";
}

ActivationFunction function_of(const Model& model) {
    const bool erf = model.gelu == Gelu::erf;
    switch (model.activation) {
        case Activation::gelu:
            return erf ? ActivationFunction::gelu_erf : ActivationFunction::gelu_tanh;
        case Activation::relu:
            return ActivationFunction::relu;
        case Activation::squared_relu:
            return ActivationFunction::squared_relu;
        case Activation::swiglu:
            return ActivationFunction::swiglu;
        case Activation::geglu:
            break;
    }
    return erf ? ActivationFunction::geglu_erf : ActivationFunction::geglu_tanh;
}

// The MLP of a normed input, up to what its second linear reads. Where backward makes every second
// product again, gate and up lie apart: one is kept, the other made again.
TensorId mlp_branch(ForwardWriter& w, const Scenario& scenario, TensorId normed) {
    const Dims& d = w.dims();
    const Model& model = scenario.model;
    const std::int64_t width = model.gated_mlp() ? 2 * d.ffn : d.ffn;
    std::vector<TensorId> f1 = {w.column_parallel("fc1", normed, width, model.mlp_bias)};
    if (model.gated_mlp() && scenario.layout.recompute == Recompute::selective_op)
        f1.push_back(w.halve_product("gate", "up"));
    const TensorId f2 = w.activation("activated", d.tokens, d.ffn);
    const LayerModule around = w.begin_module(LayerModule::mlp_activation);
    w.op(Activate{d.tokens, d.ffn, function_of(model)}, name_of(model.activation), std::move(f1),
         {f2});
    w.end_module(around);
    return f2;
}

std::vector<std::string> only_if(bool biased, const std::string& linear) {
    return biased ? std::vector<std::string>{linear} : std::vector<std::string>{};
}

TensorId sequential_layer(ForwardWriter& w, const Scenario& scenario, TensorId x) {
    const Dims& d = w.dims();
    const Model& model = scenario.model;
    const TensorId n1 = norm(w, model, "norm1", x);
    const TensorId context = attention_branch(w, scenario, n1);
    const TensorId projected = w.row_parallel("projection", context, d.context_width());
    const TensorId middle =
        residual(w, scenario, "projection", projected, x,
                 only_if(model.projection_bias, "projection"), "middle", kFirstDrop);
    const TensorId n2 = norm(w, model, "norm2", middle);
    const LayerModule around = w.begin_module(LayerModule::mlp);
    const TensorId activated = mlp_branch(w, scenario, n2);
    const TensorId down = w.row_parallel("fc2", activated, d.ffn);
    w.end_module(around);
    return residual(w, scenario, "fc2", down, middle, only_if(model.mlp_bias, "fc2"), "y",
                    kSecondDrop);
}

// x + attention(norm1(x)) + mlp(norm2(x)), with one norm for both where the model shares it (Wang
// 2021, GPT-J; Black 2022). The branches are added before they are reduced over the tensor group,
// so that a layer has one reduction in place of two.
TensorId parallel_layer(ForwardWriter& w, const Scenario& scenario, TensorId x) {
    const Dims& d = w.dims();
    const Model& model = scenario.model;
    const TensorId n1 = norm(w, model, "norm1", x);
    const TensorId n2 = model.shared_norm ? n1 : norm(w, model, "norm2", x);
    const TensorId context = attention_branch(w, scenario, n1);
    const TensorId projected = w.row_parallel_partial("projection", context, d.context_width());
    const LayerModule around = w.begin_module(LayerModule::mlp);
    const TensorId activated = mlp_branch(w, scenario, n2);
    const TensorId down = w.row_parallel_partial("fc2", activated, d.ffn);
    w.end_module(around);
    const TensorId sum = w.activation("branches", d.tokens, d.hidden);
    w.op(Add{d.tokens, d.hidden}, "branches", {projected, down}, {sum});
    std::vector<std::string> biased = only_if(model.projection_bias, "projection");
    if (model.mlp_bias) biased.emplace_back("fc2");
    return residual(w, scenario, "branches", w.reduce_over_tensor("branches", sum), x, biased, "y",
                    kFirstDrop);
}

// Megatron-LM's loss works on logits.float() and keeps that copy for backward
// (vocab_parallel_cross_entropy); the 16-bit logits die with the copy.
TensorId in_fp32(ForwardWriter& w, TensorId logits, std::int64_t words) {
    const Dims& d = w.dims();
    const TensorId copy = w.tensor("logits_fp32", Role::scratch, DType::fp32, {d.tokens, words});
    w.op(Cast{d.tokens * words}, "logits", {logits}, {copy}).dtype = DType::fp32;
    return copy;
}

// PyTorch's cross_entropy writes log-probabilities beside the logits, and keeps these.
TensorId log_probabilities(ForwardWriter& w, TensorId logits, std::int64_t words) {
    const Dims& d = w.dims();
    const DType dtype = w.dtype(logits);
    const TensorId copy = w.tensor("log_probabilities", Role::scratch, dtype, {d.tokens, words});
    w.op(Cast{d.tokens * words}, "log softmax", {logits}, {copy}).dtype = dtype;
    w.separate_loss_gradient();
    return copy;
}

// Every tensor rank has all words, and computes the whole loss.
TensorId gathered_logits(ForwardWriter& w, TensorId logits, std::int64_t words) {
    const Dims& d = w.dims();
    const TensorId whole = w.activation("logits_whole", d.tokens, words);
    w.op(AllGather{d.tokens * words}, "gathered logits", {logits}, {whole});
    w.cut_gradient();  // every rank computes the same loss
    return whole;
}

}  // namespace

ForwardBlock layer_forward(const Scenario& scenario, const Dims& d) {
    ForwardWriter w("layer.forward", d);
    const TensorId x = w.activation("x", d.sharded_tokens, d.hidden);
    w.input(x);
    w.output(scenario.model.parallel_block ? parallel_layer(w, scenario, x)
                                           : sequential_layer(w, scenario, x));
    return w.finish();
}

ForwardBlock embedding_forward(const Scenario& scenario, const Dims& d) {
    ForwardWriter w("embedding.forward", d);
    const TensorId tokens = w.tensor("tokens", Role::stash, DType::i32, {d.tokens});
    const TensorId table = w.parameter("embedding.weight", {d.vocabulary, d.hidden}, false);
    const TensorId looked_up = w.activation("looked_up", d.tokens, d.hidden);
    w.op(Embedding{d.tokens, d.hidden, embedding_scale(scenario)}, "embedding", {tokens, table},
         {looked_up});
    w.output(w.reduce_over_tensor("embedding", looked_up));
    return w.finish();
}

ForwardBlock positions_forward(const Scenario& scenario, const Dims& d) {
    const Model& model = scenario.model;
    ForwardWriter w("positions.forward", d);
    const TensorId x = w.activation("x", d.sharded_tokens, d.hidden);
    w.input(x);
    const TensorId table = w.parameter("positions.weight", {model.position_rows(), d.hidden}, true);
    const TensorId sum = w.activation("y", d.sharded_tokens, d.hidden);
    std::vector<TensorId> reads = {x, table};
    std::vector<TensorId> writes = {sum};
    ResidualAdd add{d.sharded_tokens, d.hidden, {}, model.position_offset};
    if (model.embedding_dropout && model.hidden_dropout > 0) {
        add.drop = {model.hidden_dropout, kFirstDrop};
        add_dropout(w, scenario.training.framework.dropout_masks, "embedding_mask",
                    {d.sharded_tokens, d.hidden}, reads, writes);
    }
    w.op(add, "positions", std::move(reads), std::move(writes));
    w.output(sum);
    return w.finish();
}

ForwardBlock embedding_norm_forward(const Scenario& scenario, const Dims& d) {
    ForwardWriter w("embedding_norm.forward", d);
    const TensorId x = w.activation("x", d.sharded_tokens, d.hidden);
    w.input(x);
    w.output(norm(w, scenario.model, "embedding_norm", x));
    return w.finish();
}

ForwardBlock final_norm_forward(const Scenario& scenario, const Dims& d) {
    ForwardWriter w("final_norm.forward", d);
    const TensorId x = w.activation("x", d.sharded_tokens, d.hidden);
    w.input(x);
    w.output(norm(w, scenario.model, "final_norm", x));
    return w.finish();
}

ForwardBlock head_forward(const Scenario& scenario, const Dims& d) {
    ForwardWriter w("head.forward", d);
    const TensorId x = w.activation("x", d.sharded_tokens, d.hidden);
    w.input(x);
    const TensorId weight =
        w.parameter(scenario.model.tied_embeddings ? "embedding.weight" : "head.weight",
                    {d.vocabulary, d.hidden}, false);
    TensorId logits = w.column_parallel_with("logits", x, weight, -1, d.vocabulary);
    const Framework& framework = scenario.training.framework;
    const bool sharded = d.tensor > 1 && framework.loss_logits != LossLogits::gathered;
    const std::int64_t words = sharded ? d.vocabulary : d.vocabulary * d.tensor;
    if (words > d.vocabulary) logits = gathered_logits(w, logits, words);
    const bool fused = framework.loss_logits == LossLogits::fused;
    if (framework.logits_dtype == LogitsType::fp32 && d.dtype != d.wide_dtype && !fused)
        logits = in_fp32(w, logits, words);
    if (framework.loss_logits == LossLogits::copied ||
        framework.loss_logits == LossLogits::gathered)
        logits = log_probabilities(w, logits, words);
    const DType logits_dtype = w.dtype(logits);
    if (d.scales_loss()) w.scale_loss();
    const TensorId targets = w.tensor("targets", Role::stash, DType::i32, {d.tokens});

    // Softmax over a sharded vocabulary (Shoeybi 2019): the maximum, then the sum of exponentials
    // with the target's logit, are reduced over the tensor group; 4 and 8 bytes per token travel.
    const TensorId largest = w.tensor("largest", Role::scratch, d.wide_dtype, {d.tokens});
    const std::int64_t vocabulary = scenario.model.vocabulary;
    const TensorId sums = w.tensor("sums", Role::scratch, d.wide_dtype, {d.tokens, 2});
    if (fused && !sharded) {  // the ranks must agree on the maximum before they sum
        w.op(CrossEntropySum{d.tokens, words, vocabulary, true}, "max and sum of exponentials",
             {logits, targets}, {sums, largest})
            .dtype = logits_dtype;
    } else {
        w.op(CrossEntropyMax{d.tokens, words, vocabulary}, "max logit", {logits}, {largest}).dtype =
            logits_dtype;
        if (sharded)
            w.op(AllReduce{d.tokens, ReduceOp::max}, "max logit", {largest}, {largest}).dtype =
                d.wide_dtype;
        w.op(CrossEntropySum{d.tokens, words, vocabulary}, "sum of exponentials",
             {logits, largest, targets}, {sums})
            .dtype = logits_dtype;
    }
    if (sharded)
        w.op(AllReduce{2 * d.tokens}, "sum of exponentials", {sums}, {sums}).dtype = d.wide_dtype;
    const TensorId loss = w.tensor("loss", Role::scalar, d.wide_dtype, {1});
    w.op(CrossEntropy{d.tokens, 2}, "loss", {sums, largest, targets, loss}, {loss});
    return w.finish();
}

}  // namespace orrery::plan
