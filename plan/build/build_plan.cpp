#include "plan/build/build_plan.hpp"

#include <algorithm>

#include "plan/build/validate_plan.hpp"
#include "plan/ir/check.hpp"
#include "plan/memory/arena.hpp"
#include "plan/passes/passes.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

struct PartKinds {
    PartKind embedding;
    PartKind positions;  // where the model learns positions
    PartKind layer;
    PartKind final_norm;
    PartKind head;
};

PartKind add_pair(BlockLibrary& blocks, BlockPair pair, bool overlap) {
    if (!overlap) serialise_tensor_communication(pair.backward);
    const StashArea area = stash_area(pair.forward);
    PartKind kind;
    kind.stash_bytes = area.bytes;
    if (pair.forward.input >= 0) {
        const auto input = static_cast<std::size_t>(pair.forward.input);
        ORRERY_CHECK(area.offsets[input] <= 0, "what is handed in lies first in the stash");
        if (area.offsets[input] == 0)
            kind.input_bytes = aligned(pair.forward.tensors[input].bytes());
    }
    kind.parameters = pair.parameters;
    kind.replicated = pair.replicated;
    kind.forward = blocks.add(std::move(pair.forward));
    kind.backward = blocks.add(std::move(pair.backward));
    return kind;
}

PartKinds build_parts(const Scenario& scenario, const Dims& dims, BlockLibrary& blocks) {
    const Framework& framework = scenario.training.framework;
    const DType gradient = framework.gradient_bytes == 4 ? DType::fp32 : DType::bf16;
    auto add = [&](ForwardBlock forward, bool recompute_all) {
        return add_pair(blocks, derive_backward(std::move(forward), gradient, recompute_all),
                        framework.overlap_tensor_backward);
    };
    ForwardBlock layer = layer_forward(scenario, dims);
    if (scenario.layout.recompute == Recompute::selective) recompute_attention_core(layer);
    PartKinds kinds;
    kinds.embedding = add(embedding_forward(dims), false);
    if (scenario.model.learned_positions())
        kinds.positions = add(positions_forward(scenario, dims), false);
    kinds.layer = add(std::move(layer), scenario.layout.recompute == Recompute::full);
    kinds.final_norm = add(final_norm_forward(scenario, dims), false);
    kinds.head = add(head_forward(scenario, dims), false);
    kinds.embedding.tied = kinds.head.tied = scenario.model.tied_embeddings;
    kinds.head.held_before = kinds.head.tied && scenario.layout.pipeline_parallel == 1;
    return kinds;
}

// Elements of one transfer between stages.
std::int64_t boundary_elements(const Scenario& scenario, const Dims& dims) {
    const std::int64_t elements = dims.sharded_tokens * dims.hidden;
    return scatters_transfers(scenario, dims) ? elements / dims.tensor : elements;
}

Block exchange_block(const Scenario& scenario, const Dims& dims) {
    Block block;
    block.name = "exchange";
    Op op;
    op.kind = OpKind::exchange;
    op.group = GroupKind::pipeline;
    op.stream = Stream::pipeline_comm;
    op.dtype = dims.dtype;
    op.shape[0] = boundary_elements(scenario, dims);
    op.label = "boundary";
    block.ops.push_back(op);
    return block;
}

void add_stages(ProgramBuilder& builder, const PartKinds& kinds) {
    const Layout& layout = builder.scenario.layout;
    const auto stages = static_cast<std::int32_t>(layout.stages());
    std::int32_t first_layer = 0;
    for (std::int32_t s = 0; s < stages; ++s) {
        const auto layers =
            static_cast<std::int32_t>(layout.layers_per_stage[static_cast<std::size_t>(s)]);
        const std::int32_t end = first_layer + layers;
        if (owner(s, static_cast<std::int32_t>(layout.pipeline_parallel)) ==
            builder.program.pipeline_rank) {
            Stage stage;
            stage.index = s;
            std::vector<PartKind> parts;
            auto add = [&](const PartKind& kind, std::int32_t layer) {
                const std::int64_t received = s > 0 && parts.empty() ? kind.input_bytes : 0;
                stage.parts.push_back({kind.forward, kind.backward, layer, stage.stash_bytes, -1});
                stage.stash_bytes += kind.stash_bytes - received;
                parts.push_back(kind);
            };
            if (s == 0) add(kinds.embedding, -1);
            if (s == 0 && kinds.positions.forward >= 0) add(kinds.positions, -1);
            for (std::int32_t layer = first_layer; layer < end; ++layer)
                add(kinds.layer, layer);
            if (s == stages - 1) add(kinds.final_norm, -1);
            if (s == stages - 1) add(kinds.head, -1);
            builder.program.stages.push_back(std::move(stage));
            builder.part_kinds.push_back(std::move(parts));
        }
        first_layer = end;
    }
}

