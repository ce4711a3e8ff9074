#include <algorithm>
#include <utility>

#include "plan/ir/parameters.hpp"
#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

void add_states(ProgramBuilder& builder, Bucket& bucket, std::int32_t index) {
    const std::string suffix = " bucket " + std::to_string(index);
    const std::int64_t bytes = size_bytes(builder.dims.dtype);
    if (bucket.frozen) {
        if (bucket.elements > 0)
            bucket.parameters =
                builder.add_resident("parameters" + suffix, MemoryCategory::parameters,
                                     bucket.room(StateKind::parameters, builder.mesh) * bytes);
        return;
    }
    const std::int64_t gradient_bytes = size_bytes(builder.gradient_dtype());
    bucket.gradients = builder.add_in_turns(
        "gradients" + suffix, MemoryCategory::gradients,
        (builder.gradients_held(bucket) + builder.tied_held(bucket) +
         (builder.sharding_of(bucket).gradients ? 0 : builder.source_elements(bucket))) *
            gradient_bytes);
    if (bucket.elements == 0) return;
    bucket.parameters = builder.add_in_turns(
        "parameters" + suffix, MemoryCategory::parameters,
        bucket.room(StateKind::parameters, builder.mesh) * bytes -
            builder.eight_bit.at(static_cast<std::size_t>(index)) * (bytes - 1));
    std::int64_t state_bytes = 0;
    for (const BucketState& state : bucket.states)
        if (is_optimizer_state(state.kind))
            state_bytes += bucket.room(state.kind, builder.mesh) * size_bytes(state.dtype);
    bucket.optimizer =
        builder.add_resident("optimizer" + suffix, MemoryCategory::optimizer, state_bytes);
}

// How many of a bucket's gradients, from its start on, are left to sum over the tensor group.
std::int64_t left_partial(const ProgramBuilder& builder, const Bucket& bucket) {
    if (builder.mesh.tensor == 1) return 0;
    return builder.dims.sequence_parallel ? bucket.replicated_elements : bucket.partial_elements;
}

BlockUse use_of(ProgramBuilder& builder, Block block, std::int32_t bucket) {
    BlockUse use;
    use.block = builder.blocks.add(std::move(block));
    use.bucket = bucket;
    return use;
}

}  // namespace

namespace {

// Elements that a part adds to a bucket.
struct BucketPart {
    std::int64_t elements = 0;
    std::int64_t replicated = 0;
    std::int64_t partial = 0;
    std::int64_t experts = 0;  // of a frozen bucket
    std::int64_t eight_bit = 0;
    bool tied = false;
    bool held_before = false;
};

BucketPart trained_of(const PartKind& kind) {
    return {kind.parameters, kind.replicated, kind.partial,    0,
            kind.eight_bit,  kind.tied,       kind.held_before};
}

BucketPart experts_of(const PartKind& kind) {
    BucketPart part;
    part.elements = kind.experts;
    part.eight_bit = kind.eight_bit_experts;
    return part;
}

BucketPart frozen_of(const PartKind& kind) {
    return {kind.frozen, kind.frozen_replicated, 0, kind.frozen_experts, 0,
            kind.tied,   kind.held_before};
}

// Buckets of one kind that grow from the end of a stage.
class GrowingBuckets {
  public:
    // `like`: what all of them have in common; dtype: of what their size is given in.
    GrowingBuckets(ProgramBuilder& builder, Bucket like, DType dtype, bool one_part)
        : builder_(builder),
          like_(std::move(like)),
          bytes_(size_bytes(dtype)),
          one_part_(one_part) {
        const Framework& framework = builder.scenario.training.framework;
        target_ = 1e6 * std::max(framework.gradient_bucket_mb,
                                 framework.gradient_bucket_mb_per_rank *
                                     static_cast<double>(builder.mesh.group_size(like_.copies())));
    }

    void begin_stage() { open_ = false; }

    // Takes what a part has of the kind; returns the bucket.
    std::int32_t add(const Stage& stage, std::size_t position, const BucketPart& part) {
        auto& buckets = builder_.program.buckets;
        if (!open_ || part.tied) {
            buckets.push_back(like_);
            builder_.eight_bit.push_back(0);
            buckets.back().stage = stage.index;
            buckets.back().last_position = static_cast<std::int32_t>(position);
            current_ = buckets.size() - 1;
        }
        Bucket& bucket = buckets[current_];
        bucket.first_position = static_cast<std::int32_t>(position);
        (part.held_before ? bucket.tied_elements : bucket.elements) += part.elements;
        bucket.replicated_elements += part.replicated;
        bucket.partial_elements += part.partial;
        bucket.expert_elements += part.experts;
        builder_.eight_bit[current_] += part.eight_bit;
        open_ = !one_part_ && !part.tied && static_cast<double>(bucket.elements * bytes_) < target_;
        return static_cast<std::int32_t>(current_);
    }

