#include "plan/assemble/build_plan.hpp"

#include <algorithm>
#include <string>

#include "plan/assemble/bind_steps.hpp"
#include "plan/assemble/bind_uses.hpp"
#include "plan/assemble/chosen_schedule.hpp"
#include "plan/assemble/stages.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/memory/arena.hpp"
#include "plan/passes/pass_table.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

// What no step runs: the forward pass of a step that has the first micro-batch's alone.
void drop_unused_procedures(Program& program) {
    std::vector<std::int32_t> now(program.procedures.size(), -1);
    for (const Step& step : program.steps)
        if (step.procedure >= 0) now[static_cast<std::size_t>(step.procedure)] = 0;
    if (program.amendment >= 0) now[static_cast<std::size_t>(program.amendment)] = 0;
    std::vector<Procedure> used;
    for (std::size_t p = 0; p < now.size(); ++p) {
        if (now[p] < 0) continue;
        now[p] = static_cast<std::int32_t>(used.size());
        used.push_back(std::move(program.procedures[p]));
    }
    program.procedures = std::move(used);
    for (Step& step : program.steps)
        if (step.procedure >= 0) step.procedure = now[static_cast<std::size_t>(step.procedure)];
    if (program.amendment >= 0)
        program.amendment = now[static_cast<std::size_t>(program.amendment)];
}

// Of blocks of steps that are beside another, or of the others.
std::int64_t most_scratch(ProgramBuilder& builder, bool beside) {
    const Program& program = builder.program;
    std::int64_t most = 0;
    const auto look_at = [&](std::int32_t procedure) {
        if (procedure < 0) return;
        for (const BlockUse& use : program.procedures[static_cast<std::size_t>(procedure)].uses)
            most = std::max(most, builder.blocks.block(use.block).scratch_bytes);
    };
    for (const Step& step : program.steps)
        if (step.beside_last == beside) look_at(step.procedure);
    if (!beside) look_at(program.amendment);
    return most;
}

// What either of two steps that are issued in turns touches is there for both.
void share_lifetimes(Program& program) {
    for (std::size_t s = 1; s < program.steps.size(); ++s) {
        if (!program.steps[s].beside_last) continue;
        const auto second = static_cast<std::int32_t>(s);
        for (Resident& resident : program.residents) {
            if (resident.first_step == second) resident.first_step = second - 1;
            if (resident.last_step == second - 1) resident.last_step = second;
        }
    }
}

void settle_residents(ProgramBuilder& builder) {
    Program& program = builder.program;
    program.residents[static_cast<std::size_t>(program.scratch)].bytes =
        most_scratch(builder, false);
    if (program.beside_scratch >= 0)
        program.residents[static_cast<std::size_t>(program.beside_scratch)].bytes =
            most_scratch(builder, true);
    share_lifetimes(program);
    program.residents[static_cast<std::size_t>(program.scalars)].bytes =
        std::max(kAlignment, aligned(scalar_offsets(builder.blocks.blocks(), program).at("")));
    const auto last = static_cast<std::int32_t>(program.steps.size()) - 1;
    for (Resident& resident : program.residents)
        if (resident.first_step < 0) {  // persistent
            resident.first_step = 0;
            resident.last_step = last;
        }
    for (Resident& resident : program.residents)
        if (resident.turns > 1) resident.bytes = aligned(resident.bytes) * resident.turns;
    plan_arena(program);
}

Program build_program(ProgramBuilder builder, const PartKinds& kinds,
                      std::vector<LoweredStep> row) {
    const ChosenPasses& passes = builder.passes;
    passes.run<OverSchedule>(builder.placement, builder.program.pipeline_rank, row);
    add_stages(builder, kinds);
    passes.run<OverStages>(builder);
    bind_steps(builder, row);
    passes.run<OverSteps>(builder);
    drop_unused_procedures(builder.program);
    bind_uses(builder);
    settle_residents(builder);
    return std::move(builder.program);
}

}  // namespace

Plan assemble_plan(const Scenario& scenario) {
    PlanParts parts;
    return assemble_plan(scenario, parts);
}

Plan assemble_plan(const Scenario& scenario, PlanParts& parts, Slots slots) {
    const Layout& layout = scenario.layout;
    Plan plan;
    plan.mesh = {layout.tensor_parallel, layout.context_parallel, layout.data_parallel,
                 layout.pipeline_parallel};
    if (scenario.model.has_experts()) {
        plan.mesh.expert = layout.expert_parallel * layout.expert_tensor_parallel;
        plan.mesh.expert_split = layout.expert_tensor_parallel;
    }
    if (layout.zero_ranks() > 1 && layout.zero_ranks() < layout.data_ranks())
        plan.mesh.shard = layout.zero_ranks();
    plan.tokens = {layout.micro_batch_size, scenario.training.sequence_length,
                   layout.balances_context(), scenario.training.seed};
    plan.micro_batches = static_cast<std::int32_t>(layout.micro_batches());
    plan.schedule = layout.schedule;
    const Dims dims = dims_of(scenario);
    BlockLibrary blocks;
    plan.exchange_block = blocks.add(exchange_block(scenario, dims, Stream::pipeline_comm));
    // Of two ranks each is the other's only peer.
    const bool apart = scenario.training.framework.transfer_streams == TransferStreams::per_peer &&
                       !blocks_on_transfers(scenario) && plan.mesh.pipeline > 2;
    if (apart)
        plan.exchange_before =
            blocks.add(exchange_block(scenario, dims, Stream::pipeline_before_comm));
    const auto pipeline = static_cast<std::int32_t>(layout.pipeline_parallel);
    const Schedule schedule = chosen_schedule(layout);
    auto rows = add_transfers(schedule.grid, schedule.placement, layout.optimizer_post_validation,
                              layout.overlap_expert_communication);

    const Sharding sharding = sharding_of(scenario);
    const bool copied = plan.mesh.group_size(GroupKind::expert_shard) > 1;
    const PlanInput input{scenario, dims, forms_in(schedule.grid), sharding,
                          copied ? sharding : Sharding{}};
    const ChosenPasses passes(input);
    const PartKinds& kinds = parts.move_into(blocks, input, passes, schedule.placement);
    for (std::int32_t rank = 0; rank < pipeline; ++rank) {
        ProgramBuilder builder{scenario,
                               dims,
                               plan.mesh,
                               schedule.placement,
                               blocks,
                               passes,
                               input.sharding,
                               slots,
                               {},
                               {},
                               {},
                               0,
                               0,
                               {},
                               {}};
        builder.program.pipeline_rank = rank;
        plan.programs.push_back(build_program(std::move(builder), kinds,
                                              std::move(rows[static_cast<std::size_t>(rank)])));
    }
    for (const Tensor& statistic : statistics_of(scenario)) {
        plan.statistics.push_back(blocks.add(statistic_exchange(statistic, Stream::pipeline_comm)));
        if (apart)
            plan.statistics_before.push_back(
                blocks.add(statistic_exchange(statistic, Stream::pipeline_before_comm)));
    }
    plan.blocks = blocks.take();
    return plan;
}

void complete_plan(Plan& plan, const Scenario& scenario) {
    plan.conserved = conserved_of(scenario);
    plan.conserved.hardware_flops_per_step = executed_flops(plan);
    validate_plan(plan, scenario);
}

Plan build_plan(const Scenario& scenario) {
    Plan plan = assemble_plan(scenario);
    complete_plan(plan, scenario);
    return plan;
}

}  // namespace orrery::plan
