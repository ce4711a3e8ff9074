#include "plan/assemble/procedures.hpp"

#include <algorithm>

#include "plan/passes/pass_table.hpp"

namespace orrery::plan {
namespace {

BlockUse use_of(const StagePart& part, std::size_t position, std::int32_t block) {
    BlockUse use;
    use.block = block;
    use.layer = part.layer;
    use.position = static_cast<std::int32_t>(position);
    use.bucket = part.bucket;
    return use;
}

// The bucket of a tied embedding that this rank holds for both its uses, −1: none, or it is frozen.
std::int32_t tied_holder(const ProgramBuilder& builder) {
    for (const Bucket& bucket : builder.program.buckets)
        if (bucket.tied_elements > 0 && !bucket.frozen) return builder.embedding_bucket();
    return -1;
}

// One backward action, or half of one.
class BackwardUses {
  public:
    BackwardUses(ProgramBuilder& builder, const Stage& stage, ActionKind kind,
                 const Completes& completes)
        : builder_(builder),
          stage_(stage),
          kind_(kind),
          completes_(completes),
          holder_(tied_holder(builder)) {}

    std::vector<BlockUse> run() {
        for (std::size_t p = stage_.parts.size(); p-- > 0;) {
            add_part(p);
            for (const std::int32_t bucket : {stage_.parts[p].bucket, stage_.parts[p].other_bucket})
                if (bucket >= 0 &&
                    builder_.bucket(bucket).first_position == static_cast<std::int32_t>(p))
                    end_bucket(bucket);
        }
        if (completes_.tied && holder_ >= 0 && builder_.bucket(holder_).stage != stage_.index)
            settle(holder_);
        return std::move(uses_);
    }

  private:
    void add_part(std::size_t p) {
        const StagePart& part = stage_.parts[p];
        if (kind_ == ActionKind::backward_weight) {
            if (part.backward_weight >= 0) push(use_of(part, p, part.backward_weight));
            return;
        }
        if (part.recompute < 0) recompute_before(p);
        const bool half = kind_ == ActionKind::backward_input && part.backward_input >= 0;
        push(use_of(part, p, half ? part.backward_input : part.backward));
    }

    // Where reductions do not overlap, neither does what comes behind them.
    void push(BlockUse use) {
        use.fence = !overlap() && reduced_;
        reduced_ = false;
        uses_.push_back(use);
    }

    // The parts before this one that run again, of which it is the group's last.
    void recompute_before(std::size_t last) {
        std::size_t first = last;
        while (first > 0 && stage_.parts[first - 1].recompute >= 0)
            --first;
        for (std::size_t p = first; p < last; ++p)
            push(use_of(stage_.parts[p], p, stage_.parts[p].recompute));
    }

    bool waits(const Bucket& bucket) const {
        for (auto p = bucket.first_position; p <= bucket.last_position; ++p)
            if (stage_.parts[static_cast<std::size_t>(p)].backward_weight >= 0) return true;
        return false;
    }

    // What follows the last of a bucket's parts in this action.
    void end_bucket(std::int32_t index) {
        if (builder_.bucket(index).frozen) return;
        const bool waits = this->waits(builder_.bucket(index));
        const bool of_this_half =
            kind_ == ActionKind::backward || waits == (kind_ == ActionKind::backward_weight);
        if (scatters(index) && of_this_half) reduce(reduce_uses(builder_, index));
        const bool complete = waits ? completes_.waiting : completes_.on_the_way;
        if (index == holder_ ? completes_.tied : complete) settle(index);
    }

    // A bucket whose sums are complete. Both gradients of a tied embedding become one: shards are
    // added after the reduction, whole gradients before.
    void settle(std::int32_t index) {
        if (index == holder_)
            for (const BlockUse& use : tied_add_uses(builder_))
                uses_.push_back(use);
        if (!scatters(index)) {
            if (builder_.passes.has(PassId::late_reduction)) return;
            reduce(reduce_uses(builder_, index));
        }
        reduce(replica_uses(builder_, index));
    }

    bool scatters(std::int32_t bucket) const {
        return builder_.sharding_of(builder_.bucket(bucket)).gradients;
    }

    bool overlap() const { return builder_.scenario.training.framework.overlap_gradient_reduce; }

    void reduce(const std::vector<BlockUse>& reductions) {
        for (BlockUse use : reductions) {
            use.fence = !overlap();
            uses_.push_back(use);
            reduced_ = true;
        }
    }

    ProgramBuilder& builder_;
    const Stage& stage_;
    ActionKind kind_;
    Completes completes_;
    std::int32_t holder_;
    bool reduced_ = false;  // the last of uses_ is a reduction
    std::vector<BlockUse> uses_;
};

std::string name_of(ActionKind kind, const Completes& completes) {
    const bool last =
        completes.waiting || (kind == ActionKind::backward_input && completes.on_the_way);
    if (kind == ActionKind::backward_input) return last ? "last backward_input" : "backward_input";
    if (kind == ActionKind::backward_weight)
        return last ? "last backward_weight" : "backward_weight";
    if (last) return "last backward";
    return completes.on_the_way ? "backward before the last weights" : "backward";
}

std::vector<BlockUse> forward_uses(ProgramBuilder& builder, const Stage& stage, bool first,
                                   Gathering gathering) {
    ActionUses action{stage, ActionKind::forward, gathering, first, {}};
    for (std::size_t p = 0; p < stage.parts.size(); ++p)
        action.uses.push_back(use_of(stage.parts[p], p, stage.parts[p].forward));
    builder.passes.run<OverAction>(builder, action);
    return std::move(action.uses);
}

}  // namespace

std::int32_t add_forward(ProgramBuilder& builder, const Stage& stage, bool gathers) {
    return builder.add_procedure(
        (gathers ? "forward " : "gathered forward ") + std::to_string(stage.index),
        forward_uses(builder, stage, false, gathers ? Gathering::now : Gathering::before));
}

std::int32_t add_first_forward(ProgramBuilder& builder, const Stage& stage) {
    const bool gathers = builder.passes.has(PassId::first_gathers);
    const bool quantizes = std::any_of(stage.parts.begin(), stage.parts.end(),
                                       [](const StagePart& part) { return part.quantize >= 0; });
    if (!gathers && !quantizes) return -1;
    return builder.add_procedure("first forward " + std::to_string(stage.index),
                                 forward_uses(builder, stage, true, Gathering::now));
}

std::int32_t add_backward(ProgramBuilder& builder, const Stage& stage, ActionKind kind,
                          const Completes& completes) {
    Gathering gathering = builder.keeps_gathered() ? Gathering::before : Gathering::now;
    if (kind == ActionKind::backward_weight) gathering = Gathering::never;
    ActionUses action{stage, kind, gathering, false,
                      BackwardUses(builder, stage, kind, completes).run()};
    builder.passes.run<OverAction>(builder, action);
    return builder.add_procedure(name_of(kind, completes) + ' ' + std::to_string(stage.index),
                                 std::move(action.uses));
}

}  // namespace orrery::plan
