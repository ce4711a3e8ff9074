#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/passes/pass_table.hpp"

namespace orrery::plan {
namespace {

constexpr TensorId kStates = 1, kParameters = 2;  // where all states are of one type

// Adds one tensor of all states, or one for each where their types differ, as they lie in memory.
// Returns them in the order of `states`.
std::vector<TensorId> add_states(Block& block, const std::vector<BucketState>& states,
                                 std::int64_t elements) {
    const auto add = [&block](Tensor tensor) {
        block.tensors.push_back(std::move(tensor));
        return static_cast<TensorId>(block.tensors.size() - 1);
    };
    const auto count = static_cast<std::int64_t>(states.size());
    if (of_one_type(states))
        return {add({"states", Role::optimizer, states.front().dtype, {count, elements}})};
    std::vector<std::size_t> lie(states.size());
    std::iota(lie.begin(), lie.end(), std::size_t{0});
    std::sort(lie.begin(), lie.end(),
              [&](std::size_t a, std::size_t b) { return states[a].offset < states[b].offset; });
    std::vector<TensorId> ids(states.size());
    for (const std::size_t i : lie)
        ids[i] =
            add({std::string(name(states[i].kind)), Role::optimizer, states[i].dtype, {elements}});
    return ids;
}

// judged: with what the statistics of gradients say; else as if they called for nothing.
Block adamw_block(ProgramBuilder& builder, std::int32_t index, bool judged) {
    const Bucket& bucket = builder.bucket(index);
    const std::int64_t elements = bucket.stepped(builder.mesh);
    const std::int64_t narrow =
        builder.dims.fp8.casts_gathered()
            ? 0
            : builder.eight_bit.at(static_cast<std::size_t>(index)) /
                  (builder.sharding_of(bucket).optimizer ? builder.shards(bucket)
                                                         : std::int64_t{1});
    Block block;
    block.name = "adamw.bucket";
    block.tensors.push_back(
        {"gradients", Role::gradient_shard, builder.gradient_dtype(), {elements}});
    const std::vector<TensorId> states = add_states(block, bucket.optimizer_states(), elements);
    const auto parameters = static_cast<TensorId>(block.tensors.size());
    block.tensors.push_back(
        {"parameters", Role::parameter_shard, builder.dims.dtype, {elements - narrow}});
    Op op;
    op.phase = Phase::optimizer;
    op.stream = builder.optimizer_stream();
    op.dtype = builder.dims.wide_dtype;
    op.reads = {0};
    op.reads.insert(op.reads.end(), states.begin(), states.end());
    if (bucket.state(StateKind::masters) == nullptr) op.reads.push_back(parameters);
    auto reads_scalar = [&](Tensor scalar) {
        op.reads.push_back(static_cast<TensorId>(block.tensors.size()));
        block.tensors.push_back(std::move(scalar));
    };
    const Optimizer& optimizer = builder.scenario.training.optimizer;
    AdamW adamw{elements, optimizer.beta1, optimizer.beta2, optimizer.epsilon,
                optimizer.weight_decay};
    if (judged) adamw.clip_norm = optimizer.clip_norm;
    adamw.skips_overflow = judged && builder.dims.scales_loss();
    adamw.skips_spike = builder.scenario.training.loss_spike.skips();
    if (adamw.clip_norm > 0) reads_scalar(norm_scalar());
    if (adamw.skips_overflow) reads_scalar(overflow_scalar());
    if (adamw.skips_spike) reads_scalar(loss_spike_scalar());
    op.spec = adamw;
    op.writes = states;
    op.writes.push_back(parameters);
    if (narrow > 0) {
        op.writes.push_back(static_cast<TensorId>(block.tensors.size()));
        block.tensors.push_back(
            {"eight-bit parameters", Role::parameter_shard, DType::fp8_e4m3, {narrow}});
    }
    op.label = "adamw";
    block.ops.push_back(op);
    return block;
}

// What steps a bucket, and the gather of what it changed.
void add_step_of(ProgramBuilder& builder, std::int32_t index, bool judged,
                 std::vector<BlockUse>& uses) {
    BlockUse use;
    use.bucket = index;
    use.block = builder.blocks.add(adamw_block(builder, index, judged));
    uses.push_back(use);
    if (gathers_whole(builder, builder.bucket(index)) &&
        !gathers_parameters_ahead(builder.scenario))
        uses.push_back(gather_use(builder, index));
}

}  // namespace

void add_optimizer(ProgramBuilder& builder) {
    const bool validated_later = !builder.statistics.empty();
    std::vector<BlockUse> uses, amended;
    builder.passes.run<OverOptimizer>(builder, uses);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(builder.program.buckets.size()); ++i) {
        if (builder.bucket(i).frozen || builder.bucket(i).elements == 0) continue;
        if (validated_later) {
            const Block block = adamw_block(builder, i, true);
            const KeptCopies copies(builder, i, block.tensors[kStates], block.tensors[kParameters]);
            copies.keep(uses);
            copies.put_back(amended);
            add_step_of(builder, i, true, amended);
        }
        add_step_of(builder, i, !validated_later, uses);
    }
    builder.add_step(ActionKind::step, builder.program.stages.front().index,
                     builder.add_procedure("optimizer", std::move(uses)));
    if (validated_later)
        builder.program.amendment = builder.add_procedure("amend", std::move(amended));
}

}  // namespace orrery::plan
