// Which piece of memory each tensor of a block use stands for. Whoever orders accesses (link) and
// whoever places tensors in the arena (plan/memory/places.hpp) ask here, so that they agree.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// A resident, and which of the pieces that it is divided into: a stash and what is kept or deferred
// by position of the part, what is made again by place in its group; everything else is one piece.
struct Home {
    std::int32_t resident = -1;
    std::int32_t piece = 0;
    bool operator==(const Home&) const = default;
};

class Homes {
  public:
    // Both must outlive the object.
    Homes(const Plan& plan, const Program& program);

    Home of(const Step& step, const BlockUse& use, const Block& block, TensorId tensor) const;

    // Where a tensor that the chain hands on becomes one of the next part's own: in its stash,
    // among what is kept, made again or deferred of it. nullopt: it lies in a frame, or leaves the
    // stage.
    struct Landing {
        std::int32_t part = -1;
        Role role = Role::stash;  // as that part knows it
        std::string_view name;
    };
    std::optional<Landing> landing(const Step& step, const BlockUse& use, const Block& block,
                                   TensorId tensor) const;

    // Whether a tensor is what the stage received and keeps, which lies in a resident of its own
    // until who needs it has read it: the first part's activation, the last one's gradient.
    bool is_received(const Step& step, const BlockUse& use, const Tensor& tensor) const;

    // The part's block that gradients pass through: of a whole backward pass or, for the actions of
    // one in two, of its first half.
    const Block& chain_block(const Step& step, const StagePart& part) const;

    const Stage& stage(std::int32_t index) const;

  private:
    const Bucket& bucket_of(const BlockUse& use) const;
    std::int32_t bucket_state(const BlockUse& use, Role role) const;
    Home area(const Step& step, std::int32_t position, Role role) const;
    Home recomputed(const Step& step, std::int32_t position) const;
    std::int32_t received(const Step& step) const;
    Home of_copy(const Step& step, const BlockUse& use, Role role) const;
    std::int32_t frame(std::int32_t number) const;
    std::int32_t gradient_into(const Step& step, const Stage& stage, std::int32_t position) const;
    Home of_chain(const Step& step, const BlockUse& use, const Block& block, TensorId tensor) const;

    const Block& block(std::int32_t index) const {
        return plan_.blocks[static_cast<std::size_t>(index)];
    }

    const Plan& plan_;
    const Program& program_;
    using Key = std::pair<std::int32_t, std::int32_t>;  // stage, micro-batch
    std::map<Key, std::int32_t> received_;
    std::map<Key, std::int32_t> fetched_;  // what was received, back from another tier of memory
};

}  // namespace orrery::plan
