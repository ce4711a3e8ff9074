// From slots to bytes: where a rank finds what its program touches.
#pragma once

#include <array>
#include <cstdint>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

struct Place {
    std::int32_t resident = -1;
    std::int64_t offset = 0;  // bytes from the resident's start
};

class Addresses {
  public:
    // Of one rank; plan and program must outlive the object.
    Addresses(const Plan& plan, const Program& program, Rank rank);

    Place place(const Step& step, const BlockUse& use, TensorId tensor) const;
    Place place(const Transfer& transfer) const;

    // Bytes from the start of the rank's memory on all tiers (first_address).
    std::int64_t at(const Place& place) const;

    // This rank's number in its group of tensor, data or shard ranks.
    std::int64_t member(GroupKind group) const { return member_[static_cast<std::size_t>(group)]; }

  private:
    const Plan& plan_;
    const Program& program_;
    std::array<std::int64_t, kGroupKinds> member_{};  // of each group: this rank's place in it
};

}  // namespace orrery::plan
