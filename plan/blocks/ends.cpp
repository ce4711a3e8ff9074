// Forward of what stands before and behind the layers: the embedding, learned positions and norms
// beside it, the last norm, the head with the loss.
#include <string>
#include <tuple>
#include <utility>

#include "plan/blocks/multi_token.hpp"
#include "plan/blocks/norms.hpp"

namespace orrery::plan {
namespace {

// Of the embedding and of the head: rows of words, filled up to what ranks share out.
ParameterSpec words_of(const Scenario& scenario, const Dims& d) {
    const std::int64_t rows = d.vocabulary * scenario.layout.vocabulary_ranks();
    ParameterSpec spec{{rows, d.hidden}, Cut::rows, {rows}, Start::normal, true};
    spec.padding = rows - scenario.model.vocabulary;
    spec.pipeline_ranks = d.words.pipeline_ranks;
    return spec;
}

// A collective of the ranks that share out the vocabulary.
Op& over_pipeline(ForwardWriter& w, OpSpec spec, std::string label, std::vector<TensorId> reads,
                  std::vector<TensorId> writes, GroupKind group = GroupKind::pipeline) {
    Op& op = w.op(std::move(spec), std::move(label), std::move(reads), std::move(writes));
    op.stream = Stream::vocabulary_comm;
    op.group = group;
    return op;
}

// Megatron-LM's loss works on logits.float() and keeps that copy for backward
// (vocab_parallel_cross_entropy); the 16-bit logits die with the copy.
TensorId in_fp32(ForwardWriter& w, const std::string& own, TensorId logits, std::int64_t words) {
    const Dims& d = w.dims();
    const TensorId copy =
        w.tensor(own + "logits_fp32", Role::scratch, DType::fp32, {d.tokens, words});
    w.op(Cast{d.tokens * words}, "logits", {logits}, {copy}).dtype = DType::fp32;
    return copy;
}

// PyTorch's cross_entropy writes log-probabilities beside the logits, and keeps these.
TensorId log_probabilities(ForwardWriter& w, const std::string& own, TensorId logits,
                           std::int64_t words) {
    const Dims& d = w.dims();
    const DType dtype = w.dtype(logits);
    const TensorId copy =
        w.tensor(own + "log_probabilities", Role::scratch, dtype, {d.tokens, words});
    w.op(Cast{d.tokens * words}, "log softmax", {logits}, {copy}).dtype = dtype;
    w.separate_loss_gradient();
    return copy;
}

// Every tensor rank has all words, and computes the whole loss.
TensorId gathered_logits(ForwardWriter& w, const std::string& own, TensorId logits,
                         std::int64_t words) {
    const Dims& d = w.dims();
    const TensorId whole = w.activation(own + "logits_whole", d.tokens, words);
    w.op(AllGather{d.tokens * words}, "gathered logits", {logits}, {whole});
    w.cut_gradient();  // every rank computes the same loss
    return whole;
}

}  // namespace

TensorId embedded(ForwardWriter& w, const Scenario& scenario, std::int64_t ahead) {
    const Dims& d = w.dims();
    const TensorId tokens = w.tensor("tokens", Role::stash, DType::i32, {d.tokens});
    ParameterSpec words = words_of(scenario, d);
    words.second_use = ahead > 0;
    const TensorId table = w.parameter("embedding.weight", std::move(words));
    const TensorId looked_up = w.activation("looked_up", d.tokens, d.hidden);
    w.op(Embedding{d.tokens, d.hidden, embedding_scale(scenario), ahead, d.words}, "embedding",
         {tokens, table}, {looked_up});
    return w.reduce_over_tensor("embedding", looked_up);
}

ForwardBlock embedding_forward(const Scenario& scenario, const Dims& d, const PipelineRoot& root) {
    ForwardWriter w("embedding.forward", d);
    const TensorId rows = embedded(w, scenario, 0);
    w.root(root);
    if (d.words.pipeline_ranks > 1)
        over_pipeline(w, AllReduce{d.sharded_tokens * d.hidden}, "embedding", {rows}, {rows});
    w.output(rows);
    return w.finish();
}

ForwardBlock positions_forward(const Scenario& scenario, const Dims& d) {
    const Model& model = scenario.model;
    ForwardWriter w("positions.forward", d);
    const TensorId x = w.activation("x", d.sharded_tokens, d.hidden);
    w.input(x);
    const TensorId table =
        w.parameter("positions.weight",
                    {{model.position_rows(), d.hidden}, Cut::whole, {}, Start::normal, true});
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

namespace {

// The gradient of the loss by the sums that the part itself has, which makes dlogits of logits, and
// of these the input's; and the words of the targets, by which the latter is corrected when the
// sums of whole rows are known (Yeung et al. 2024, Algorithm 2: A and B).
ForwardBlock::LossInBackward::Begun begin_gradient(ForwardWriter& w, const CrossEntropySum& sum,
                                                   std::size_t product, TensorId weight,
                                                   const std::vector<TensorId>& loss_reads) {
    const Dims& d = w.dims();
    const TensorId logits = loss_reads[0], largest = loss_reads[1], sums = loss_reads[2],
                   targets = loss_reads[3];
    const auto emit = [&](OpSpec spec, const char* label, std::vector<TensorId> reads,
                          TensorId written) {
        Op& op = w.op(std::move(spec), label, std::move(reads), {written});
        op.phase = Phase::backward;
        op.dtype = w.dtype(written);
    };
    std::vector<TensorId> reads = loss_reads;
    if (d.scales_loss()) reads.push_back(w.tensor("loss scale", Role::scalar, DType::fp32, {1}));
    emit(CrossEntropyBackward{sum.rows, sum.width, sum.vocabulary, sum.soft_cap, 1, sum.words},
         "loss of part", std::move(reads), logits);
    TensorId dlogits = logits;
    if (w.dtype(logits) != d.dtype) {
        dlogits = w.activation("dlogits_of_part", sum.rows, sum.width);
        emit(Cast{sum.rows * sum.width}, "logits", {logits}, dlogits);
    }
    const TensorId dx = w.activation("dinput_of_part", sum.rows, d.hidden);
    emit(Gemm{sum.rows, d.hidden, sum.width, GemmProduct::input_gradient}, "logits dgrad",
         {dlogits, weight}, dx);
    const TensorId words = w.activation("words_of_targets", sum.rows, d.hidden);
    emit(Embedding{sum.rows, d.hidden, 1, 1, sum.words}, "targets", {targets, weight}, words);
    return {product, sums, largest, dx, words};
}

// Of rows of logits, of which every rank has a part: what each part has of a row goes to all ranks,
// and the loss waits for it in backward, and so does its gradient (Yeung et al. 2024, Algorithm 1),
// or its correction (Algorithm 2). 12 bytes per token and part travel.
void gather_loss(ForwardWriter& w, const Scenario& scenario, std::size_t product, TensorId weight,
                 TensorId logits, TensorId targets) {
    const Dims& d = w.dims();
    const std::int64_t parts = scenario.layout.vocabulary_ranks();
    const TensorId largest = w.tensor("largest", Role::stash, d.wide_dtype, {d.tokens});
    const TensorId sums = w.tensor("sums", Role::stash, d.wide_dtype, {d.tokens, 2});
    const CrossEntropySum sum{
        d.tokens, d.vocabulary, scenario.model.vocabulary, true, scenario.model.logit_soft_cap,
        0,        d.words};
    w.op(sum, "max and sum of exponentials", {logits, targets}, {sums, largest}).dtype =
        w.dtype(logits);
    const auto gathered = [&](const char* name, TensorId own, std::int64_t width) {
        const TensorId all = w.tensor(name, Role::stash, d.wide_dtype, {parts, d.tokens, width});
        over_pipeline(w, AllGather{parts * d.tokens * width}, name, {own}, {all}, GroupKind::model)
            .dtype = d.wide_dtype;
        return all;
    };
    ForwardBlock::LossInBackward loss;
    loss.sums = gathered("sums of parts", sums, 2);
    loss.largest = gathered("largest of parts", largest, 1);
    loss.join = {d.tokens, parts, d.vocabulary};
    loss.loss = {d.tokens, 2, 1};
    if (scenario.layout.vocabulary_parallel == VocabularyParallel::vocab_2)
        loss.begun = begin_gradient(w, sum, product, weight, {logits, largest, sums, targets});
    w.loss_in_backward(loss);
}

// The loss of rows of hidden states, added to that of this name; of multi-token prediction its
// targets are `ahead` of the next token. Of pipeline ranks that share out the words one counts it.
void loss_of(ForwardWriter& w, const Scenario& scenario, TensorId x, TensorId weight,
             std::int64_t ahead, bool counts) {
    const Dims& d = w.dims();
    const std::string own = ahead > 0 ? "mtp_" : "", said = ahead > 0 ? "mtp " : "";
    TensorId logits = w.column_parallel_with(own + "logits", x, weight, -1);
    const auto product = static_cast<std::size_t>(w.last_op());
    const Framework& framework = scenario.training.framework;
    const bool sharded =
        scenario.layout.vocabulary_ranks() > 1 && framework.loss_logits != LossLogits::gathered;
    const std::int64_t words = sharded ? d.vocabulary : d.vocabulary * d.tensor;
    if (words > d.vocabulary) logits = gathered_logits(w, own, logits, words);
    const bool fused = framework.loss_logits == LossLogits::fused;
    if (framework.logits_dtype == LogitsType::fp32 && d.dtype != d.wide_dtype && !fused)
        logits = in_fp32(w, own, logits, words);
    if (framework.loss_logits == LossLogits::copied ||
        framework.loss_logits == LossLogits::gathered)
        logits = log_probabilities(w, own, logits, words);
    const DType logits_dtype = w.dtype(logits);
    const TensorId targets = w.tensor(own + "targets", Role::stash, DType::i32, {d.tokens});

    if (scenario.layout.shares_vocabulary() &&
        scenario.layout.vocabulary_parallel != VocabularyParallel::interlaced)
        return gather_loss(w, scenario, product, weight, logits, targets);

    // Softmax over a sharded vocabulary (Shoeybi 2019): the maximum, then the sum of exponentials
    // with the target's logit, are reduced over the tensor group; 4 and 8 bytes per token travel.
    const TensorId largest = w.tensor(own + "largest", Role::scratch, d.wide_dtype, {d.tokens});
    const std::int64_t vocabulary = scenario.model.vocabulary;
    const double cap = scenario.model.logit_soft_cap;
    const TensorId sums = w.tensor(own + "sums", Role::scratch, d.wide_dtype, {d.tokens, 2});
    CrossEntropySum sum{d.tokens, words, vocabulary, fused && !sharded, cap, ahead, d.words};
    const auto over_parts = [&](ReduceOp reduce, std::int64_t elements, const char* what,
                                TensorId tensor) {
        Op& op = w.op(AllReduce{elements, reduce}, said + what, {tensor}, {tensor});
        op.dtype = d.wide_dtype;
        if (d.words.pipeline_ranks == 1) return;
        op.stream = Stream::vocabulary_comm;
        op.group = GroupKind::model;
    };
    if (sum.finds_largest) {  // the ranks must agree on the maximum before they sum
        w.op(sum, said + "max and sum of exponentials", {logits, targets}, {sums, largest}).dtype =
            logits_dtype;
    } else {
        w.op(CrossEntropyMax{d.tokens, words, vocabulary, cap, d.words}, said + "max logit",
             {logits}, {largest})
            .dtype = logits_dtype;
        if (sharded) over_parts(ReduceOp::max, d.tokens, "max logit", largest);
        w.op(sum, said + "sum of exponentials", {logits, largest, targets}, {sums}).dtype =
            logits_dtype;
    }
    // The last tokens of a sequence have no target so far ahead, and the mean is over the others.
    const auto length = static_cast<double>(scenario.training.sequence_length);
    const double of_valid = length / (length - static_cast<double>(ahead));
    if (ahead > 0) w.weigh_loss(scenario.training.mtp_loss_scaling_factor * of_valid);
    if (sharded) over_parts(ReduceOp::sum, 2 * d.tokens, "sum of exponentials", sums);
    if (!counts) return;
    const TensorId loss = w.tensor(said + "loss", Role::scalar, d.wide_dtype, {1});
    w.op(CrossEntropy{d.tokens, 2, of_valid}, said + "loss", {sums, largest, targets, loss},
         {loss});
}

}  // namespace

ForwardBlock head_forward(const Scenario& scenario, const Dims& d, const PipelineRoot& root) {
    ForwardWriter w("head.forward", d);
    const bool further = scenario.model.mtp_layers > 0;
    TensorId x =
        w.activation(further ? "both" : "x", d.sharded_tokens, further ? 2 * d.hidden : d.hidden);
    w.input(x);
    w.root(root);
    if (d.words.pipeline_ranks > 1) {
        using Ids = std::vector<TensorId>;
        over_pipeline(w, Broadcast{d.sharded_tokens * d.hidden, root.rank}, "head input",
                      root.is_self ? Ids{x} : Ids{}, root.is_self ? Ids{} : Ids{x});
    }
    const bool tied = scenario.model.tied_embeddings;
    ParameterSpec spec = words_of(scenario, d);
    spec.second_use = tied;
    const TensorId weight = w.parameter(tied ? "embedding.weight" : "head.weight", std::move(spec));
    if (d.scales_loss()) w.scale_loss();
    TensorId predicted = -1;
    if (further) std::tie(x, predicted) = states_of(w, x);
    loss_of(w, scenario, x, weight, 0, root.is_self);
    if (further) loss_of(w, scenario, predicted, weight, 1, root.is_self);
    return w.finish();
}

}  // namespace orrery::plan
