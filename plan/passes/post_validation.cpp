// Optimizer post-validation (Qi 2024, "Zero Bubble Pipeline Parallelism", §4.2): a step ends
// without waiting for the other stages. Statistics of gradients are summed within the stage, then
// handed down the pipeline, each rank adding its own (SUM); the optimizer takes it for granted that
// the norm clips nothing and nothing overflowed. The last rank thus has what all stages sum up to,
// and in the next step's warm-up it travels back (VALIDATE). Where it says otherwise, every rank
// puts back what the optimizer changed, runs it with the statistics (AMEND), and begins the step
// anew. The paper inverts AdamW, to the last bits but a few; here a copy of states and parameters
// is kept, so that what comes of it is what waiting would have made.
#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

Op scalar_op(OpSpec spec, const Tensor& of, std::vector<TensorId> reads,
             std::vector<TensorId> writes) {
    Op op;
    op.spec = std::move(spec);
    op.phase = Phase::optimizer;
    op.dtype = of.dtype;
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    op.label = of.name;
    return op;
}

Tensor in_role(Tensor tensor, const char* name, Role role) {
    tensor.name = name;
    tensor.role = role;
    return tensor;
}

// This stage's statistic and that of the stages before, where there are any.
BlockUse sum_use(ProgramBuilder& builder, const Statistic& statistic) {
    Block block;
    block.name = "sum." + statistic.scalar.name;
    block.tensors = {statistic.scalar, in_role(statistic.scalar, "up to here", Role::target)};
    if (statistic.handed >= 0) {
        block.tensors.push_back(in_role(statistic.scalar, "before", Role::source));
        block.ops.push_back(
            scalar_op(Add{1, statistic.scalar.elements()}, statistic.scalar, {0, 2}, {1}));
    } else {
        block.ops.push_back(
            scalar_op(Cast{statistic.scalar.elements()}, statistic.scalar, {0}, {1}));
    }
    BlockUse use;
    use.block = builder.blocks.add(std::move(block));
    builder.place(use, Role::target, statistic.sum);
    if (statistic.handed >= 0) builder.place(use, Role::source, statistic.handed);
    return use;
}

// All stages' statistic takes the place of the stage's own.
BlockUse total_use(ProgramBuilder& builder, const Statistic& statistic) {
    Block block;
    block.name = "validate." + statistic.scalar.name;
    block.tensors = {in_role(statistic.scalar, "of all stages", Role::source), statistic.scalar};
    block.ops.push_back(scalar_op(Cast{statistic.scalar.elements()}, statistic.scalar, {0}, {1}));
    BlockUse use;
    use.block = builder.blocks.add(std::move(block));
    builder.place(use, Role::source, statistic.sum);
    return use;
}

void add_transfers(ProgramBuilder& builder, ActionKind kind) {
    Program& program = builder.program;
    const std::int32_t peer = program.pipeline_rank + hop_to_peer(kind);
    if (peer < 0 || peer >= static_cast<std::int32_t>(builder.mesh.pipeline)) return;
    for (std::size_t number = 0; number < builder.statistics.size(); ++number) {
        const Statistic& statistic = builder.statistics[number];
        Transfer transfer;
        transfer.action = {program.pipeline_rank, kind, static_cast<std::int32_t>(number)};
        transfer.peer = peer;
        transfer.bytes = statistic.scalar.bytes();
        transfer.resident = kind == ActionKind::recv_sum ? statistic.handed : statistic.sum;
        Step step;
        step.action = transfer.action;
        step.transfers.push_back(transfer);
        program.steps.push_back(std::move(step));
    }
}

