#include "plan/assemble/bind_uses.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/check.hpp"
#include "plan/ir/parameters.hpp"
#include "plan/memory/arena.hpp"

namespace orrery::plan {
namespace {

Slot slot_in(std::int32_t resident, std::int64_t offset = 0) {
    return {Frame::resident, resident, 0, offset};
}

// By tensor.
std::vector<bool> touched(const Block& block) {
    std::vector<bool> found(block.tensors.size(), false);
    for (const Op& op : block.ops)
        for (const auto* ids : {&op.reads, &op.writes})
            for (const TensorId id : *ids)
                found[static_cast<std::size_t>(id)] = true;
    return found;
}

// The parts of a stage, and what passes between them, in actions of one kind.
class StageBinder {
  public:
    StageBinder(const ProgramBuilder& builder, const Stage& stage, ActionKind kind)
        : builder_(builder), stage_(stage), areas_(builder.areas_of(stage.index)), kind_(kind) {}

    // A tensor of a part that outlives its block.
    Slot own(std::int32_t position, const Tensor& tensor) const {
        const StagePart& part = this->part(position);
        const PartAreas& area = areas_.parts[static_cast<std::size_t>(position)];
        switch (tensor.role) {
            case Role::stash:
                if (position == 0 && builder_.placement.receives(stage_.index) &&
                    is_input(part.forward, tensor))
                    return {kind_ == ActionKind::forward ? Frame::input : Frame::received};
                return within(Frame::stash, position, area.stash - area.received_bytes,
                              part.forward, tensor);
            case Role::kept:
                return within(Frame::kept, position, area.kept, part.forward, tensor);
            case Role::deferred:
                if (position == last() && is_input(chain_block(position), tensor))
                    return {Frame::input};
                return within(Frame::deferred, position, area.deferred - area.handed_bytes,
                              part.backward_weight, tensor);
            case Role::recomputed: {
                const std::int32_t holder = part.recompute >= 0 ? part.recompute : part.backward;
                Slot slot = within(Frame::resident, place_in_group(position), area.recomputed,
                                   holder, tensor);
                slot.resident = builder_.program.recomputed;
                return slot;
            }
            default:
                break;
        }
        ORRERY_CHECK(tensor.role == Role::quantized, "a tensor in the memory of its part");
        Slot slot = within(Frame::resident, 0, area.quantized, part.quantize, tensor);
        slot.resident = builder_.program.quantized;
        return slot;
    }

    // What is handed in by the part before or on to the next, of a block of the part at `position`.
    Slot chained(std::int32_t position, const Block& block, std::int32_t number,
                 TensorId id) const {
        if (kind_ == ActionKind::forward)
            return id == block.input ? before_forward(position) : after_forward(position);
        if (part(position).recompute == number)  // hands on to what runs again next
            return own(
                position + 1,
                {input_of(part(position + 1).forward)->name, Role::recomputed, DType::bf16, {}});
        return id == block.input ? gradient_into(position) : gradient_out_of(position);
    }

  private:
    const StagePart& part(std::int32_t position) const {
        return stage_.parts[static_cast<std::size_t>(position)];
    }
    std::int32_t last() const { return static_cast<std::int32_t>(stage_.parts.size()) - 1; }

    const Tensor* input_of(std::int32_t number) const {
        const Block& block = builder_.blocks.block(number);
        return block.input < 0 ? nullptr : &block.tensors[static_cast<std::size_t>(block.input)];
    }
    bool is_input(std::int32_t number, const Tensor& tensor) const {
        const Tensor* input = input_of(number);
        return input != nullptr && input->name == tensor.name;
    }

    // The part's block that gradients pass through: of a whole backward pass or, for the actions of
    // one in two, of its first half.
    std::int32_t chain_block(std::int32_t position) const {
        const StagePart& of = part(position);
        const bool whole = kind_ == ActionKind::backward || of.backward_input < 0;
        return whole ? of.backward : of.backward_input;
    }

    // Where the block that has all of the role keeps it.
    Slot within(Frame frame, std::int32_t piece, std::int64_t base, std::int32_t holder,
                const Tensor& tensor) const {
        if (builder_.slots == Slots::without_offsets) return {frame, -1, piece};
        const Block& block = builder_.blocks.block(holder);
        std::int64_t offset = base;
        for (const Tensor& other : block.tensors) {
            if (other.role != tensor.role) continue;
            if (other.name == tensor.name) return {frame, -1, piece, offset};
            offset += aligned(other.bytes());
        }
        ORRERY_CHECK(false, block.name + " keeps no " + tensor.name);
        return {};
    }

    // Layers that are alike overlay place by place, group by group; others have one piece.
    std::int32_t place_in_group(std::int32_t position) const {
        std::int32_t place = 0;
        if (builder_.scenario.model.kinds.size() > 1) return place;
        while (place < position && part(position - place - 1).recompute >= 0)
            ++place;
        return place;
    }

