#include "plan/ir/homes.hpp"

#include "plan/check.hpp"

namespace orrery::plan {

Homes::Homes(const Plan& plan, const Program& program) : plan_(plan), program_(program) {
    for (const Step& step : program.steps) {
        const Key key{step.action.stage, step.action.micro_batch};
        if (step.action.kind == ActionKind::forward) received_[key] = step.input;
        if (step.action.kind == ActionKind::fetch && step.output >= 0) fetched_[key] = step.output;
    }
}

const Stage& Homes::stage(std::int32_t index) const {
    for (const Stage& stage : program_.stages)
        if (stage.index == index) return stage;
    ORRERY_CHECK(false, "stage of another rank");
    return program_.stages.front();
}

const Bucket& Homes::bucket_of(const BlockUse& use) const {
    ORRERY_CHECK(use.bucket >= 0, "a block that touches parameters has a bucket");
    return program_.buckets[static_cast<std::size_t>(use.bucket)];
}

std::int32_t Homes::bucket_state(const BlockUse& use, Role role) const {
    const Bucket& bucket = bucket_of(use);
    if (role == Role::parameter) return use.gathered >= 0 ? use.gathered : bucket.parameters;
    if (role == Role::gradient) return use.reducing >= 0 ? use.reducing : bucket.gradients;
    return bucket.optimizer;
}

Home Homes::of(const Step& step, const BlockUse& use, const Block& block, TensorId id) const {
    const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
    switch (tensor.role) {
        case Role::parameter:
        case Role::gradient:
        case Role::optimizer:
            return {bucket_state(use, tensor.role), 0};
        case Role::parameter_shard:
            return {bucket_of(use).parameters, 0};
        case Role::gradient_shard:
            return {bucket_of(use).gradients, 0};
        case Role::scalar:
            return {program_.scalars, 0};
        case Role::stash:
            if (is_received(step, use, tensor)) return {received(step), 0};
            return area(step, use.position, tensor.role);
        case Role::deferred:
            if (is_received(step, use, tensor)) return {step.input, 0};
            return area(step, use.position, tensor.role);
        case Role::recomputed:
        case Role::kept:
            return area(step, use.position, tensor.role);
        case Role::scratch:
            return {program_.scratch, 0};
        case Role::quantized:
            return {program_.quantized, 0};
        case Role::source:
        case Role::target:
            return of_copy(step, use, tensor.role);
        case Role::input:
        case Role::output:
            break;
    }
    return of_chain(step, use, block, id);
}

// Of a part's own tensors that outlive a block.
Home Homes::area(const Step& step, std::int32_t position, Role role) const {
    if (role == Role::recomputed) return recomputed(step, position);
    if (role == Role::kept) return {step.kept, position};
    return {role == Role::deferred ? step.deferred : step.stash, position};
}

std::int32_t Homes::received(const Step& step) const {
    const Key key{step.action.stage, step.action.micro_batch};
    const auto again = fetched_.find(key);
    const bool forward = step.action.kind == ActionKind::forward;
    return forward || again == fetched_.end() ? received_.at(key) : again->second;
}

// Offloading takes from the stash what fetching puts there.
Home Homes::of_copy(const Step& step, const BlockUse& use, Role role) const {
    const std::int32_t said = role == Role::source ? use.from : use.to;
    if (said >= 0) return {said, 0};
    if (use.position < 0) return {role == Role::source ? step.input : step.output, 0};
    const bool away =
        step.action.kind == ActionKind::offload || step.action.kind == ActionKind::spill;
    return {away == (role == Role::source) ? step.stash : step.stored, use.position};
}

Home Homes::of_chain(const Step& step, const BlockUse& use, const Block& block, TensorId id) const {
    if (const auto landed = landing(step, use, block, id))
        return area(step, landed->part, landed->role);
    const Stage& stage = this->stage(step.action.stage);
    const std::int32_t end = static_cast<std::int32_t>(stage.parts.size()) - 1;
    if (step.action.kind == ActionKind::forward) {
        if (id == block.input) return {use.position == 0 ? step.input : frame(use.position), 0};
        if (use.position == end) return {step.output, 0};
        return {frame(use.position + 1), 0};
    }
    if (id == block.input) return {gradient_into(step, stage, use.position), 0};
    return {use.position == 0 ? step.output : gradient_into(step, stage, use.position - 1), 0};
}

std::optional<Homes::Landing> Homes::landing(const Step& step, const BlockUse& use,
                                             const Block& block, TensorId id) const {
    const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
    if (tensor.role != Role::input && tensor.role != Role::output) return std::nullopt;
    const Stage& stage = this->stage(step.action.stage);
    auto part = [&](std::int32_t position) -> const StagePart& {
        return stage.parts[static_cast<std::size_t>(position)];
    };
    // The input of a part's block, where it has one and keeps it in an area of its own.
    auto own_input = [](std::int32_t position, const Block& into) -> std::optional<Landing> {
        if (into.input < 0) return std::nullopt;
        const Tensor& input = into.tensors[static_cast<std::size_t>(into.input)];
        if (input.role == Role::input) return std::nullopt;
        return Landing{position, input.role, input.name};
    };
    if (step.action.kind == ActionKind::forward) {
        const std::int32_t next = use.position + 1;
        if (id == block.input || next == static_cast<std::int32_t>(stage.parts.size()))
            return std::nullopt;
        // In the next part's stash, or in a frame where backward does not need it.
        return own_input(next, this->block(part(next).forward));
    }
    if (part(use.position).recompute == use.block) {  // hands on to what runs again next
        const Block& next = this->block(part(use.position + 1).forward);
        return Landing{use.position + 1, Role::recomputed,
                       next.tensors[static_cast<std::size_t>(next.input)].name};
    }
    if (id == block.input || use.position == 0) return std::nullopt;
    return own_input(use.position - 1, chain_block(step, part(use.position - 1)));
}

const Block& Homes::chain_block(const Step& step, const StagePart& part) const {
    const bool whole = step.action.kind == ActionKind::backward || part.backward_input < 0;
    return block(whole ? part.backward : part.backward_input);
}

// Of the part's place in its group: layers are alike, so that groups overlay place by place.
Home Homes::recomputed(const Step& step, std::int32_t position) const {
    const Stage& stage = this->stage(step.action.stage);
    std::int32_t place = 0;
    while (place < position &&
           stage.parts[static_cast<std::size_t>(position - place - 1)].recompute >= 0)
        ++place;
    return {program_.recomputed, place};
}

std::int32_t Homes::frame(std::int32_t number) const {
    return program_.frames[static_cast<std::size_t>(number) % 2];
}

// Where the part at `position` finds the gradient of its output: what the stage received, until a
// part makes another of it, then a frame.
std::int32_t Homes::gradient_into(const Step& step, const Stage& stage,
                                  std::int32_t position) const {
    std::int32_t flips = 0;
    for (auto p = static_cast<std::int32_t>(stage.parts.size()); p-- > position + 1;) {
        const Block& passed = chain_block(step, stage.parts[static_cast<std::size_t>(p)]);
        if (passed.output != passed.input) ++flips;
    }
    return flips == 0 ? step.input : frame(flips);
}

bool Homes::is_received(const Step& step, const BlockUse& use, const Tensor& tensor) const {
    const Stage& stage = this->stage(step.action.stage);
    auto is_input_of = [&](const Block& block) {
        return block.input >= 0 &&
               tensor.name == block.tensors[static_cast<std::size_t>(block.input)].name;
    };
    if (tensor.role == Role::stash)
        return use.position == 0 && step.action.stage > 0 &&
               is_input_of(block(stage.parts.front().forward));
    return tensor.role == Role::deferred &&
           use.position + 1 == static_cast<std::int32_t>(stage.parts.size()) &&
           is_input_of(chain_block(step, stage.parts.back()));
}

}  // namespace orrery::plan