  private:
    ProgramBuilder& builder_;
    Bucket like_;
    std::int64_t bytes_;  // of an element, of those that the size of a bucket is given in
    bool one_part_;
    double target_ = 0;
    bool open_ = false;
    std::size_t current_ = 0;
};

}  // namespace

void form_buckets(ProgramBuilder& builder) {
    auto& buckets = builder.program.buckets;
    Bucket of_frozen, of_experts;
    of_frozen.frozen = of_experts.experts = true;
    const bool one_part = builder.sharding.gradients;
    GrowingBuckets trained(builder, {}, builder.gradient_dtype(), one_part);
    GrowingBuckets experts(builder, of_experts, builder.gradient_dtype(), one_part);
    GrowingBuckets frozen(builder, of_frozen, builder.dims.dtype, builder.sharding.parameters);
    for (std::size_t chunk = 0; chunk < builder.program.stages.size(); ++chunk) {
        Stage& stage = builder.program.stages[chunk];
        trained.begin_stage();
        experts.begin_stage();
        frozen.begin_stage();
        for (std::size_t p = stage.parts.size(); p-- > 0;) {
            const PartKind& kind = builder.part_kinds[chunk][p];
            StagePart& part = stage.parts[p];
            if (kind.parameters > 0 || kind.frozen == 0)
                part.bucket = trained.add(stage, p, trained_of(kind));
            if (kind.experts > 0) part.other_bucket = experts.add(stage, p, experts_of(kind));
            if (kind.frozen == 0) continue;
            const std::int32_t bucket = frozen.add(stage, p, frozen_of(kind));
            (part.bucket < 0 ? part.bucket : part.other_bucket) = bucket;
        }
    }
    for (std::size_t i = 0; i < buckets.size(); ++i) {
        share_out(builder, buckets[i]);
        add_states(builder, buckets[i], static_cast<std::int32_t>(i));
    }
    // A second use of a parameter reads it where the first holds it.
    for (Bucket& bucket : buckets)
        if (bucket.tied_elements > 0)
            bucket.parameters = builder.bucket(builder.embedding_bucket()).parameters;
}

std::vector<BlockUse> uses_by_bucket(ProgramBuilder& builder,
                                     Block (*block_of)(const ProgramBuilder&, const Bucket&)) {
    std::vector<BlockUse> uses;
    for (std::size_t i = 0; i < builder.program.buckets.size(); ++i) {
        const Bucket& bucket = builder.program.buckets[i];
        if (bucket.frozen || bucket.elements == 0) continue;
        BlockUse use;
        use.block = builder.blocks.add(block_of(builder, bucket));
        use.bucket = static_cast<std::int32_t>(i);
        uses.push_back(use);
    }
    return uses;
}

namespace {

TensorId add_tensor(Block& block, Tensor tensor) {
    block.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(block.tensors.size() - 1);
}

// On the stream of the reduction, unless told otherwise, so that compute does not wait.
void add_op(Block& block, OpSpec spec, std::vector<TensorId> reads, TensorId written,
            const char* label, Stream stream = Stream::data_comm) {
    Op op;
    op.spec = std::move(spec);
    op.phase = Phase::backward;
    op.stream = stream;
    op.dtype = block.tensors[static_cast<std::size_t>(written)].dtype;
    op.reads = std::move(reads);
    op.writes = {written};
    op.label = label;
    block.ops.push_back(std::move(op));
}

// What the rows of each rank have added becomes the gradient that is reduced.
void sum_sources(const ProgramBuilder& builder, const Bucket& bucket, TensorId gradients,
                 Block& block) {
    const std::int64_t sources = builder.sources(bucket);
    if (sources == 1) return;
    std::vector<TensorId> by_source;
    for (const BucketEntry& entry :
         bucket_entries(builder.blocks.blocks(), builder.program, bucket))
        by_source.push_back(add_tensor(
            block, {full_name(entry.position - bucket.first_position, entry.name) + " by source",
                    Role::source_gradient,
                    builder.gradient_dtype(),
                    {sources * entry.elements}}));
    add_op(block, SumSources{bucket.elements, sources}, std::move(by_source), gradients,
           "gradients by source");
}

// What a part has summed goes to where it is reduced.
void copy_gradients(const ProgramBuilder& builder, const Bucket& bucket, TensorId gradients,
                    Block& block) {
    if (!builder.copies_gradients(bucket)) return;
    const std::int64_t elements = builder.whole(bucket);
    const TensorId made =
        add_tensor(block, {"made", Role::source, builder.made_gradient_dtype(), {elements}});
    add_op(block, Cast{elements}, {made}, gradients, "copied gradients", builder.copying_stream());
}

}  // namespace