    Slot frame(std::int32_t number) const {
        const Program& program = builder_.program;
        const bool beside = kind_ == ActionKind::forward && program.beside_scratch >= 0;
        return slot_in((beside ? program.beside_frames
                               : program.frames)[static_cast<std::size_t>(number) % 2]);
    }

    Slot before_forward(std::int32_t position) const {
        return position == 0 ? Slot{Frame::input} : frame(position);
    }

    // In memory of the next part where that keeps what it is handed.
    Slot after_forward(std::int32_t position) const {
        if (position == last()) return {Frame::output};
        const Tensor* input = input_of(part(position + 1).forward);
        const bool keeps = input != nullptr && input->role != Role::input;
        return keeps ? own(position + 1, *input) : frame(position + 1);
    }

    bool passes_on(std::int32_t position) const {
        const Block& passed = builder_.blocks.block(chain_block(position));
        return passed.output == passed.input;
    }

    // Whether it is what the stage hands out: the parts before this one pass it on as it is.
    bool leaves_stage(std::int32_t position) const {
        while (position > 0 && passes_on(position - 1))
            --position;
        return position == 0 && builder_.placement.receives(stage_.index);
    }

    // What the stage received, until a part makes another of it, then a frame.
    Slot gradient_into(std::int32_t position) const {
        if (position < last() && leaves_stage(position + 1)) return {Frame::output};
        std::int32_t made = 0;
        for (std::int32_t p = last(); p > position; --p)
            if (!passes_on(p)) ++made;
        return made == 0 ? Slot{Frame::input} : frame(made);
    }

    Slot gradient_out_of(std::int32_t position) const {
        if (position == 0 || leaves_stage(position)) return {Frame::output};
        const Tensor* input = input_of(chain_block(position - 1));
        const bool keeps = input != nullptr && input->role != Role::input;
        return keeps ? own(position - 1, *input) : gradient_into(position - 1);
    }

    const ProgramBuilder& builder_;
    const Stage& stage_;
    const StageAreas& areas_;
    ActionKind kind_;
};

class UseBinder {
  public:
    explicit UseBinder(ProgramBuilder& builder)
        : builder_(builder),
          program_(builder.program),
          offsets_(builder.slots == Slots::with_offsets),
          touched_(builder.blocks.blocks().size()) {
        if (!offsets_) return;
        scalars_ = scalar_offsets(builder.blocks.blocks(), builder.program);
        for (std::int32_t b = 0; b < static_cast<std::int32_t>(program_.buckets.size()); ++b)
            add_entries(b);
    }

    void run() {
        std::vector<bool> bound(program_.procedures.size(), false);
        for (const Step& step : program_.steps) {
            if (step.procedure < 0 || bound[static_cast<std::size_t>(step.procedure)]) continue;
            bound[static_cast<std::size_t>(step.procedure)] = true;
            const Stage& stage = program_.stages[builder_.chunk(step.action.stage)];
            bind(step.procedure, StageBinder(builder_, stage, step.action.kind));
        }
        if (program_.amendment >= 0)
            bind(program_.amendment,
                 StageBinder(builder_, program_.stages.front(), ActionKind::amend));
    }

  private:
    // Where a parameter lies in its bucket: elements before it, and the bytes of its bucket's
    // parameters before it, of which some may be held in eight bits.
    struct Entry {
        std::int64_t elements = 0;
        std::int64_t bytes = 0;
    };

    void add_entries(std::int32_t bucket) {
        const Stage& stage = program_.stages[builder_.chunk(builder_.bucket(bucket).stage)];
        std::int64_t bytes = 0;
        for (const BucketEntry& entry :
             bucket_entries(builder_.blocks.blocks(), program_, builder_.bucket(bucket))) {
            entries_[{bucket, entry.position}][entry.name] = {entry.offset, bytes};
            const auto position = static_cast<std::size_t>(entry.position);
            const Block& forward = builder_.blocks.block(stage.parts[position].forward);
            const auto parameter = std::find_if(
                forward.tensors.begin(), forward.tensors.end(), [&](const Tensor& tensor) {
                    return tensor.role == Role::parameter && tensor.name == entry.name;
                });
            bytes += entry.elements * size_bytes(parameter->dtype);
        }
    }

    void bind(std::int32_t procedure, const StageBinder& stage) {
        for (BlockUse& use : program_.procedures[static_cast<std::size_t>(procedure)].uses) {
            const Block& block = builder_.blocks.block(use.block);
            use.slots.resize(block.tensors.size());
            std::vector<bool>& is_touched = touched_[static_cast<std::size_t>(use.block)];
            if (is_touched.empty()) is_touched = touched(block);
            for (TensorId id = 0; id < static_cast<TensorId>(block.tensors.size()); ++id)
                if (is_touched[static_cast<std::size_t>(id)])
                    use.slots[static_cast<std::size_t>(id)] = slot_of(use, block, id, stage);
        }
    }

