#include "runtime/executor/performer.hpp"

#include <vector>

#include "plan/ir/check.hpp"
#include "plan/scenario/positions.hpp"
#include "runtime/executor/part_of.hpp"

namespace orrery::runtime {

using plan::OpKind;

Performer::Performer(const BoundProgram& program, const plan::Scenario& scenario,
                     Communicator& communicator, std::byte* arena, Kernels& kernels)
    : program_(program),
      scenario_(scenario),
      communicator_(communicator),
      arena_(arena),
      dims_(plan::dims_of(scenario)),
      part_(part_of(scenario.layout, program.at.context)) {
    const plan::Model& model = scenario.model;
    if (model.rotary()) inverse_frequencies_ = kernels.keep(plan::inverse_frequencies(model));
    if (model.positions == plan::Positions::alibi) {
        std::vector<double> slopes;
        for (std::int64_t head = 0; head < dims_.attended_heads(); ++head)
            slopes.push_back(plan::alibi_slope(model, first_head() + head));
        slopes_ = kernels.keep(slopes);
    }
}

void Performer::perform(const BoundOp& bound, const StepInputs& inputs, Kernels& kernels) {
    const Call call{bound, inputs, kernels};
    if (bound.feed != Feed::none) feed(call);
    if (plan::is_communication(bound.op->kind)) {
        communicate(call);
    } else if (bound.op->stream != plan::Stream::compute &&
               bound.op->stream != plan::Stream::server) {
        ORRERY_CHECK(bound.op->kind == OpKind::add, "what runs beside communication is a sum");
        add(call);
    } else {
        compute(call);
    }
}

void Performer::compute(const Call& call) {
    switch (call.bound.op->kind) {
        case OpKind::gemm:
            return gemm(call);
        case OpKind::batched_gemm:
            return batched_gemm(call);
        case OpKind::attention:
            return attention(call);
        case OpKind::attention_backward:
            return attention_backward(call);
        case OpKind::attention_block:
            return attention_block(call);
        case OpKind::attention_block_backward:
            return attention_block_backward(call);
        case OpKind::rearrange:
            return rearrange(call);
        case OpKind::softmax:
            return softmax(call);
        case OpKind::softmax_backward:
            return softmax_backward(call);
        case OpKind::dropout:
            return dropout(call);
        case OpKind::dropout_backward:
            return dropout_backward(call);
        case OpKind::norm:
            return norm(call);
        case OpKind::norm_backward:
            return norm_backward(call);
        case OpKind::activation:
            return activation(call);
        case OpKind::activation_backward:
            return activation_backward(call);
        case OpKind::rope:
            return rope(call, false);
        case OpKind::rope_backward:
            return rope(call, true);
        case OpKind::residual_add:
            return residual_add(call);
        case OpKind::add:
            return add(call);
        case OpKind::bias_gradient:
            return bias_gradient(call);
        case OpKind::embedding:
            return embedding(call);
        case OpKind::embedding_backward:
            return embedding_backward(call);
        case OpKind::cross_entropy_max:
            return cross_entropy_max(call);
        case OpKind::cross_entropy_sum:
            return cross_entropy_sum(call);
        case OpKind::cross_entropy:
            return cross_entropy(call);
        case OpKind::cross_entropy_backward:
            return cross_entropy_backward(call);
        case OpKind::gradient_norm:
            return gradient_norm(call);
        case OpKind::unscale:
            return unscale(call);
        case OpKind::update_loss_scale:
            return update_loss_scale(call);
        case OpKind::loss_share:
            return loss_share(call);
        case OpKind::judge_loss:
            return judge_loss(call);
        case OpKind::adamw:
            return adamw(call);
        case OpKind::cast:
            return cast(call);
        default:
            ORRERY_CHECK(false, "no kernel for " + std::string(name(call.bound.op->kind)));
    }
}

// Eight bits have scales, which are made and read beside them.
void Performer::cast(const Call& call) {
    Cast cast{call.shape(0), read(call, 0), written(call, 0)};
    if (call.bound.writes.size() > 1) cast.scales = written(call, 1);
    if (call.bound.reads.size() > 1) cast.scales = read(call, 1);
    call.kernels.cast(cast);
}

// Tokens of a micro-batch go to where the plan has them once the memory is free.
void Performer::feed(const Call& call) {
    const BoundOp& bound = call.bound;
    const std::span<const std::int32_t> all =
        bound.feed == Feed::tokens ? call.inputs.tokens : call.inputs.targets;
    const auto count = static_cast<std::size_t>(bound.fed.elements);
    const std::size_t first = static_cast<std::size_t>(bound.micro_batch) * count;
    ORRERY_CHECK(first + count <= all.size(), "the host brought too few tokens");
    call.kernels.bring(all.subspan(first, count), arena_ + bound.fed.offset);
}

Buffer Performer::buffer(const Operand& operand) const {
    return {arena_ + operand.offset, operand.dtype};
}
Buffer Performer::read(const Call& call, std::size_t index) const {
    return buffer(call.bound.reads[index]);
}
Buffer Performer::written(const Call& call, std::size_t index) const {
    return buffer(call.bound.writes[index]);
}

// Micro-batches take samples in turn over the data-parallel ranks, as Megatron-LM's samplers do.
std::int64_t Performer::first_sample(const Call& call) const {
    const plan::Layout& layout = scenario_.layout;
    return call.inputs.first_sample +
           (call.bound.micro_batch * layout.data_parallel + program_.at.data) *
               layout.micro_batch_size;
}

// Of a range of rows of what this rank holds of the micro-batch: all of them, or this tensor
// rank's.
std::int64_t Performer::first_row(std::int64_t rows) const {
    return rows == dims_.tokens ? 0 : program_.at.tensor * rows;
}

ElementIndex Performer::rows_index(const Call& call, std::int64_t rows, std::int64_t width) const {
    const auto index = [&](std::int64_t rows_before) {
        return static_cast<std::uint64_t>(rows_before * width);
    };
    const std::int64_t held = dims_.sequence, whole = held * part_.ranks;
    const std::int64_t first = first_sample(call) * whole + part_.first_of(0, held);
    if (part_.ranks == 1) return {index(first + first_row(rows)), 0, 0};
    const std::int64_t of_run = held / part_.runs();
    ElementIndex of_part{index(first), index(held), index(whole), index(first_row(rows))};
    if (part_.runs() == 1) return of_part;
    of_part.split = index(of_run);
    of_part.skip = index(part_.first_of(1, held) - part_.first_of(0, held) - of_run);
    return of_part;
}

// A site is a place in a layer where something is dropped.
DropoutKey Performer::dropout_key(const Call& call, double p, std::uint32_t place) const {
    constexpr std::uint32_t kPlaces = 4;
    const auto layer = static_cast<std::uint32_t>(call.bound.layer + 1);
    return {{static_cast<std::uint64_t>(scenario_.training.seed), layer * kPlaces + place,
             static_cast<std::uint32_t>(call.inputs.step)},
            p};
}

}  // namespace orrery::runtime
