#include <algorithm>

#include "plan/passes/pass_table.hpp"

namespace orrery::plan {
namespace {

constexpr std::int32_t kGradientSlots = 2;  // one being filled, one being reduced

std::int32_t gather_block(ProgramBuilder& builder, const Bucket& bucket, Phase phase) {
    Block block;
    block.name = "gather.bucket";
    block.tensors.push_back({"shard",
                             Role::parameter_shard,
                             builder.dims.dtype,
                             {builder.whole(bucket) / builder.shards(bucket)}});
    block.tensors.push_back(
        {"parameters", Role::parameter, builder.dims.dtype, {builder.whole(bucket)}});
    block.ops.push_back(collective_op(block, OpKind::all_gather, phase, Stream::data_comm,
                                      builder.shard_group(bucket), builder.whole(bucket),
                                      "parameters", 0, 1));
    return builder.blocks.add(std::move(block));
}

// Slots for gathered parameters that are dropped after each use.
std::int32_t parameter_slots(const ProgramBuilder& builder) {
    if (!builder.sharding.parameters || builder.keeps_gathered()) return 0;
    std::size_t most = 1;
    for (const Stage& stage : builder.program.stages)
        most = std::max(most, stage.parts.size());
    return static_cast<std::int32_t>(std::min(builder.scenario.training.framework.zero_prefetch + 1,
                                              static_cast<std::int64_t>(most)));
}

// Memory for the gathered parameters of each bucket; a second use of a parameter finds them where
// the first one does.
void add_kept(ProgramBuilder& builder) {
    Program& program = builder.program;
    for (std::size_t i = 0; i < program.buckets.size(); ++i)
        program.parameter_ring.push_back(
            program.buckets[i].elements == 0
                ? -1
                : builder.add_resident(
                      "gathered bucket " + std::to_string(i), MemoryCategory::communication,
                      builder.whole(program.buckets[i]) * size_bytes(builder.dims.dtype)));
    for (std::int32_t& resident : program.parameter_ring)
        if (resident < 0)
            resident = program.parameter_ring[static_cast<std::size_t>(builder.embedding_bucket())];
}

// Of a part's two buckets the one that has slots of its own in a ring.
bool has_own_gradients(const Bucket& bucket) {
    return bucket.experts;
}
bool has_own_parameters(const Bucket& bucket) {
    return bucket.experts || bucket.frozen;
}

// A slot of the n-th part of an action: those of such buckets lie behind the others, as many.
std::int32_t slot_of(const ProgramBuilder& builder, const std::vector<std::int32_t>& ring,
                     std::size_t n, const Bucket& bucket, bool (*has_own)(const Bucket&)) {
    const auto& buckets = builder.program.buckets;
    const bool doubled = std::any_of(buckets.begin(), buckets.end(), [&](const Bucket& other) {
        return has_own(other) && builder.shards(other) > 1;
    });
    const std::size_t slots = doubled ? ring.size() / 2 : ring.size();
    return ring[n % slots + (has_own(bucket) ? slots : 0)];
}

// Where the parameters of a bucket are gathered that are of the n-th part of an action.
std::int32_t gathered_at(const ProgramBuilder& builder, std::size_t n, std::int32_t bucket) {
    const auto& memory = builder.program.parameter_ring;
    if (builder.keeps_gathered()) return memory[static_cast<std::size_t>(bucket)];
    return slot_of(builder, memory, n, builder.bucket(bucket), has_own_parameters);
}

// The buckets that a part's parameters are in.
std::vector<std::int32_t> buckets_of(const ProgramBuilder& builder, const BlockUse& use) {
    const std::int32_t other = builder.other_bucket(use);
    return other < 0 ? std::vector{use.bucket} : std::vector{use.bucket, other};
}

bool is_part(const BlockUse& use) {
    return use.position >= 0 && use.bucket >= 0;
}

// Whether it touches gradients that nobody has said the place of.
bool lacks_gradients(const ProgramBuilder& builder, const BlockUse& use) {
    const auto& tensors = builder.blocks.block(use.block).tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t)
        if (is_accumulator(tensors[t].role))
            return use.bucket >= 0 && (use.slots.empty() || use.slots[t].frame == Frame::none);
    return false;
}

// Those of a part each in a slot of its bucket, those of a reduction in that of the one it reduces.
void place_gradients(const ProgramBuilder& builder, BlockUse& use, std::size_t n) {
    const auto slot = [&](std::int32_t bucket) {
        return slot_of(builder, builder.program.gradient_ring, n, builder.bucket(bucket),
                       has_own_gradients);
    };
    const auto is_ringed = [&](std::int32_t bucket) {
        return builder.sharding_of(builder.bucket(bucket)).gradients;
    };
    for (const Role role : {Role::gradient, Role::source_gradient}) {
        if (use.position < 0) {
            if (is_ringed(use.bucket)) builder.place(use, role, slot(use.bucket));
            continue;
        }
        for (const std::int32_t bucket : buckets_of(builder, use))
            if (is_ringed(bucket)) builder.place_of_bucket(use, role, bucket, slot(bucket));
    }
}

// One action's parts in the order of their use, and the gathers before them.
class Gathers {
  public:
    Gathers(ProgramBuilder& builder, const std::vector<BlockUse>& uses, Phase phase)
        : builder_(builder), phase_(phase) {
        for (const BlockUse& use : uses)
            if (is_part(use)) parts_.push_back(use);
    }