// Of states or parameters of a bucket: from its own memory to a copy's, or back.
BlockUse copy_use(ProgramBuilder& builder, std::int32_t bucket, const Tensor& own,
                  std::int32_t copy, bool back) {
    Block block;
    block.name = std::string(back ? "put_back." : "keep.") + own.name;
    block.tensors = {own, in_role(own, "copy", back ? Role::source : Role::target)};
    Op op = scalar_op(Cast{own.elements()}, own, {back ? 1 : 0}, {back ? 0 : 1});
    block.ops.push_back(std::move(op));
    BlockUse use;
    use.bucket = bucket;
    use.block = builder.blocks.add(std::move(block));
    builder.place(use, back ? Role::source : Role::target, copy);
    return use;
}

}  // namespace

std::vector<Tensor> statistics_of(const Scenario& scenario) {
    std::vector<Tensor> statistics;
    if (!scenario.layout.optimizer_post_validation) return statistics;
    if (scenario.training.optimizer.clip_norm > 0) statistics.push_back(norm_scalar());
    if (scenario.training.precision == Precision::fp16) statistics.push_back(overflow_scalar());
    return statistics;
}

Block statistic_exchange(const Tensor& statistic, Stream stream) {
    Block block;
    block.name = std::string(stream == Stream::pipeline_comm ? "exchange." : "exchange.before.") +
                 statistic.name;
    Op op = scalar_op(Exchange{statistic.elements()}, statistic, {}, {});
    op.group = GroupKind::pipeline;
    op.stream = stream;
    block.ops.push_back(std::move(op));
    return block;
}

void add_statistics(ProgramBuilder& builder) {
    for (const Tensor& scalar : statistics_of(builder.scenario)) {
        const std::string number = std::to_string(builder.statistics.size());
        Statistic statistic{scalar};
        statistic.sum = builder.add_resident(kSumOverStages + number, MemoryCategory::communication,
                                             scalar.bytes());
        if (builder.program.pipeline_rank > 0)
            statistic.handed = builder.add_resident("sum handed on " + number,
                                                    MemoryCategory::communication, scalar.bytes());
        builder.statistics.push_back(std::move(statistic));
    }
}

void add_sums(ProgramBuilder& builder) {
    add_transfers(builder, ActionKind::recv_sum);
    std::vector<BlockUse> uses;
    for (const Statistic& statistic : builder.statistics)
        uses.push_back(sum_use(builder, statistic));
    builder.add_step(ActionKind::sum, builder.program.stages.front().index,
                     builder.add_procedure("sum", std::move(uses)));
    add_transfers(builder, ActionKind::send_sum);
}

void add_validation(ProgramBuilder& builder) {
    add_transfers(builder, ActionKind::recv_total);
    std::vector<BlockUse> uses;
    for (const Statistic& statistic : builder.statistics)
        uses.push_back(total_use(builder, statistic));
    for (const BlockUse& use : loss_scale_update_uses(builder))
        uses.push_back(use);
    builder.add_step(ActionKind::validate, builder.program.stages.front().index,
                     builder.add_procedure("validate", std::move(uses)));
    add_transfers(builder, ActionKind::send_total);
}

KeptCopies::KeptCopies(ProgramBuilder& builder, std::int32_t bucket, const Tensor& states,
                       const Tensor& parameters)
    : builder_(builder), bucket_(bucket), states_(states), parameters_(parameters) {
    const auto add = [&](const Tensor& tensor) {
        return builder.add_resident("kept " + tensor.name + " bucket " + std::to_string(bucket),
                                    MemoryCategory::optimizer, tensor.bytes());
    };
    kept_states_ = add(states);
    kept_parameters_ = add(parameters);
}

void KeptCopies::keep(std::vector<BlockUse>& uses) const {
    uses.push_back(copy_use(builder_, bucket_, states_, kept_states_, false));
    uses.push_back(copy_use(builder_, bucket_, parameters_, kept_parameters_, false));
}

void KeptCopies::put_back(std::vector<BlockUse>& uses) const {
    uses.push_back(copy_use(builder_, bucket_, states_, kept_states_, true));
    uses.push_back(copy_use(builder_, bucket_, parameters_, kept_parameters_, true));
}

}  // namespace orrery::plan