BlockUse use_of(const StagePart& part, std::size_t position, bool forward) {
    BlockUse use;
    use.block = forward ? part.forward : part.backward;
    use.layer = part.layer;
    use.position = static_cast<std::int32_t>(position);
    use.bucket = part.bucket;
    return use;
}

// What the actions of a stage expand to.
struct StageProcedures {
    std::int32_t forward = -1;
    std::int32_t backward = -1;
    std::int32_t last_backward = -1;  // of the last micro-batch: gradients are complete after it
};

std::vector<BlockUse> backward_uses(ProgramBuilder& builder, const Stage& stage, bool last) {
    const bool overlap = builder.scenario.training.framework.overlap_gradient_reduce;
    const bool reduces = builder.zero() >= 2 || (last && overlap);
    std::vector<BlockUse> uses;
    for (std::size_t p = stage.parts.size(); p-- > 0;) {
        const StagePart& part = stage.parts[p];
        uses.push_back(use_of(part, p, false));
        const Bucket bucket = builder.bucket(part.bucket);
        if (bucket.first_position != static_cast<std::int32_t>(p)) continue;
        // Both gradients of a tied embedding are complete once the table's own is; shards are
        // added after the reduction, whole gradients before.
        const bool tied_add = last && stage.index == 0 && p == 0;
        if (tied_add && builder.zero() < 2)
            for (const BlockUse& use : tied_add_uses(builder))
                uses.push_back(use);
        if (reduces)
            for (BlockUse use : reduce_uses(builder, part.bucket)) {
                use.fence = !overlap;
                uses.push_back(use);
            }
        if (tied_add && builder.zero() >= 2)
            for (const BlockUse& use : tied_add_uses(builder))
                uses.push_back(use);
    }
    return uses;
}

StageProcedures add_procedures(ProgramBuilder& builder, const Stage& stage) {
    const std::string suffix = std::to_string(stage.index);
    std::vector<BlockUse> forward;
    for (std::size_t p = 0; p < stage.parts.size(); ++p)
        forward.push_back(use_of(stage.parts[p], p, true));
    std::vector<BlockUse> backward = backward_uses(builder, stage, false);
    std::vector<BlockUse> last = backward_uses(builder, stage, true);
    if (scatters_transfers(builder.scenario, builder.dims)) {
        const bool first = stage.index == 0;
        const bool final =
            stage.index + 1 == static_cast<std::int32_t>(builder.scenario.layout.stages());
        if (!first) forward.insert(forward.begin(), gather_received(builder, stage, true));
        for (auto* uses : {&backward, &last})
            if (!final) uses->insert(uses->begin(), gather_received(builder, stage, false));
    }
    insert_rings(builder, forward, Phase::forward);
    insert_rings(builder, backward, Phase::backward);
    insert_rings(builder, last, Phase::backward);
    StageProcedures procedures;
    procedures.forward = builder.add_procedure("forward " + suffix, std::move(forward));
    procedures.last_backward = builder.add_procedure("last backward " + suffix, std::move(last));
    procedures.backward = builder.scenario.layout.micro_batches() > 1
                              ? builder.add_procedure("backward " + suffix, std::move(backward))
                              : procedures.last_backward;
    return procedures;
}

