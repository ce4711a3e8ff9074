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

// From where a bucket was gathered to where its parts read it.
std::int32_t copy_block(ProgramBuilder& builder, const Bucket& bucket, Phase phase) {
    Block block;
    block.name = "copy.bucket";
    const std::int64_t elements = builder.whole(bucket);
    block.tensors = {{"gathered", Role::source, builder.dims.dtype, {elements}},
                     {"parameters", Role::parameter, builder.dims.dtype, {elements}}};
    Op op;
    op.spec = Cast{elements};
    op.phase = phase;
    op.stream = builder.copying_stream();
    op.dtype = builder.dims.dtype;
    op.reads = {0};
    op.writes = {1};
    op.label = "copied parameters";
    block.ops.push_back(std::move(op));
    return builder.blocks.add(std::move(block));
}

// Parts whose gathered parameters are there at once: those ahead and the one that is used.
std::int32_t gathered_parts(const ProgramBuilder& builder) {
    std::size_t most = 1;
    for (const Stage& stage : builder.program.stages)
        most = std::max(most, stage.parts.size());
    return static_cast<std::int32_t>(std::min(builder.scenario.training.framework.zero_prefetch + 1,
                                              static_cast<std::int64_t>(most)));
}

// Slots of each ring. Beside compute what was gathered is copied at once, else when it is used;
// what is copied on the stream of compute leaves its slot to the next part. FSDP2 waits for a
// reduction before it copies for the next one (pytorch/pytorch,
// torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, post_backward).
struct RingSlots {
    std::int32_t gathered = 0, parameters = 0, gradients = kGradientSlots, reduced = 0;
};

RingSlots slots_of(const ProgramBuilder& builder) {
    RingSlots slots;
    const bool beside = builder.copying_stream() == Stream::data_comm;
    const std::int32_t parts = gathered_parts(builder);
    if (builder.copies_gathered()) slots.gathered = beside ? 1 : parts;
    if (builder.sharding.parameters && !builder.keeps_gathered())
        slots.parameters = builder.copies_gathered() && !beside ? 1 : parts;
    if (builder.buffers() == ShardedBuffers::in_place) return slots;
    slots.reduced = builder.buffers() == ShardedBuffers::copied ? 1 : kGradientSlots;
    if (!beside) slots.gradients = 1;
    return slots;
}