std::vector<BlockUse> reduce_uses(ProgramBuilder& builder, std::int32_t index) {
    const Bucket bucket = builder.bucket(index);
    if (bucket.frozen) return {};
    const std::int64_t partial = left_partial(builder, bucket);
    const std::int64_t shards = builder.shards(bucket);
    const bool scatters = builder.sharding_of(bucket).gradients;
    // Nothing is scattered or gathered of what every rank keeps whole: no padding there.
    const std::int64_t whole = scatters ? builder.whole(bucket) : builder.gradients_held(bucket);
    const bool reduces = partial > 0 || shards > 1;
    if (whole == 0 || (!reduces && builder.sources(bucket) == 1)) return {};
    const DType dtype = builder.gradient_dtype();
    Block block;
    block.name = "reduce.bucket";
    const TensorId gradients = add_tensor(block, {"gradients", Role::gradient, dtype, {whole}});
    sum_sources(builder, bucket, gradients, block);
    copy_gradients(builder, bucket, gradients, block);
    auto reduce = [&](OpKind kind, GroupKind group, Stream stream, std::int64_t elements,
                      const char* label) {
        block.ops.push_back(collective_op(block, kind, Phase::backward, stream, group, elements,
                                          label, gradients, gradients));
    };
    if (partial > 0)
        reduce(OpKind::all_reduce, GroupKind::tensor, Stream::tensor_comm, partial,
               "replicated gradients");
    if (shards > 1)
        reduce(bucket.shares.empty() ? OpKind::all_reduce : OpKind::reduce_scatter,
               builder.shard_group(bucket), Stream::data_comm, whole, "gradients");
    if (scatters) {
        const std::int64_t held = builder.gradients_held(bucket) + builder.tied_held(bucket);
        const TensorId reduced =  // within gradients
            add_tensor(block, {"reduced", Role::gradient, dtype, {held}});
        const TensorId shard =
            add_tensor(block, {"gradient shard", Role::gradient_shard, dtype, {held}});
        add_op(block, Add{1, held}, {reduced, shard}, shard, "gradient shard");
    }
    return {use_of(builder, std::move(block), index)};
}

std::vector<BlockUse> replica_uses(ProgramBuilder& builder, std::int32_t index) {
    const Bucket bucket = builder.bucket(index);
    if (!builder.hybrid() || bucket.frozen || bucket.elements == 0) return {};
    const std::int64_t elements = bucket.stepped(builder.mesh);
    Block block;
    block.name = "reduce.replicas";
    block.tensors.push_back(
        {"gradient shard", Role::gradient_shard, builder.gradient_dtype(), {elements}});
    block.ops.push_back(collective_op(block, OpKind::all_reduce, Phase::backward, Stream::data_comm,
                                      bucket.replicas(), elements, "gradient shard", 0, 0));
    return {use_of(builder, std::move(block), index)};
}

void add_late_reduction(ProgramBuilder& builder) {
    for (const Stage& stage : builder.program.stages) {
        std::vector<BlockUse> uses;
        for (std::size_t i = 0; i < builder.program.buckets.size(); ++i) {
            if (builder.program.buckets[i].stage != stage.index) continue;
            const auto index = static_cast<std::int32_t>(i);
            for (const auto& reductions :
                 {reduce_uses(builder, index), replica_uses(builder, index)})
                uses.insert(uses.end(), reductions.begin(), reductions.end());
        }
        if (uses.empty()) continue;
        uses.front().fence = true;
        builder.add_step(
            ActionKind::reduce_grad, stage.index,
            builder.add_procedure("reduce " + std::to_string(stage.index), std::move(uses)));
    }
}

}  // namespace orrery::plan
