#include "runtime/executor/performer.hpp"

#include <vector>

#include "plan/check.hpp"
#include "plan/ops/positions.hpp"

namespace orrery::runtime {
namespace {

// What an op would launch is prepared, by its stream's kernels; or by none.
class Preparation final : public Kernels {
  public:
    struct NeedsStep {};  // thrown where the host asks for what a step computes

    explicit Preparation(Kernels* kernels) : kernels_(kernels) {}

    void launch(const KernelRequest& request) override {
        if (kernels_ != nullptr) kernels_->prepare(request);
    }
    void bring(std::span<const std::int32_t>, void*) override {}
    void copy(const void*, void*, std::int64_t) override {}
    const std::int32_t* fetch(std::span<const std::int32_t>) override { throw NeedsStep{}; }
    const void* keep_bytes(std::span<const std::byte>) override {
        ORRERY_CHECK(false, "what requests share is kept when a performer is made");
    }

  private:
    Kernels* kernels_;
};

}  // namespace

Performer::Performer(const BoundProgram& program, Communicator& communicator, std::byte* arena,
                     Kernels& kernels)
    : program_(program),
      communicator_(communicator),
      arena_(arena),
      part_{program.mesh.context, program.at.context, program.tokens.zigzag} {
    for (const BoundOp& bound : program.ops) {
        keep_numbers(bound, kernels);
        keep_runs(bound, kernels);
    }
    if (program.validation.amendment == nullptr) return;
    for (const BoundOp& bound : program.validation.amendment->ops)
        keep_runs(bound, kernels);
}

// Steps of other turns, and what amends one, are ops of the same blocks.
void Performer::keep_numbers(const BoundOp& bound, Kernels& kernels) {
    std::vector<double> numbers;
    const auto add_slopes = [&](double alibi, std::int64_t heads, std::int64_t total) {
        for (std::int64_t head = 0; alibi != 0 && head < heads; ++head)
            numbers.push_back(plan::alibi_slope(total, first_head(heads, total) + head) * alibi);
    };
    std::visit(
        [&](const auto& op) {
            if constexpr (requires { op.theta; })
                numbers = plan::inverse_frequencies(op.rotary_dim, op.theta, op.scaling);
            else if constexpr (requires { op.alibi; })
                add_slopes(op.alibi, op.heads, op.total_heads);
        },
        bound.op->spec);
    if (numbers.empty() || kept_.count(bound.op) > 0) return;
    const auto [place, is_new] = numbers_.try_emplace(numbers, nullptr);
    if (is_new) place->second = kernels.keep(numbers);
    kept_[bound.op] = place->second;
}

const double* Performer::kept(const Call& call) const {
    const auto found = kept_.find(call.bound.op);
    return found == kept_.end() ? nullptr : found->second;
}

void Performer::perform(const BoundOp& bound, const StepInputs& inputs, Kernels& kernels) {
    const Call call{bound, inputs, kernels};
    if (bound.fed_ahead >= 0) feed(call);
    if (plan::is_communication(bound.op->kind())) {
        communicate(call);
    } else if (bound.op->stream != plan::Stream::compute &&
               bound.op->stream != plan::Stream::server) {
        ORRERY_CHECK(bound.op->is<plan::Add>() || bound.op->is<plan::SumSources>() ||
                         bound.op->is<plan::Cast>(),
                     "what runs beside communication is a sum or a copy");
        compute(call);
    } else {
        compute(call);
    }
}

bool Performer::prepare(const BoundOp& bound, Kernels* kernels) {
    if (kernels != nullptr && bound.fed_ahead >= 0) kernels->prepare_bring(bound.fed.elements);
    if (plan::is_communication(bound.op->kind()) || plan::is_copy(bound.op->kind())) return false;
    const StepInputs no_step;
    Preparation preparation(kernels);
    const Call call{bound, no_step, preparation};
    const bool counts = std::exchange(counts_experts_, false);
    bool known = true;
    try {
        compute(call);
    } catch (const Preparation::NeedsStep&) {
        known = false;  // what it launches from here on is known when it runs
    }
    counts_experts_ = counts;
    return known && !call.looked && bound.fed_ahead < 0;
}

void Performer::compute(const Call& call) {
    std::visit(
        [&]<typename Op>(const Op& op) {
            if constexpr (Op::kFamily != plan::OpFamily::communication &&
                          Op::kFamily != plan::OpFamily::copy)
                compute(op, call);
            else
                ORRERY_CHECK(false, "no kernel for " + std::string(name(call.bound.op->kind())));
        },
        call.bound.op->spec);
}

// Eight bits have scales, which are made and read beside them.
void Performer::compute(const plan::Cast& op, const Call& call) {
    Cast cast{op.elements, read(call, 0), written(call, 0)};
    if (call.bound.writes.size() > 1) cast.scales = written(call, 1);
    if (call.bound.reads.size() > 1) cast.scales = read(call, 1);
    call.kernels.cast(cast);
}

// Tokens of a micro-batch go to where the plan has them once the memory is free.
void Performer::feed(const Call& call) {
    const BoundOp& bound = call.bound;
    const std::span<const std::int32_t> all =
        call.step().tokens[static_cast<std::size_t>(bound.fed_ahead)];
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
    return call.step().first_sample +
           (call.bound.micro_batch * program_.mesh.data + program_.at.data) *
               program_.tokens.samples;
}

// Of a range of rows of what this rank holds of the micro-batch: all of them, or this tensor
// rank's.
std::int64_t Performer::first_row(std::int64_t rows) const {
    return rows == held_tokens() ? 0 : program_.at.tensor * rows;
}

ElementIndex Performer::rows_index(const Call& call, std::int64_t rows, std::int64_t width) const {
    const auto index = [&](std::int64_t rows_before) {
        return static_cast<std::uint64_t>(rows_before * width);
    };
    const std::int64_t held = held_sequence(), whole = program_.tokens.sequence;
    const std::int64_t first = first_sample(call) * whole + part_.first_of(0, held);
    if (part_.ranks == 1) return {index(first + first_row(rows)), 0, 0};
    const std::int64_t of_run = held / part_.runs();
    ElementIndex of_part{index(first), index(held), index(whole), index(first_row(rows))};
    if (part_.runs() == 1) return of_part;
    of_part.split = index(of_run);
    of_part.skip = index(part_.first_of(1, held) - part_.first_of(0, held) - of_run);
    return of_part;
}

PositionRows Performer::position_rows(std::int64_t rows, std::int64_t offset) const {
    return {held_sequence(), first_row(rows), offset, part_};
}

DropoutKey Performer::dropout_key(const Call& call, const plan::Drop& drop) const {
    const std::int64_t place = (call.bound.layer + 1) * plan::kDropPlaces + drop.place;
    return {{static_cast<std::uint64_t>(program_.tokens.seed), static_cast<std::uint32_t>(place),
             static_cast<std::uint32_t>(call.step().step)},
            drop.rate};
}

}  // namespace orrery::runtime
