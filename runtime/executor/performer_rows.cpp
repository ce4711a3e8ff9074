// Kernels that go over the rows of activations.
#include <algorithm>

#include "plan/ir/check.hpp"
#include "plan/scenario/scenario.hpp"
#include "runtime/executor/performer.hpp"

namespace orrery::runtime {
namespace {

using plan::Role;

// Places of DropoutKey: attention has 1.
constexpr std::uint32_t kOtherPlaces = 2;

std::uint32_t place_of(const std::string& label) {
    if (label == "attention dropout") return kAttentionPlace;
    return label == "fc2" ? kOtherPlaces + 1 : kOtherPlaces;
}

}  // namespace

void Performer::norm(const Call& call) {
    const plan::Model& model = scenario_.model;
    Norm norm{call.shape(0),
              call.shape(1),
              model.layer_norm(),
              model.norm_epsilon,
              model.norm_weight_offset,
              read(call, 0),
              read(call, 1),
              {},
              written(call, 0),
              written(call, 1)};
    if (model.layer_norm()) norm.bias = read(call, 2);
    call.kernels.norm(norm);
}

// Reads dy, x, weight, stats, the residual's gradient where there is one, then the accumulators,
// unless another block adds to them.
void Performer::norm_backward(const Call& call) {
    NormBackward norm;
    norm.rows = call.shape(0);
    norm.width = call.shape(1);
    norm.centred = scenario_.model.layer_norm();
    norm.weight_offset = scenario_.model.norm_weight_offset;
    norm.dy = read(call, 0);
    norm.x = read(call, 1);
    norm.weight = read(call, 2);
    norm.stats = read(call, 3);
    if (call.bound.reads.size() > 4 && call.read_tensor(4).role != Role::gradient)
        norm.residual = read(call, 4);
    norm.dx = written(call, 0);
    norm.dweight = written(call, 1);
    if (call.bound.writes.size() > 2) norm.dbias = written(call, 2);
    norm.accumulate = call.bound.accumulates;
    call.kernels.norm_backward(norm);
}

ActivationForm Performer::activation_form() const {
    const bool erf = scenario_.model.gelu == plan::Gelu::erf;
    switch (scenario_.model.activation) {
        case plan::Activation::gelu:
            return erf ? ActivationForm::gelu_erf : ActivationForm::gelu_tanh;
        case plan::Activation::relu:
            return ActivationForm::relu;
        case plan::Activation::squared_relu:
            return ActivationForm::squared_relu;
        case plan::Activation::swiglu:
            return ActivationForm::swiglu;
        case plan::Activation::geglu:
            break;
    }
    return erf ? ActivationForm::geglu_erf : ActivationForm::geglu_tanh;
}

void Performer::activation(const Call& call) {
    Activation op{activation_form(), call.shape(0), call.shape(1), read(call, 0), written(call, 0)};
    if (call.bound.reads.size() > 1) op.up = read(call, 1);
    call.kernels.activation(op);
}

void Performer::activation_backward(const Call& call) {
    ActivationBackward op{activation_form(), call.shape(0), call.shape(1),
                          read(call, 0),     read(call, 1), written(call, 0)};
    if (call.bound.reads.size() > 2) op.up = read(call, 2);
    call.kernels.activation_backward(op);
}

void Performer::rope(const Call& call, bool backward) {
    const Rope rope{held_shape(), scenario_.model.rotary_dim, inverse_frequencies_,
                    written(call, 0), part_};
    if (backward)
        call.kernels.rope_backward(rope);
    else
        call.kernels.rope(rope);
}

// What an op drops: attention's probabilities, or what a residual adds.
double Performer::dropout_rate(const Call& call) const {
    return place_of(call.bound.op->label) == kAttentionPlace ? scenario_.model.attention_dropout
                                                             : scenario_.model.hidden_dropout;
}

ElementIndex Performer::dropout_index(const Call& call) const {
    if (place_of(call.bound.op->label) != kAttentionPlace)
        return rows_index(call, dims_.sharded_tokens, dims_.hidden);
    const AttentionShape shape = attention_shape();
    const auto map = static_cast<std::uint64_t>(shape.sequence * shape.sequence);
    const auto total = static_cast<std::uint64_t>(scenario_.model.heads);
    const auto head = static_cast<std::uint64_t>(first_head());
    return {(static_cast<std::uint64_t>(first_sample(call)) * total + head) * map,
            static_cast<std::uint64_t>(shape.heads) * map, total * map};
}

void Performer::residual_add(const Call& call) {
    ResidualAdd sum;
    sum.rows = call.shape(0);
    sum.width = call.shape(1);
    sum.branch = read(call, 0);
    std::size_t bias = 0;
    bool drops = false;
    for (std::size_t i = 1; i < call.bound.reads.size(); ++i) {
        const plan::Tensor& tensor = call.read_tensor(i);
        if (tensor.role == Role::scalar)
            drops = true;
        else if (tensor.role != Role::parameter)
            sum.x = read(call, i);
        else if (tensor.dims.size() == 1)
            sum.biases.at(bias++) = read(call, i);
        else
            sum.positions = read(call, i);
    }
    sum.position_rows = {dims_.sequence, first_row(sum.rows), scenario_.model.position_offset,
                         part_};
    sum.y = written(call, 0);
    if (call.bound.writes.size() > 1) sum.mask = written(call, 1);
    if (drops || sum.mask)
        sum.key = dropout_key(call, scenario_.model.hidden_dropout, place_of(call.bound.op->label));
    sum.index = rows_index(call, sum.rows, sum.width);
    call.kernels.residual_add(sum);
}

void Performer::dropout(const Call& call) {
    Dropout dropout{
        call.shape(0),       dropout_key(call, dropout_rate(call), place_of(call.bound.op->label)),
        dropout_index(call), read(call, 0),
        written(call, 0),    {}};
    if (call.bound.writes.size() > 1) dropout.mask = written(call, 1);
    call.kernels.dropout(dropout);
}

void Performer::dropout_backward(const Call& call) {
    DropoutBackward dropout{
        call.shape(0),       dropout_key(call, dropout_rate(call), place_of(call.bound.op->label)),
        dropout_index(call), read(call, 0),
        written(call, 0),    {}};
    if (call.bound.reads[1].dtype == plan::DType::u8) dropout.mask = read(call, 1);
    call.kernels.dropout_backward(dropout);
}

// A further term of a sum that has none yet is the sum.
void Performer::add(const Call& call) {
    const std::int64_t elements = call.bound.writes[0].elements;
    const Role role = call.written_tensor(0).role;
    if (role == Role::gradient_shard && !call.bound.accumulates)
        call.kernels.cast({elements, read(call, 0), written(call, 0)});
    else
        call.kernels.add({elements, read(call, 0), read(call, 1), written(call, 0)});
}

void Performer::bias_gradient(const Call& call) {
    call.kernels.bias_gradient(
        {call.shape(0), call.shape(1), read(call, 0), written(call, 0), call.bound.accumulates});
}

void Performer::embedding(const Call& call) {
    const std::int64_t local = call.read_tensor(1).dims[0];
    call.kernels.embedding({call.shape(0),
                            call.shape(1),
                            {program_.at.tensor * local, local},
                            plan::embedding_scale(scenario_),
                            at<std::int32_t>(call.bound.reads[0]),
                            read(call, 1),
                            written(call, 0)});
}

// Of the vocabulary's table by tokens, of the positions' by rows.
void Performer::embedding_backward(const Call& call) {
    const std::int64_t local = call.written_tensor(0).dims[0];
    EmbeddingBackward embedding;
    embedding.rows = call.shape(0);
    embedding.width = call.shape(1);
    embedding.dy = read(call, 0);
    embedding.dtable = written(call, 0);
    embedding.accumulate = call.bound.accumulates;
    if (call.bound.reads[1].dtype == plan::DType::i32) {
        embedding.part = {program_.at.tensor * local, local};
        embedding.scale = plan::embedding_scale(scenario_);
        embedding.tokens = at<std::int32_t>(call.bound.reads[1]);
    } else {
        embedding.part = {0, local};
        embedding.position_rows = {dims_.sequence, first_row(embedding.rows),
                                   scenario_.model.position_offset, part_};
    }
    call.kernels.embedding_backward(embedding);
}

}  // namespace orrery::runtime
