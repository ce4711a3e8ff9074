#include "plan/memory/places.hpp"

#include <algorithm>

#include "plan/check.hpp"

namespace orrery::plan {
namespace {

std::int64_t index_among(const std::vector<Rank>& ranks, Rank rank) {
    return std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
}

// Offset of a tensor within the area of a block, by name.
std::int64_t offset_in(const Block& block, const StashArea& area, Role role,
                       std::string_view name) {
    for (std::size_t i = 0; i < block.tensors.size(); ++i)
        if (block.tensors[i].role == role && block.tensors[i].name == name) return area.offsets[i];
    ORRERY_CHECK(false, block.name + " keeps no " + std::string(name));
    return -1;
}

}  // namespace

Places::Places(const Plan& plan, const Program& program, const Scenario& scenario, Rank rank)
    : plan_(plan), program_(program), scenario_(scenario), homes_(plan, program) {
    if (scenario.layout.zero_ranks() > 1) {
        const std::vector<Rank> ranks = plan.mesh.group(GroupKind::shard, rank);
        shard_ = index_among(ranks, rank);
        shards_ = static_cast<std::int64_t>(ranks.size());
    }
    tensor_rank_ = plan.mesh.coordinates(rank).tensor;
    for (const Bucket& bucket : program.buckets)
        entries_.push_back(bucket_entries(plan, program, bucket));
    scalars_ = plan::scalar_offsets(plan.blocks, program);
}

std::int64_t Places::address(const Place& place) const {
    return address_of(program_, place.resident) + place.offset;
}

std::int64_t Places::scalar_offset(const std::string& name) const {
    const auto found = scalars_.find(name);
    return found == scalars_.end() ? -1 : found->second;
}

Place Places::of(const Transfer& transfer) const {
    const Resident& resident = program_.residents[static_cast<std::size_t>(transfer.resident)];
    // Shares lie in the order of ranks; whole messages fill what holds them.
    const bool share = !carries_statistic(transfer.action.kind) &&
                       transfer.bytes * plan_.mesh.tensor <= resident.bytes &&
                       scenario_.training.framework.scatter_gather_transfers &&
                       plan_.mesh.tensor > 1 && !scenario_.layout.sequence_parallel;
    return {transfer.resident, share ? tensor_rank_ * transfer.bytes : 0};
}

Place Places::of(const Step& step, const BlockUse& use, TensorId id) const {
    const Block& block = plan_.blocks[static_cast<std::size_t>(use.block)];
    const Home home = homes_.of(step, use, block, id);
    return {home.resident, offset_of(step, use, block, id, home)};
}

std::int64_t Places::offset_of(const Step& step, const BlockUse& use, const Block& block,
                               TensorId id, const Home& home) const {
    const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
    switch (tensor.role) {
        case Role::parameter:
        case Role::gradient:
            return in_bucket(use, tensor, home);
        case Role::parameter_shard:
        case Role::gradient_shard:
            return in_shards(program_.buckets[static_cast<std::size_t>(use.bucket)], tensor);
        case Role::optimizer:
            return 0;
        case Role::scalar:
            return scalars_.at(tensor.name);
        case Role::source:
        case Role::target:
            return use.position < 0 ? 0
                                    : homes_.stage(step.action.stage)
                                          .parts[static_cast<std::size_t>(use.position)]
                                          .stash_offset;
        case Role::scratch:
            return block.scratch_offsets[static_cast<std::size_t>(id)];
        case Role::stash:
        case Role::kept:
        case Role::recomputed:
        case Role::deferred:
        case Role::quantized:
            if (homes_.is_received(step, use, tensor)) return 0;
            return in_area(step, use.position, tensor.role, tensor.name);
        case Role::input:
        case Role::output:
            break;
    }
    const auto landing = homes_.landing(step, use, block, id);
    return landing ? in_area(step, landing->part, landing->role, landing->name) : 0;
}

// Blocks of parts name their parameters; what a pass does to a bucket names all of it, and in
// memory of a ring the shard that comes of it.
std::int64_t Places::in_bucket(const BlockUse& use, const Tensor& tensor, const Home& home) const {
    if (use.position >= 0) {
        for (const BucketEntry& entry : entries_[static_cast<std::size_t>(use.bucket)])
            if (entry.position == use.position && entry.name == tensor.name)
                return entry.offset * size_bytes(tensor.dtype);
        ORRERY_CHECK(false, "no " + tensor.name + " in its bucket");
    }
    const auto& ring = program_.gradient_ring;
    const bool in_ring = std::find(ring.begin(), ring.end(), home.resident) != ring.end();
    const Bucket& bucket = program_.buckets[static_cast<std::size_t>(use.bucket)];
    const bool whole = tensor.elements() >= bucket.elements + bucket.tied_elements;
    return in_ring && !whole ? shard_ * tensor.bytes() : 0;
}

// ZeRO-1 keeps whole gradients and parameters and ZeRO-2 whole parameters, of which a rank steps
// its shard; from then on the shard is all there is.
std::int64_t Places::in_shards(const Bucket& bucket, const Tensor& tensor) const {
    const int kept_whole = tensor.role == Role::gradient_shard ? 1 : 2;
    const int zero = shards_ > 1 ? scenario_.layout.zero_stage : 0;
    if (zero == 0 || zero > kept_whole || tensor.elements() * shards_ != bucket.padded) return 0;
    return shard_ * tensor.bytes();
}

// Of a part's tensor among those that outlive a block. Whoever makes or reads it, one block of the
// part has all of its role.
std::int64_t Places::in_area(const Step& step, std::int32_t position, Role role,
                             std::string_view name) const {
    const Stage& stage = homes_.stage(step.action.stage);
    const StagePart& part = stage.parts[static_cast<std::size_t>(position)];
    std::int64_t base = part.stash_offset;
    std::int32_t holder = part.forward;
    if (role == Role::kept) base = part.kept_offset;
    if (role == Role::recomputed) {
        base = part.recomputed_offset;
        holder = part.recompute >= 0 ? part.recompute : part.backward;
    }
    if (role == Role::deferred) {
        base = part.deferred_offset;
        holder = part.backward_weight;
    }
    if (role == Role::quantized) {
        base = part.quantized_offset;
        holder = part.quantize;
    }
    return base - missing(stage, position, role) +
           offset_in(plan_.blocks[static_cast<std::size_t>(holder)], area(holder, role), role,
                     name);
}

// A stage has what it received elsewhere: the area of the first part's stash, and of the last
// part's deferred tensors, lacks that one, which would come first.
std::int64_t Places::missing(const Stage& stage, std::int32_t position, Role role) const {
    const StagePart& part = stage.parts[static_cast<std::size_t>(position)];
    const Block* into = nullptr;
    if (role == Role::stash && position == 0 && stage.index > 0)
        into = &plan_.blocks[static_cast<std::size_t>(part.forward)];
    if (role == Role::deferred && position + 1 == static_cast<std::int32_t>(stage.parts.size()))
        into = &plan_.blocks[static_cast<std::size_t>(part.backward_input >= 0 ? part.backward_input
                                                                               : part.backward)];
    if (into == nullptr || into->input < 0) return 0;
    const Tensor& input = into->tensors[static_cast<std::size_t>(into->input)];
    return input.role == role ? aligned(input.bytes()) : 0;
}

const StashArea& Places::area(std::int32_t block, Role role) const {
    const auto found = areas_.find({block, role});
    if (found != areas_.end()) return found->second;
    return areas_[{block, role}] = stash_area(plan_.blocks[static_cast<std::size_t>(block)], role);
}

}  // namespace orrery::plan
