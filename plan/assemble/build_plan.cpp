#include "plan/assemble/build_plan.hpp"

#include <algorithm>
#include <string>

#include "plan/assemble/bind_steps.hpp"
#include "plan/assemble/bind_uses.hpp"
#include "plan/assemble/chosen_schedule.hpp"
#include "plan/assemble/stages.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/memory/arena.hpp"
#include "plan/passes/activation_stash.hpp"
#include "plan/passes/offload.hpp"
#include "plan/passes/passes.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

// What waits for the last backward passes of all stages.
void add_gradient_reduction(ProgramBuilder& builder) {
    const bool overlap = builder.scenario.training.framework.overlap_gradient_reduce;
    for (const Stage& stage : builder.program.stages) {
        std::vector<BlockUse> uses;
        for (std::size_t i = 0; i < builder.program.buckets.size(); ++i)
            if (builder.program.buckets[i].stage == stage.index)
                for (BlockUse use : late_reduce_uses(builder, static_cast<std::int32_t>(i))) {
                    use.fence = uses.empty() && !overlap;
                    uses.push_back(use);
                }
        if (!uses.empty())
            builder.add_step(
                ActionKind::reduce_grad, stage.index,
                builder.add_procedure("reduce " + std::to_string(stage.index), std::move(uses)));
    }
}

// Memory that every program has.
void add_fixed_residents(ProgramBuilder& builder, std::int64_t boundary_bytes) {
    Program& program = builder.program;
    program.workspace = builder.add_resident(
        "workspace", MemoryCategory::workspace,
        static_cast<std::int64_t>(builder.scenario.training.framework.workspace_mb * 1e6));
    program.scalars = builder.add_in_turns("scalars", MemoryCategory::workspace, 0);
    for (std::size_t i = 0; i < program.frames.size(); ++i)
        program.frames[i] = builder.add_resident("frame " + std::to_string(i),
                                                 MemoryCategory::activations, boundary_bytes);
    if (builder.recomputed_bytes > 0)
        program.recomputed = builder.add_resident("recomputed", MemoryCategory::activations,
                                                  builder.recomputed_bytes);
    if (builder.quantized_bytes > 0)
        program.quantized =
            builder.add_resident("quantized", MemoryCategory::parameters, builder.quantized_bytes);
    program.scratch = builder.add_resident("scratch", MemoryCategory::activations, 0);
}

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

void settle_residents(ProgramBuilder& builder) {
    Program& program = builder.program;
    std::int64_t scratch = 0;
    for (const Procedure& procedure : program.procedures)
        for (const BlockUse& use : procedure.uses)
            scratch = std::max(scratch, builder.blocks.block(use.block).scratch_bytes);
    program.residents[static_cast<std::size_t>(program.scratch)].bytes = scratch;
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
                      const std::vector<LoweredStep>& row) {
    const std::int64_t boundary_bytes =
        builder.dims.sharded_tokens * builder.dims.hidden * size_bytes(builder.dims.dtype);
    add_stages(builder, kinds);
    form_buckets(builder);
    add_fixed_residents(builder, boundary_bytes);
    add_rings(builder);
    add_statistics(builder);
    bind_steps(builder, boundary_bytes, row);
    add_gradient_reduction(builder);
    add_tied_reduction(builder);
    add_unscaling(builder);
    add_clipping(builder);
    add_optimizer(builder);
    add_sums(builder);
    release_received(builder);
    offload_states(builder);
    offload_activations(builder);
    drop_unused_procedures(builder.program);
    bind_uses(builder);
    settle_residents(builder);
    return std::move(builder.program);
}

// Which forms of backward a schedule has.
PartForms forms_in(const ActionGrid& grid) {
    PartForms forms{false, false};
    for (const auto& row : grid)
        for (const Action& action : row) {
            forms.whole = forms.whole || action.kind == ActionKind::backward;
            forms.split = forms.split || action.kind == ActionKind::backward_input;
        }
    return forms;
}

}  // namespace

Plan assemble_plan(const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    Plan plan;
    plan.mesh = {layout.tensor_parallel, layout.context_parallel, layout.data_parallel,
                 layout.pipeline_parallel};
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
    auto rows = add_transfers(schedule.grid, schedule.placement, layout.optimizer_post_validation);

    const PartForms forms = forms_in(schedule.grid);
    const std::int32_t head_stage = schedule.placement.stages() - 1;
    if (defers_head_weights(scenario, forms))
        defer_head_weights(rows[static_cast<std::size_t>(schedule.placement.rank_of(head_stage))],
                           head_stage);
    const PartKinds kinds = build_parts(scenario, dims, forms, schedule.placement, blocks);
    for (std::int32_t rank = 0; rank < pipeline; ++rank) {
        ProgramBuilder builder{scenario,  dims,
                               plan.mesh, schedule.placement,
                               blocks,    sharding_of(scenario),
                               {},        {},
                               {},        0,
                               0,         {},
                               {}};
        builder.program.pipeline_rank = rank;
        plan.programs.push_back(
            build_program(std::move(builder), kinds, rows[static_cast<std::size_t>(rank)]));
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

Plan build_plan(const Scenario& scenario) {
    Plan plan = assemble_plan(scenario);
    plan.conserved = conserved_of(scenario);
    plan.conserved.hardware_flops_per_step = executed_flops(plan);
    validate_plan(plan, scenario);
    return plan;
}

}  // namespace orrery::plan
