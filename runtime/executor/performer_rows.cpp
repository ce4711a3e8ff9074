// Kernels that go over the rows of activations.
#include <algorithm>

#include "plan/check.hpp"
#include "runtime/executor/performer.hpp"
#include "runtime/kernels/activation_forms.hpp"

namespace orrery::runtime {
namespace {

using plan::Role;

}  // namespace

void Performer::compute(const plan::Normalize& op, const Call& call) {
    Norm norm{op.rows,       op.width,      op.centred, op.epsilon,       op.weight_offset,
              read(call, 0), read(call, 1), {},         written(call, 0), written(call, 1)};
    if (op.centred) norm.bias = read(call, 2);
    call.kernels.norm(norm);
}

// Reads dy, x, weight, stats, the residual's gradient where there is one, then the accumulators,
// unless another block adds to them.
void Performer::compute(const plan::NormalizeBackward& op, const Call& call) {
    NormBackward norm;
    norm.rows = op.rows;
    norm.width = op.width;
    norm.centred = op.centred;
    norm.weight_offset = op.weight_offset;
    norm.dy = read(call, 0);
    norm.x = read(call, 1);
    norm.weight = read(call, 2);
    norm.stats = read(call, 3);
    if (call.bound.reads.size() > 4 && call.read_tensor(4).role != Role::gradient)
        norm.residual = read(call, 4);
    norm.dx = written(call, 0);
    if (call.bound.writes.size() > 1) norm.dweight = written(call, 1);
    if (call.bound.writes.size() > 2) norm.dbias = written(call, 2);
    norm.accumulate = call.bound.accumulates;
    call.kernels.norm_backward(norm);
}

void Performer::compute(const plan::Activate& op, const Call& call) {
    Activation activation{form_of(op.function), op.rows, op.width, read(call, 0), written(call, 0)};
    if (call.bound.reads.size() > 1) activation.up = read(call, 1);
    activation.limit = op.limit;
    call.kernels.activation(activation);
}

void Performer::compute(const plan::ActivateBackward& op, const Call& call) {
    ActivationBackward activation{form_of(op.function), op.rows,       op.width,
                                  read(call, 0),        read(call, 1), written(call, 0)};
    if (call.bound.reads.size() > 2) activation.up = read(call, 2);
    activation.limit = op.limit;
    call.kernels.activation_backward(activation);
}

void Performer::compute(const plan::NormalizeQk& op, const Call& call) {
    QkNorm norm;
    norm.shape = {1, op.rows, op.heads, op.kv_heads, op.head_dim};
    norm.epsilon = op.epsilon;
    norm.weight_offset = op.weight_offset;
    norm.ranks = op.ranks;
    norm.qkv = read(call, 0);
    if (op.weighted) {
        norm.q_weight = read(call, 1);
        norm.k_weight = read(call, 2);
    }
    if (op.ranks > 0) norm.sums = read(call, 3);
    norm.y = written(call, 0);
    call.kernels.qk_norm(norm);
}

void Performer::compute(const plan::NormalizeQkSums& op, const Call& call) {
    QkNormSums sums;
    sums.shape = {1, op.rows, op.heads, op.kv_heads, op.head_dim};
    sums.weight_offset = op.weight_offset;
    sums.sums = written(call, 0);
    if (!op.of_gradients) {
        sums.qkv = read(call, 0);
    } else {
        sums.dy = read(call, 0);
        sums.qkv = read(call, 1);
        sums.q_weight = read(call, 2);
        sums.k_weight = read(call, 3);
    }
    call.kernels.qk_norm_sums(sums);
}

// Reads dy, qkv, the two weights, of a norm over all heads the sums of squares and of products,
// then the accumulators.
void Performer::compute(const plan::NormalizeQkBackward& op, const Call& call) {
    QkNormBackward norm;
    norm.shape = {1, op.rows, op.heads, op.kv_heads, op.head_dim};
    norm.epsilon = op.epsilon;
    norm.weight_offset = op.weight_offset;
    norm.ranks = op.ranks;
    norm.dy = read(call, 0);
    norm.qkv = read(call, 1);
    if (op.weighted) {
        norm.q_weight = read(call, 2);
        norm.k_weight = read(call, 3);
    }
    if (op.ranks > 0) {
        norm.sums = read(call, 4);
        norm.dots = read(call, 5);
    }
    norm.dqkv = written(call, 0);
    if (call.bound.writes.size() > 1) {
        norm.dq_weight = written(call, 1);
        norm.dk_weight = written(call, 2);
    }
    norm.accumulate = call.bound.accumulates;
    call.kernels.qk_norm_backward(norm);
}

Rope Performer::rope(const plan::RopeFields& op, const Call& call) const {
    return {{program_.tokens.samples, held_sequence(), op.heads, op.kv_heads, op.head_dim},
            op.rotary_dim,
            kept(call),
            written(call, 0),
            part_};
}

void Performer::compute(const plan::Rope& op, const Call& call) {
    call.kernels.rope(rope(op, call));
}

void Performer::compute(const plan::RopeBackward& op, const Call& call) {
    call.kernels.rope_backward({rope(op, call)});
}

void Performer::compute(const plan::TemperQueries& op, const Call& call) {
    call.kernels.temper_queries(
        {{program_.tokens.samples, held_sequence(), op.heads, op.kv_heads, op.head_dim},
         op.floor,
         op.scale,
         written(call, 0),
         part_});
}

// Heads in three tensors, and in one.
LatentHeads Performer::latent_heads(const plan::LatentHeadsFields& op, const Call& call,
                                    const std::array<Buffer, 3>& apart,
                                    const Buffer& packed) const {
    return {
        {program_.tokens.samples, held_sequence(), op.heads, op.heads, op.head_dim(), op.value_dim},
        op.plain_dim,
        op.rotary_dim,
        op.interleaved,
        op.turned_scale,
        kept(call),
        apart[0],
        apart[1],
        apart[2],
        packed,
        part_};
}

void Performer::compute(const plan::LatentHeads& op, const Call& call) {
    call.kernels.latent_heads(
        latent_heads(op, call, {read(call, 0), read(call, 1), read(call, 2)}, written(call, 0)));
}

void Performer::compute(const plan::LatentHeadsBackward& op, const Call& call) {
    call.kernels.latent_heads_backward({latent_heads(
        op, call, {written(call, 0), written(call, 1), written(call, 2)}, read(call, 0))});
}

// Of rows, or of maps of attention.
template <typename Op>
ElementIndex Performer::dropout_index(const Call& call, const Op& op) const {
    if (op.width > 0) return rows_index(call, op.elements / op.width, op.width);
    const auto map = static_cast<std::uint64_t>(op.sequence * op.sequence);
    const auto total = static_cast<std::uint64_t>(op.total_heads);
    const auto head = static_cast<std::uint64_t>(first_head(op.heads, op.total_heads));
    return {(static_cast<std::uint64_t>(first_sample(call)) * total + head) * map,
            static_cast<std::uint64_t>(op.heads) * map, total * map};
}

// So many reads behind the residual are others'.
ResidualAdd Performer::residual_add(const plan::ResidualAdd& op, const Call& call,
                                    std::size_t others) const {
    ResidualAdd sum;
    sum.rows = op.rows;
    sum.width = op.width;
    sum.branch = read(call, 0);
    std::size_t bias = 0;
    for (std::size_t i = 1; i < call.bound.reads.size(); ++i) {
        if (i >= 2 && i < 2 + others) continue;
        const plan::Tensor& tensor = call.read_tensor(i);
        if (tensor.role == Role::scalar) continue;  // the key, which the step brings
        if (tensor.role != Role::parameter)
            sum.x = read(call, i);
        else if (tensor.dims.size() == 1)
            sum.biases.at(bias++) = read(call, i);
        else
            sum.positions = read(call, i);
    }
    sum.position_rows = position_rows(sum.rows, op.position_offset);
    sum.y = written(call, 0);
    const std::size_t last = call.bound.writes.size() - 1;
    if (call.bound.writes[last].dtype == plan::DType::u8) sum.mask = written(call, last);
    if (op.drop.rate > 0) {
        sum.key = dropout_key(call, op.drop);
        sum.index = rows_index(call, sum.rows, sum.width);
    }
    return sum;
}

void Performer::compute(const plan::ResidualAdd& op, const Call& call) {
    call.kernels.residual_add(residual_add(op, call));
}

void Performer::compute(const plan::ResidualNormalize& op, const Call& call) {
    const ResidualAdd sum = residual_add(op.sum(), call, op.centred ? 2 : 1);
    Norm norm{op.rows, op.width,      op.centred, op.epsilon,       op.weight_offset,
              sum.y,   read(call, 2), {},         written(call, 1), written(call, 2)};
    if (op.centred) norm.bias = read(call, 3);
    call.kernels.residual_norm({sum, norm});
}

void Performer::compute(const plan::Dropout& op, const Call& call) {
    Dropout dropout{op.elements,   dropout_key(call, op.drop), dropout_index(call, op),
                    read(call, 0), written(call, 0),           {}};
    if (call.bound.writes.size() > 1) dropout.mask = written(call, 1);
    call.kernels.dropout(dropout);
}

void Performer::compute(const plan::DropoutBackward& op, const Call& call) {
    DropoutBackward dropout{op.elements,   dropout_key(call, op.drop), dropout_index(call, op),
                            read(call, 0), written(call, 0),           {}};
    if (call.bound.reads[1].dtype == plan::DType::u8) dropout.mask = read(call, 1);
    call.kernels.dropout_backward(dropout);
}

// A further term of a sum that has none yet is the sum.
void Performer::compute(const plan::Add& op, const Call& call) {
    const std::int64_t elements = op.rows * op.width;
    const Role role = call.written_tensor(0).role;
    if (role == Role::gradient_shard && !call.bound.accumulates)
        call.kernels.cast({elements, read(call, 0), written(call, 0)});
    else
        call.kernels.add({elements, read(call, 0), read(call, 1), written(call, 0)});
}

void Performer::compute(const plan::BiasGradient& op, const Call& call) {
    call.kernels.bias_gradient(
        {op.rows, op.width, read(call, 0), written(call, 0), call.bound.accumulates});
}

void Performer::compute(const plan::Embedding& op, const Call& call) {
    const std::int64_t local = call.read_tensor(1).dims[0];
    call.kernels.embedding({op.rows,
                            op.width,
                            {word_share(op.words) * local, local},
                            op.scale,
                            at<std::int32_t>(call.bound.reads[0]),
                            read(call, 1),
                            written(call, 0)});
}

// Of the vocabulary's table by tokens, of the positions' by rows.
void Performer::compute(const plan::EmbeddingBackward& op, const Call& call) {
    const std::int64_t local = call.written_tensor(0).dims[0];
    EmbeddingBackward embedding;
    embedding.rows = op.rows;
    embedding.width = op.width;
    embedding.dy = read(call, 0);
    embedding.dtable = written(call, 0);
    embedding.accumulate = call.bound.accumulates;
    embedding.scale = op.scale;
    if (call.bound.reads[1].dtype == plan::DType::i32) {
        embedding.part = {word_share(op.words) * local, local};
        embedding.tokens = at<std::int32_t>(call.bound.reads[1]);
    } else {
        embedding.part = {0, local};
        embedding.position_rows = position_rows(op.rows, op.position_offset);
    }
    call.kernels.embedding_backward(embedding);
}

}  // namespace orrery::runtime
