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
    Resident resident;
    resident.name = std::move(name);
    resident.category = category;
    resident.bytes = bytes;
    resident.first_step = -1;  // persistent, until who binds steps says otherwise
    program.residents.push_back(std::move(resident));
    return static_cast<std::int32_t>(program.residents.size() - 1);
}

std::int32_t ProgramBuilder::add_in_turns(std::string name, MemoryCategory category,
                                          std::int64_t bytes) {
    const std::int32_t id = add_resident(std::move(name), category, bytes);
    program.residents.back().turns = turns();
    return id;
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
