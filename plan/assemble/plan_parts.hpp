// The parts of a plan, kept for another that has the same: many plans that differ in nothing but
// how data-parallel ranks share states out need their blocks made once (sim/search).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/assemble/stages.hpp"
#include "plan/ir/plan.hpp"

namespace orrery::plan {

class PlanParts {
  public:
    // Whether they are of a plan of such a scenario, layout.zero_stage aside, and how many layers
    // it has where these are alike; none are of any.
    bool like(const Scenario& scenario) const;

    // Those of the blocks that build_plan begins with; made anew where what is kept is of another
    // plan. The library then has the blocks, and this has none until they are put back.
    const PartKinds& move_into(BlockLibrary& blocks, const PlanInput& input,
                               const ChosenPasses& passes, const StagePlacement& placement);
    // From the plan that the library became.
    void put_back(Plan plan);

  private:
    // What of sharing the blocks of parts depend on.
    struct Sharing {
        std::vector<PassId> passes;  // over blocks of parts
        HandsOn hands_on{};
        bool operator==(const Sharing&) const = default;
    };
    static Sharing sharing_of(const PlanInput& input, const ChosenPasses& passes);

    std::optional<Scenario> scenario_;
    Sharing sharing_;
    PartKinds kinds_;
    std::size_t count_ = 0;  // of blocks
    std::vector<Block> blocks_;
};

}  // namespace orrery::plan
