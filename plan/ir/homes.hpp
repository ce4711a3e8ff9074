// Which piece of memory each tensor of a block use stands for. Whoever orders accesses (link) and
// whoever places tensors in the arena (plan/memory/places.hpp) ask here, so that they agree.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

// A resident, and which of the pieces that it is divided into: a stash by position of the part,
// what is made again by place in its group; everything else is one piece.
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

    // The part that a tensor handed in or out by the chain belongs to, where it is that part's
    // stash or what it makes again; −1 otherwise.
    std::int32_t receiving_part(const Step& step, const BlockUse& use, const Block& block,
                                TensorId tensor) const;

    // Whether a tensor of a stage's first part is the activation that the stage received, which
    // lies in a resident of its own until backward has read it.
    bool is_received(const Step& step, const BlockUse& use, const Tensor& tensor) const;

    const Stage& stage(std::int32_t index) const;

  private:
    const Bucket& bucket_of(const BlockUse& use) const;
    std::int32_t bucket_state(const BlockUse& use, Role role) const;
    Home recomputed(const Step& step, std::int32_t position) const;
    std::int32_t frame(std::int32_t number) const;
    std::int32_t gradient_into(const Step& step, const Stage& stage, std::int32_t position) const;
    Home of_chain(const Step& step, const BlockUse& use, const Block& block, TensorId tensor) const;

    const Plan& plan_;
    const Program& program_;
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> received_;  // stage, micro-batch
};

}  // namespace orrery::plan