// Binds the schedule's steps to procedures and memory.
class StepBinder {
  public:
    StepBinder(ProgramBuilder& builder, std::int64_t boundary_bytes)
        : builder_(builder),
          boundary_bytes_(boundary_bytes),
          transfer_bytes_(boundary_elements(builder.scenario, builder.dims) *
                          size_bytes(builder.dims.dtype)) {
        for (const Stage& stage : builder.program.stages)
            procedures_[stage.index] = add_procedures(builder, stage);
    }

    void add(const LoweredStep& lowered) {
        Step step;
        step.action = lowered.actions.front();
        if (is_transfer(step.action.kind))
            for (const Action& action : lowered.actions)
                add_transfer(step, action);
        else if (step.action.kind == ActionKind::forward)
            bind_forward(step);
        else
            bind_backward(step);
        builder_.program.steps.push_back(std::move(step));
    }

  private:
    using Key = std::pair<std::int32_t, std::int32_t>;  // stage, micro-batch

    static Key key(const Action& action) { return {action.stage, action.micro_batch}; }
    std::int32_t now() const { return static_cast<std::int32_t>(builder_.program.steps.size()); }
    Resident& resident(std::int32_t id) {
        return builder_.program.residents[static_cast<std::size_t>(id)];
    }
    bool last_stage(std::int32_t stage) const {
        return stage == static_cast<std::int32_t>(builder_.scenario.layout.stages()) - 1;
    }

    std::int32_t born(const std::string& name, const Action& action, MemoryCategory category,
                      std::int64_t bytes) {
        const std::int32_t id =
            builder_.add_resident(name + " " + to_text(action), category, bytes);
        resident(id).first_step = now();
        resident(id).last_step = now();
        return id;
    }

    std::int64_t stash_bytes(std::int32_t stage_index) const {
        for (const Stage& stage : builder_.program.stages)
            if (stage.index == stage_index) return stage.stash_bytes;
        return 0;
    }

    void bind_forward(Step& step) {
        const Action& action = step.action;
        step.procedure = procedures_.at(action.stage).forward;
        step.stash = stash_[key(action)] =
            born("stash", action, MemoryCategory::activations, stash_bytes(action.stage));
        if (action.stage > 0) step.input = received_f_.at(key(action));
        if (!last_stage(action.stage))
            step.output = sending_f_[key(action)] =
                born("sending", action, MemoryCategory::communication, boundary_bytes_);
    }

    void bind_backward(Step& step) {
        const Action& action = step.action;
        const bool last = action.micro_batch ==
                          static_cast<std::int32_t>(builder_.scenario.layout.micro_batches()) - 1;
        const StageProcedures& procedures = procedures_.at(action.stage);
        step.procedure = last ? procedures.last_backward : procedures.backward;
        step.stash = stash_.at(key(action));
        resident(step.stash).last_step = now();
        if (action.stage > 0) resident(received_f_.at(key(action))).last_step = now();
        if (!last_stage(action.stage)) {
            step.input = received_b_.at(key(action));
            resident(step.input).last_step = now();
        }
        if (action.stage > 0)
            step.output = sending_b_[key(action)] =
                born("sending", action, MemoryCategory::communication, boundary_bytes_);
    }

    void add_transfer(Step& step, const Action& action) {
        Transfer transfer;
        transfer.action = action;
        const bool to_next = action.kind == ActionKind::send_f || action.kind == ActionKind::recv_b;
        transfer.peer = owner(action.stage + (to_next ? 1 : -1),
                              static_cast<std::int32_t>(builder_.mesh.pipeline));
        transfer.bytes = transfer_bytes_;
        switch (action.kind) {
            case ActionKind::send_f:
                transfer.resident = sending_f_.at(key(action));
                break;
            case ActionKind::send_b:
                transfer.resident = sending_b_.at(key(action));
                break;
            case ActionKind::recv_f:  // kept for backward, hence an activation
                transfer.resident = received_f_[key(action)] =
                    born("received", action, MemoryCategory::activations, boundary_bytes_);
                break;
            default:
                transfer.resident = received_b_[key(action)] =
                    born("received", action, MemoryCategory::communication, boundary_bytes_);
        }
        resident(transfer.resident).last_step =
            std::max(resident(transfer.resident).last_step, now());
        step.transfers.push_back(transfer);
    }