    Slot slot_of(const BlockUse& use, const Block& block, TensorId id,
                 const StageBinder& stage) const {
        const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
        switch (tensor.role) {
            case Role::parameter:
            case Role::gradient:
                return in_bucket(use, tensor, builder_.state_of(use, id));
            case Role::source_gradient:
                return by_source(use, block, id);
            case Role::parameter_shard:
            case Role::gradient_shard:
                return in_shards(use, tensor, builder_.state_of(use, id));
            case Role::optimizer:
                return slot_in(builder_.state_of(use, id), offsets_ ? states_before(block, id) : 0);
            case Role::scalar:
                return slot_in(program_.scalars, offsets_ ? scalars_.at(tensor.name) : 0);
            case Role::scratch:
                return {};
            case Role::source:
            case Role::target:
                return use.slots[static_cast<std::size_t>(id)];  // as the pass says
            case Role::input:
            case Role::output:
                return stage.chained(use.position, block, use.block, id);
            default:
                return stage.own(use.position, tensor);
        }
    }

    // States of several types lie one after another in their bucket's resident.
    static std::int64_t states_before(const Block& block, TensorId id) {
        std::int64_t bytes = 0;
        for (TensorId before = 0; before < id; ++before) {
            const Tensor& tensor = block.tensors[static_cast<std::size_t>(before)];
            if (tensor.role == Role::optimizer) bytes += tensor.bytes();
        }
        return bytes;
    }

    // Blocks of parts name their parameters; what a pass does to a bucket names all of it, and in
    // memory of a ring the shard that comes of it.
    Slot in_bucket(const BlockUse& use, const Tensor& tensor, std::int32_t resident) const {
        if (use.position >= 0 && !offsets_) return slot_in(resident);
        if (use.position >= 0) {
            const auto& entries = entries_.at({builder_.bucket_of(use, tensor), use.position});
            const auto entry = entries.find(tensor.name);
            ORRERY_CHECK(entry != entries.end(), "no " + tensor.name + " in its bucket");
            const bool sum = tensor.role == Role::gradient;
            return slot_in(resident, sum ? entry->second.elements * size_bytes(tensor.dtype)
                                         : entry->second.bytes);
        }
        Slot slot = slot_in(resident);
        const auto& ring = program_.gradient_ring;
        const Bucket& bucket = builder_.bucket(use.bucket);
        const bool whole = tensor.elements() >= bucket.elements + bucket.tied_elements;
        if (std::count(ring.begin(), ring.end(), resident) > 0 && !whole)
            slot.share = builder_.shard_group(bucket);
        return slot;
    }

    // Behind what is reduced: parameters in the order of the bucket, of each what the rows of every
    // rank add. What a pass does to the bucket names them in that order.
    Slot by_source(const BlockUse& use, const Block& block, TensorId id) const {
        if (!offsets_) return slot_in(builder_.state_of(use, id));
        const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
        const std::int32_t number =
            use.position >= 0 ? builder_.bucket_of(use, tensor) : use.bucket;
        const Bucket& bucket = builder_.bucket(number);
        std::int64_t before = 0;
        if (use.position >= 0) {
            before = builder_.sources(bucket) *
                     entries_.at({number, use.position}).at(tensor.name).elements;
        } else {
            for (TensorId other = 0; other < id; ++other)
                if (const Tensor& of = block.tensors[static_cast<std::size_t>(other)];
                    of.role == Role::source_gradient)
                    before += of.elements();
        }
        return slot_in(builder_.state_of(use, id),
                       (builder_.first_source(bucket) + before) * size_bytes(tensor.dtype));
    }

    // Of what is there whole a rank steps its shard; else the shard is all there is.
    Slot in_shards(const BlockUse& use, const Tensor& tensor, std::int32_t resident) const {
        Slot slot = slot_in(resident);
        const Bucket& bucket = builder_.bucket(use.bucket);
        const bool shard = tensor.elements() * builder_.shards(bucket) == bucket.padded();
        if (bucket.shares.empty() || !shard) return slot;
        const BucketState* state = bucket.state(
            tensor.role == Role::gradient_shard ? StateKind::gradients : StateKind::parameters);
        if (state != nullptr && state->extent != Extent::shard)
            slot.share = bucket.shares.front().group;
        return slot;
    }

    ProgramBuilder& builder_;
    Program& program_;
    bool offsets_;
    // Of plans whose slots have offsets:
    std::map<std::string, std::int64_t> scalars_;
    // By bucket and position, of each by name.
    std::map<std::pair<std::int32_t, std::int32_t>, std::map<std::string, Entry>> entries_;
    std::vector<std::vector<bool>> touched_;  // by block
};

}  // namespace

void bind_uses(ProgramBuilder& builder) {
    UseBinder(builder).run();
}

}  // namespace orrery::plan
