#include "plan/ir/homes.hpp"

#include "plan/ir/check.hpp"

namespace orrery::plan {

Homes::Homes(const Plan& plan, const Program& program) : plan_(plan), program_(program) {
    for (const Step& step : program.steps)
        if (step.action.kind == ActionKind::forward)
            received_[{step.action.stage, step.action.micro_batch}] = step.input;
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
            if (is_received(step, use, tensor))
                return {received_.at({step.action.stage, step.action.micro_batch}), 0};
            return {step.stash, use.position};
        case Role::recomputed:
            return recomputed(step, use.position);
        case Role::scratch:
            return {program_.scratch, 0};
        case Role::input:
        case Role::output:
            break;
    }
    return of_chain(step, use, block, id);
}

Home Homes::of_chain(const Step& step, const BlockUse& use, const Block& block, TensorId id) const {
    const Stage& stage = this->stage(step.action.stage);
    const std::int32_t end = static_cast<std::int32_t>(stage.parts.size()) - 1;
    if (const std::int32_t part = receiving_part(step, use, block, id); part >= 0)
        return step.action.kind == ActionKind::forward ? Home{step.stash, part}
                                                       : recomputed(step, part);
    if (step.action.kind == ActionKind::forward) {
        if (id == block.input) return {frame(use.position), 0};
        if (use.position == end) return {step.output, 0};
        return {frame(use.position + 1), 0};
    }
    if (id == block.input) return {gradient_into(step, stage, use.position), 0};
    return {use.position == 0 ? step.output : gradient_into(step, stage, use.position - 1), 0};
}

std::int32_t Homes::receiving_part(const Step& step, const BlockUse& use, const Block& block,
                                   TensorId id) const {
    const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
    if (tensor.role != Role::input && tensor.role != Role::output) return -1;
    const Stage& stage = this->stage(step.action.stage);
    const std::int32_t next = use.position + 1;
    if (step.action.kind == ActionKind::forward) {
        if (id == block.input || next == static_cast<std::int32_t>(stage.parts.size())) return -1;
        // In the next part's stash, or in a frame where backward does not need it.
        const StagePart& part = stage.parts[static_cast<std::size_t>(next)];
        const Block& forward = plan_.blocks[static_cast<std::size_t>(part.forward)];
        const Tensor& input = forward.tensors[static_cast<std::size_t>(forward.input)];
        return input.role == Role::stash ? next : -1;
    }
    // What runs again hands on to what runs again next.
    const bool again = stage.parts[static_cast<std::size_t>(use.position)].recompute == use.block;
    return again ? next : -1;
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
        const Block& block = plan_.blocks[static_cast<std::size_t>(
            stage.parts[static_cast<std::size_t>(p)].backward)];
        if (block.output != block.input) ++flips;
    }
    return flips == 0 ? step.input : frame(flips);
}

bool Homes::is_received(const Step& step, const BlockUse& use, const Tensor& tensor) const {
    if (use.position != 0 || step.action.stage == 0 || tensor.role != Role::stash) return false;
    const StagePart& part = stage(step.action.stage).parts.front();
    const Block& forward = plan_.blocks[static_cast<std::size_t>(part.forward)];
    return tensor.name == forward.tensors[static_cast<std::size_t>(forward.input)].name;
}

}  // namespace orrery::plan
