#include "plan/passes/program_builder.hpp"

#include "plan/memory/arena.hpp"

namespace orrery::plan {

std::int32_t BlockLibrary::add(Block block) {
    plan_scratch(block);
    for (std::size_t i = 0; i < blocks_.size(); ++i)
        if (blocks_[i] == block) return static_cast<std::int32_t>(i);
    blocks_.push_back(std::move(block));
    return static_cast<std::int32_t>(blocks_.size() - 1);
}

std::int32_t ProgramBuilder::add_resident(std::string name, MemoryCategory category,
                                          std::int64_t bytes) {
    Resident& resident = program.residents.emplace_back();
    resident.name = std::move(name);
    resident.category = category;
    resident.bytes = bytes;
    resident.first_step = -1;  // persistent, until who binds steps says otherwise
    return static_cast<std::int32_t>(program.residents.size() - 1);
}

std::int32_t ProgramBuilder::add_in_turns(std::string name, MemoryCategory category,
                                          std::int64_t bytes) {
    const std::int32_t id = add_resident(std::move(name), category, bytes);
    program.residents.back().turns = turns();
    return id;
}

std::size_t ProgramBuilder::chunk(std::int32_t stage_index) const {
    std::size_t chunk = 0;
    while (program.stages[chunk].index != stage_index)
        ++chunk;
    return chunk;
}

std::int32_t ProgramBuilder::other_bucket(const BlockUse& use) const {
    if (use.position < 0 || use.bucket < 0) return -1;
    const Stage& stage = program.stages[chunk(bucket(use.bucket).stage)];
    return stage.parts[static_cast<std::size_t>(use.position)].other_bucket;
}

std::int32_t ProgramBuilder::bucket_of(const BlockUse& use, const Tensor& tensor) const {
    const std::int32_t other = other_bucket(use);
    if (other < 0) return use.bucket;
    const Stage& stage = program.stages[chunk(bucket(use.bucket).stage)];
    const Block& forward =
        blocks.block(stage.parts[static_cast<std::size_t>(use.position)].forward);
    for (const DeclaredParameter& declared : forward.parameters)
        if (forward.tensors[static_cast<std::size_t>(declared.tensor)].name == tensor.name)
            return bucket(other).takes(declared.spec) ? other : use.bucket;
    return use.bucket;
}

void ProgramBuilder::place_of_bucket(BlockUse& use, Role role, std::int32_t of,
                                     std::int32_t resident) const {
    const std::vector<Tensor>& tensors = blocks.block(use.block).tensors;
    use.slots.resize(tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t)
        if (tensors[t].role == role && bucket_of(use, tensors[t]) == of)
            use.slots[t] = {Frame::resident, resident};
}

void ProgramBuilder::place(BlockUse& use, Role role, std::int32_t resident) const {
    const std::vector<Tensor>& tensors = blocks.block(use.block).tensors;
    use.slots.resize(tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t)
        if (tensors[t].role == role) use.slots[t] = {Frame::resident, resident};
}

std::int32_t ProgramBuilder::state_of(const BlockUse& use, TensorId tensor) const {
    const auto t = static_cast<std::size_t>(tensor);
    if (use.bucket < 0) return -1;
    switch (blocks.block(use.block).tensors[t].role) {
        case Role::parameter:
        case Role::parameter_shard:
            if (t < use.slots.size() && use.slots[t].resident >= 0) return use.slots[t].resident;
            return bucket(bucket_of(use, blocks.block(use.block).tensors[t])).parameters;
        case Role::gradient:
        case Role::source_gradient:
        case Role::gradient_shard:
            if (t < use.slots.size() && use.slots[t].resident >= 0) return use.slots[t].resident;
            return bucket(bucket_of(use, blocks.block(use.block).tensors[t])).gradients;
        case Role::optimizer:
            return bucket(use.bucket).optimizer;
        default:
            return -1;
    }
}

std::int32_t ProgramBuilder::add_procedure(std::string name, std::vector<BlockUse> uses) {
    program.procedures.push_back({std::move(name), std::move(uses)});
    return static_cast<std::int32_t>(program.procedures.size() - 1);
}

void ProgramBuilder::add_step(ActionKind kind, std::int32_t stage, std::int32_t procedure) {
    Step step;
    step.action = {stage, kind, -1};
    step.procedure = procedure;
    program.steps.push_back(std::move(step));
}

}  // namespace orrery::plan