    ProgramBuilder& builder_;
    std::int64_t boundary_bytes_;  // of a whole boundary activation: what a buffer holds
    std::int64_t transfer_bytes_;  // of what one rank sends of it
    std::map<std::int32_t, StageProcedures> procedures_;
    std::map<Key, std::int32_t> stash_, sending_f_, sending_b_, received_f_, received_b_;
};

void add_gradient_reduction(ProgramBuilder& builder) {
    if (builder.scenario.training.framework.overlap_gradient_reduce || builder.zero() >= 2) return;
    for (const Stage& stage : builder.program.stages) {
        std::vector<BlockUse> uses;
        for (std::size_t i = 0; i < builder.program.buckets.size(); ++i)
            if (builder.program.buckets[i].stage == stage.index)
                for (BlockUse use : reduce_uses(builder, static_cast<std::int32_t>(i))) {
                    use.fence = uses.empty();
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
    program.scalars = builder.add_resident("scalars", MemoryCategory::workspace, kAlignment);
    for (std::size_t i = 0; i < program.frames.size(); ++i)
        program.frames[i] = builder.add_resident("frame " + std::to_string(i),
                                                 MemoryCategory::activations, boundary_bytes);
    program.scratch = builder.add_resident("scratch", MemoryCategory::activations, 0);
}

void settle_residents(ProgramBuilder& builder) {
    Program& program = builder.program;
    std::int64_t scratch = 0;
    for (const Procedure& procedure : program.procedures)
        for (const BlockUse& use : procedure.uses)
            scratch = std::max(scratch, builder.blocks.block(use.block).scratch_bytes);
    program.residents[static_cast<std::size_t>(program.scratch)].bytes = scratch;
    const auto last = static_cast<std::int32_t>(program.steps.size()) - 1;
    for (Resident& resident : program.residents)
        if (resident.first_step < 0) {  // persistent
            resident.first_step = 0;
            resident.last_step = last;
        }
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
    StepBinder binder(builder, boundary_bytes);
    for (const LoweredStep& step : row)
        binder.add(step);
    add_gradient_reduction(builder);
    add_tied_reduction(builder);
    add_clipping(builder);
    add_optimizer(builder);
    settle_residents(builder);
    return std::move(builder.program);
}

}  // namespace

Plan build_plan(const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    Plan plan;
    plan.mesh = {layout.tensor_parallel, layout.context_parallel, layout.data_parallel,
                 layout.pipeline_parallel};
    plan.micro_batches = static_cast<std::int32_t>(layout.micro_batches());
    plan.schedule = layout.schedule;
    const Dims dims = dims_of(scenario);
    BlockLibrary blocks;
    plan.exchange_block = blocks.add(exchange_block(scenario, dims));
    const PartKinds kinds = build_parts(scenario, dims, blocks);

    const ScheduleKind* schedule = find_schedule(layout.schedule);
    ORRERY_CHECK(schedule != nullptr, "an unknown schedule passed validation");
    const auto pipeline = static_cast<std::int32_t>(layout.pipeline_parallel);
    const ActionGrid grid = schedule->order(
        {pipeline, static_cast<std::int32_t>(layout.virtual_pipeline), plan.micro_batches});
    const auto rows = add_transfers(grid, pipeline, static_cast<std::int32_t>(layout.stages()));
    for (std::int32_t rank = 0; rank < pipeline; ++rank) {
        ProgramBuilder builder{scenario, dims, plan.mesh, blocks, {}, {}};
        builder.program.pipeline_rank = rank;
        plan.programs.push_back(
            build_program(std::move(builder), kinds, rows[static_cast<std::size_t>(rank)]));
    }
    plan.blocks = blocks.take();
    plan.conserved = conserved_of(scenario);
    plan.conserved.hardware_flops_per_step = executed_flops(plan);
    validate_plan(plan, scenario);
    return plan;
}

}  // namespace orrery::plan