    // Appends what is to be gathered by the time that the n-th part starts.
    void before(std::size_t n, std::vector<BlockUse>& uses) {
        const auto ahead =
            static_cast<std::size_t>(builder_.scenario.training.framework.zero_prefetch);
        for (; next_ < parts_.size() && next_ <= n + ahead; ++next_) {
            for (const std::int32_t bucket : buckets_of(builder_, parts_[next_]))
                gather(bucket, uses);
        }
    }

  private:
    void gather(std::int32_t index, std::vector<BlockUse>& uses) {
        const Bucket& bucket = builder_.bucket(index);
        if (!builder_.sharding_of(bucket).parameters) return;
        if (builder_.keeps_gathered() && bucket.elements == 0) return;
        BlockUse use;
        use.block = gather_block(builder_, bucket, phase_);
        use.layer = parts_[next_].layer;
        use.bucket = index;
        builder_.place(use, Role::parameter, gathered_at(builder_, next_, index));
        // A slot of the ring is free once the part before is done; memory of its own always is.
        use.fence =
            builder_.scenario.training.framework.zero_prefetch == 0 && builder_.keeps_gathered();
        uses.push_back(use);
    }

    ProgramBuilder& builder_;
    Phase phase_;
    std::vector<BlockUse> parts_;
    std::size_t next_ = 0;
};

}  // namespace

void add_rings(ProgramBuilder& builder) {
    // Elements of the largest bucket of each kind.
    std::int64_t trained = 0, frozen = 0, experts = 0, sources = 0;
    for (const Bucket& bucket : builder.program.buckets) {
        if (builder.shards(bucket) == 1) continue;
        std::int64_t& largest = bucket.frozen ? frozen : bucket.experts ? experts : trained;
        largest = std::max(largest, builder.whole(bucket));
        sources = std::max(sources, builder.source_elements(bucket));
    }
    const auto add = [&](const char* what, std::int32_t slot, std::int64_t elements, DType dtype) {
        return builder.add_resident(what + (" ring " + std::to_string(slot)),
                                    MemoryCategory::communication, elements * size_bytes(dtype));
    };
    const std::int32_t parameter_ring = parameter_slots(builder);
    auto& parameters = builder.program.parameter_ring;
    for (std::int32_t slot = 0; slot < std::max(kGradientSlots, parameter_ring); ++slot) {
        if (slot < kGradientSlots)
            builder.program.gradient_ring.push_back(
                add("gradient", slot, trained, builder.gradient_dtype()));
        if (slot < parameter_ring)
            parameters.push_back(add("parameter", slot, trained, builder.dims.dtype));
    }
    if (experts > 0)
        for (std::int32_t slot = 0; slot < std::max(kGradientSlots, parameter_ring); ++slot) {
            if (slot < kGradientSlots)
                builder.program.gradient_ring.push_back(
                    add("experts' gradient", slot, experts + sources, builder.gradient_dtype()));
            if (slot < parameter_ring)
                parameters.push_back(add("experts' parameter", slot, experts, builder.dims.dtype));
        }
    if (frozen > 0)
        for (std::int32_t slot = 0; slot < parameter_ring; ++slot)
            parameters.push_back(add("frozen parameter", slot, frozen, builder.dims.dtype));
    if (builder.keeps_gathered()) add_kept(builder);
}

void insert_rings(ProgramBuilder& builder, ActionUses& action) {
    const Phase phase = action.kind == ActionKind::forward ? Phase::forward : Phase::backward;
    const bool sharded =
        !builder.program.parameter_ring.empty() && action.gathering != Gathering::never;
    Gathers gathering(builder, action.uses, phase);
    std::vector<BlockUse> with_rings;
    std::size_t part = 0;
    std::size_t slot = 0;  // of gradients, in turn
    for (BlockUse use : action.uses) {
        if (is_part(use)) {
            slot = part % kGradientSlots;
            if (sharded && action.gathering == Gathering::now) gathering.before(part, with_rings);
            if (sharded)
                for (const std::int32_t bucket : buckets_of(builder, use))
                    if (builder.sharding_of(builder.bucket(bucket)).parameters)
                        builder.place_of_bucket(use, Role::parameter, bucket,
                                                gathered_at(builder, part, bucket));
            ++part;
        }
        if (phase == Phase::backward && lacks_gradients(builder, use))
            place_gradients(builder, use, slot);
        with_rings.push_back(use);
    }
    action.uses = std::move(with_rings);
}

}  // namespace orrery::plan
