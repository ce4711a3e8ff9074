#include "plan/ir/communicators.hpp"

namespace orrery::plan {
namespace {

std::size_t bit(GroupKind kind) {
    return static_cast<std::size_t>(kind);
}

GroupSet groups_named(const Block& block) {
    GroupSet named;
    for (const Op& op : block.ops)
        if (is_communication(op.kind()) && !op.is<Exchange>()) named.set(bit(op.group));
    return named;
}

}  // namespace

void add_transfer(Communicators& of, std::int32_t rank, std::int32_t peer, std::int32_t ranks) {
    const std::int32_t way = (peer - rank + ranks) % ranks;
    if (ranks > 2 && way == 1)
        of.after = true;
    else if (ranks > 2 && way == ranks - 1)
        of.before = true;
    else
        of.groups.set(bit(GroupKind::pipeline));
}

GroupSet groups_named(const Plan& plan, const Program& program) {
    GroupSet named;
    std::vector<bool> seen(plan.blocks.size());
    for (const Procedure& procedure : program.procedures)
        for (const BlockUse& use : procedure.uses) {
            const auto block = static_cast<std::size_t>(use.block);
            if (!seen[block]) named |= groups_named(plan.blocks[block]);
            seen[block] = true;
        }
    return named;
}

void agree_on_groups(const Mesh& mesh, std::vector<Communicators>& of_programs) {
    GroupSet any;
    for (const Communicators& of : of_programs)
        any |= of.groups;
    GroupSet several, across;
    for (std::size_t kind = 0; kind < kGroupKinds; ++kind)
        several[kind] = mesh.group_size(static_cast<GroupKind>(kind)) > 1;
    for (const GroupKind kind : {GroupKind::pipeline, GroupKind::model, GroupKind::world})
        across.set(bit(kind));
    for (Communicators& of : of_programs)
        of.groups = (of.groups | (any & across)) & several;
    if (any[bit(GroupKind::embedding)])
        for (Communicators* end : {&of_programs.front(), &of_programs.back()})
            end->groups |= several & GroupSet().set(bit(GroupKind::embedding));
}

std::vector<Communicators> communicators_of(const Plan& plan) {
    const auto ranks = static_cast<std::int32_t>(plan.programs.size());
    std::vector<Communicators> all;
    for (const Program& program : plan.programs) {
        Communicators& of = all.emplace_back();
        for (const Step& step : program.steps)
            for (const Transfer& transfer : step.transfers)
                add_transfer(of, program.pipeline_rank, transfer.peer, ranks);
        of.groups |= groups_named(plan, program);
    }
    agree_on_groups(plan.mesh, all);
    return all;
}

}  // namespace orrery::plan