// Memory for the gathered parameters of each bucket; a second use of a parameter finds them where
// the first one does.
void add_kept(ProgramBuilder& builder) {
    const Program& program = builder.program;
    std::vector<std::int32_t>& ring = builder.rings.parameters;
    for (std::size_t i = 0; i < program.buckets.size(); ++i)
        ring.push_back(program.buckets[i].elements == 0
                           ? -1
                           : builder.add_resident("gathered bucket " + std::to_string(i),
                                                  MemoryCategory::communication,
                                                  builder.whole(program.buckets[i]) *
                                                      size_bytes(builder.dims.dtype)));
    for (std::int32_t& resident : ring)
        if (resident < 0) resident = ring[static_cast<std::size_t>(builder.embedding_bucket())];
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

// Where the n-th part of an action reads the parameters of a bucket that are gathered for it.
std::int32_t read_at(const ProgramBuilder& builder, std::size_t n, std::int32_t bucket) {
    const auto& memory = builder.rings.parameters;
    if (builder.keeps_gathered()) return memory[static_cast<std::size_t>(bucket)];
    return slot_of(builder, memory, n, builder.bucket(bucket), has_own_parameters);
}

// … and where they are gathered.
std::int32_t gathered_at(const ProgramBuilder& builder, std::size_t n, std::int32_t bucket) {
    if (!builder.copies_gathered()) return read_at(builder, n, bucket);
    return slot_of(builder, builder.rings.gathered, n, builder.bucket(bucket), has_own_parameters);
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
    const auto slot_in = [&](const std::vector<std::int32_t>& ring, std::int32_t bucket) {
        return slot_of(builder, ring, n, builder.bucket(bucket), has_own_gradients);
    };
    const auto slot = [&](std::int32_t bucket) {
        const bool apart = use.position >= 0 && builder.copies_gradients(builder.bucket(bucket));
        return slot_in(apart ? builder.rings.gradients : builder.rings.reduced, bucket);
    };
    const auto is_ringed = [&](std::int32_t bucket) {
        return builder.sharding_of(builder.bucket(bucket)).gradients;
    };
    for (const Role role : {Role::gradient, Role::source_gradient}) {
        if (use.position < 0) {
            if (!is_ringed(use.bucket)) continue;
            builder.place(use, role, slot(use.bucket));
            builder.place(use, Role::source, slot_in(builder.rings.gradients, use.bucket));
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

    // Appends what is to be gathered, and copied, by the time that the n-th part starts.
    void before(std::size_t n, std::vector<BlockUse>& uses) {
        const auto ahead =
            static_cast<std::size_t>(builder_.scenario.training.framework.zero_prefetch);
        for (; next_ < parts_.size() && next_ <= n + ahead; ++next_) {
            for (const std::int32_t bucket : buckets_of(builder_, parts_[next_]))
                gather(bucket, uses);
        }
        if (!copies_late()) return;
        for (const std::int32_t bucket : buckets_of(builder_, parts_[n]))
            if (is_gathered(bucket)) copy(bucket, n, uses);
    }

  private:
    bool copies_late() const {
        return builder_.copies_gathered() && builder_.copying_stream() == Stream::compute;
    }
    bool is_gathered(std::int32_t index) const {
        const Bucket& bucket = builder_.bucket(index);
        return builder_.sharding_of(bucket).parameters &&
               !(builder_.keeps_gathered() && bucket.elements == 0);
    }

    void copy(std::int32_t index, std::size_t n, std::vector<BlockUse>& uses) {
        BlockUse use;
        use.block = copy_block(builder_, builder_.bucket(index), phase_);
        use.layer = parts_[n].layer;
        use.bucket = index;
        builder_.place(use, Role::source, gathered_at(builder_, n, index));
        builder_.place(use, Role::parameter, read_at(builder_, n, index));
        uses.push_back(use);
    }

    void gather(std::int32_t index, std::vector<BlockUse>& uses) {
        if (!is_gathered(index)) return;
        BlockUse use;
        use.block = gather_block(builder_, builder_.bucket(index), phase_);
        use.layer = parts_[next_].layer;
        use.bucket = index;
        builder_.place(use, Role::parameter, gathered_at(builder_, next_, index));
        // A slot of the ring is free once the part before is done; memory of its own always is.
        use.fence =
            builder_.scenario.training.framework.zero_prefetch == 0 && builder_.keeps_gathered();
        uses.push_back(use);
        if (builder_.copies_gathered() && !copies_late()) copy(index, next_, uses);
    }

    ProgramBuilder& builder_;
    Phase phase_;
    std::vector<BlockUse> parts_;
    std::size_t next_ = 0;
};

// Elements of the largest bucket of each kind, and of what is summed by source beside it.
struct Largest {
    std::int64_t trained = 0, frozen = 0, experts = 0, sources = 0;
};

Largest largest_buckets(const ProgramBuilder& builder) {
    Largest of;
    for (const Bucket& bucket : builder.program.buckets) {
        if (builder.shards(bucket) == 1) continue;
        std::int64_t& largest = bucket.frozen    ? of.frozen
                                : bucket.experts ? of.experts
                                                 : of.trained;
        largest = std::max(largest, builder.whole(bucket));
        of.sources = std::max(of.sources, builder.source_elements(bucket));
    }
    return of;
}

// Where what is copied was gathered to, or will be reduced.
void add_copied(ProgramBuilder& builder, const Largest& largest, const RingSlots& slots) {
    const auto add = [&](const std::string& what, std::int64_t elements, DType dtype,
                         std::int32_t count, std::vector<std::int32_t>& ring) {
        for (std::int32_t slot = 0; elements > 0 && slot < count; ++slot)
            ring.push_back(builder.add_resident(what + " ring " + std::to_string(slot),
                                                MemoryCategory::communication,
                                                elements * size_bytes(dtype)));
    };
    ShardRings& rings = builder.rings;
    const DType dtype = builder.dims.dtype;
    const auto both = [&](const char* kind, std::int64_t elements, std::int64_t sources) {
        add(std::string(kind) + "gathered parameter", elements, dtype, slots.gathered,
            rings.gathered);
        add(std::string(kind) + "reduced gradient", elements + sources, builder.gradient_dtype(),
            slots.reduced, rings.reduced);
    };
    both("", largest.trained, 0);
    both("experts' ", largest.experts, largest.sources);
    add("frozen gathered parameter", largest.frozen, dtype, slots.gathered, rings.gathered);
}

}  // namespace

void add_rings(ProgramBuilder& builder) {
    const Largest largest = largest_buckets(builder);
    const RingSlots slots = slots_of(builder);
    ShardRings& rings = builder.rings;
    const bool copied = slots.reduced > 0;
    const auto add = [&](const char* what, std::int32_t slot, std::int64_t elements, DType dtype) {
        return builder.add_resident(what + (" ring " + std::to_string(slot)),
                                    MemoryCategory::communication, elements * size_bytes(dtype));
    };
    const auto add_both = [&](const std::string& kind, std::int64_t elements,
                              std::int64_t sources) {
        for (std::int32_t slot = 0; slot < std::max(slots.gradients, slots.parameters); ++slot) {
            if (slot < slots.gradients)
                rings.gradients.push_back(add((kind + "gradient").c_str(), slot,
                                              elements + (copied ? 0 : sources),
                                              builder.made_gradient_dtype()));
            if (slot < slots.parameters)
                rings.parameters.push_back(
                    add((kind + "parameter").c_str(), slot, elements, builder.dims.dtype));
        }
    };
    add_both("", largest.trained, 0);
    if (largest.experts > 0) add_both("experts' ", largest.experts, largest.sources);
    if (largest.frozen > 0)
        for (std::int32_t slot = 0; slot < slots.parameters; ++slot)
            rings.parameters.push_back(
                add("frozen parameter", slot, largest.frozen, builder.dims.dtype));
    add_copied(builder, largest, slots);
    if (!copied) rings.reduced = rings.gradients;
    if (builder.keeps_gathered()) add_kept(builder);
    Program& program = builder.program;
    program.parameter_ring = rings.parameters;
    program.gradient_ring = rings.gradients;
    program.parameter_ring.insert(program.parameter_ring.end(), rings.gathered.begin(),
                                  rings.gathered.end());
    if (copied)
        program.gradient_ring.insert(program.gradient_ring.end(), rings.reduced.begin(),
                                     rings.reduced.end());
}

DType made_gradient_dtype(const Scenario& scenario, const Dims& dims, Sharding sharding,
                          Sharding of_experts) {
    const bool all_copied =
        scenario.training.framework.sharded_buffers != ShardedBuffers::in_place &&
        sharding.gradients && (of_experts.gradients || !scenario.model.has_experts()) &&
        scenario.layout.gradient_sources() == 1;
    return all_copied ? dims.dtype : dims.gradient_dtype;
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
            slot = part;
            if (sharded && action.gathering == Gathering::now) gathering.before(part, with_rings);
            if (sharded)
                for (const std::int32_t bucket : buckets_of(builder, use))
                    if (builder.sharding_of(builder.bucket(bucket)).parameters)
                        builder.place_of_bucket(use, Role::parameter, bucket,
                                                read_at(builder, part, bucket));
            ++part;
        }
        if (phase == Phase::backward && lacks_gradients(builder, use))
            place_gradients(builder, use, slot);
        with_rings.push_back(use);
    }
    action.uses = std::move(with_rings);
}

}  // namespace orrery::plan
