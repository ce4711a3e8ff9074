// What comes behind the reduction of a part's gradients: beside it where reductions overlap, and
// after it where they do not.
#include <gtest/gtest.h>

#include "plan/assemble/build_plan.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

// Parts of the stage whose use comes right behind a reduction, and how many of these wait for it.
struct Behind {
    int parts = 0, waiting = 0;
};

Behind behind_reductions(int zero_stage, bool overlap) {
    Scenario s = small_llama();
    set_data(s, 2);
    s.layout.zero_stage = zero_stage;
    s.training.framework.overlap_gradient_reduce = overlap;
    const Plan plan = build_plan(s);
    Behind behind;
    for (const Procedure& procedure : plan.programs.front().procedures) {
        bool reduced = false;
        for (const BlockUse& use : procedure.uses) {
            const std::string& name = plan.blocks[static_cast<std::size_t>(use.block)].name;
            if (name == "gather.bucket") continue;
            if (reduced && use.position >= 0) {
                ++behind.parts;
                behind.waiting += use.fence ? 1 : 0;
            }
            reduced = name == "reduce.bucket";
        }
    }
    return behind;
}

TEST(Reductions, OfSharedGradientsAreWaitedForWhereTheyDoNotOverlap) {
    for (const int zero_stage : {2, 3}) {
        const Behind beside = behind_reductions(zero_stage, true);
        EXPECT_GT(beside.parts, 0);
        EXPECT_EQ(beside.waiting, 0);
        const Behind after = behind_reductions(zero_stage, false);
        EXPECT_EQ(after.parts, beside.parts);
        EXPECT_EQ(after.waiting, after.parts);
    }
}

// Whole gradients are reduced when all backward passes are done.
TEST(Reductions, OfWholeGradientsHaveNoPartBehindThemWhereTheyDoNotOverlap) {
    EXPECT_EQ(behind_reductions(1, false).parts, 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
