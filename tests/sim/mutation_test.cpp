// Plans with one thing taken away: the check that should see it does, or the run gets stuck. What
// shows that those checks can fail.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/checks/validate_plan.hpp"
#include "tests/sim/engine/plan_world.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::ActionKind;
using plan::GroupKind;
using plan::Step;

const theory::Sets kPipeline = {"layout.pipeline_parallel=4", "layout.tensor_parallel=2",
                                "model.n_embd=64", "model.tie_word_embeddings=true"};

struct Mutant {
    plan::Scenario scenario = theory::scenario(kPipeline);
    plan::Plan plan = plan::build_plan(scenario);

    bool has_fault(const std::string& text) const {
        const auto faults = plan_faults(plan, scenario);
        return std::any_of(faults.begin(), faults.end(), [&](const std::string& fault) {
            return fault.find(text) != std::string::npos;
        });
    }
    EngineResult run() const { return run_engine(PlanWorld(plan, 10).input); }
};

TEST(Mutation, TheUnchangedPlanIsSoundAndRuns) {
    const Mutant mutant;
    EXPECT_TRUE(plan_faults(mutant.plan, mutant.scenario).empty());
    EXPECT_TRUE(mutant.run().stuck.empty());
}

// Every receive of every rank, one at a time.
TEST(Mutation, AMissingReceiveIsAFaultAndADeadlock) {
    const Mutant sound;
    int mutants = 0;
    for (std::size_t rank = 0; rank < sound.plan.programs.size(); ++rank)
        for (std::size_t s = 0; s < sound.plan.programs[rank].steps.size(); ++s)
            for (std::size_t i = 0; i < sound.plan.programs[rank].steps[s].transfers.size(); ++i) {
                Mutant mutant = sound;
                auto& transfers = mutant.plan.programs[rank].steps[s].transfers;
                if (plan::is_send(transfers[i].action.kind) || transfers.size() < 2) continue;
                transfers.erase(transfers.begin() + static_cast<std::ptrdiff_t>(i));
                EXPECT_TRUE(mutant.has_fault("a send without its receive"));
                EXPECT_FALSE(mutant.run().stuck.empty()) << "rank " << rank << " step " << s;
                ++mutants;
            }
    EXPECT_GT(mutants, 10);
}

TEST(Mutation, AMissingSendIsAFaultAndADeadlock) {
    Mutant mutant;
    for (Step& step : mutant.plan.programs[1].steps) {
        if (step.transfers.size() != 2) continue;
        std::erase_if(step.transfers,
                      [](const plan::Transfer& t) { return plan::is_send(t.action.kind); });
        break;
    }
    EXPECT_TRUE(mutant.has_fault("a receive without its send"));
    EXPECT_FALSE(mutant.run().stuck.empty());
}

// One rank leaves out a reduction that the others of its group issue.
TEST(Mutation, AMissingAllReduceIsAFaultAndADeadlock) {
    for (const GroupKind group : {GroupKind::embedding, GroupKind::model}) {
        Mutant mutant;
        bool erased = false;
        for (plan::Procedure& procedure : mutant.plan.programs[0].procedures)
            std::erase_if(procedure.uses, [&](const plan::BlockUse& use) {
                const plan::Block& block = mutant.plan.blocks[static_cast<std::size_t>(use.block)];
                const bool it = std::any_of(block.ops.begin(), block.ops.end(),
                                            [&](const plan::Op& op) { return op.group == group; });
                erased = erased || it;
                return it;
            });
        ASSERT_TRUE(erased) << name(group);
        EXPECT_TRUE(
            mutant.has_fault("a collective over " + std::string(name(group)) + " lacks members"));
        EXPECT_FALSE(mutant.run().stuck.empty()) << name(group);
    }
}

// Two receives of one rank in the other order.
TEST(Mutation, CrossedReceivesAreAFaultAndADeadlock) {
    Mutant mutant;
    std::vector<Step*> receives;
    for (Step& step : mutant.plan.programs[2].steps)
        if (step.transfers.size() == 1 && step.transfers.front().action.kind == ActionKind::recv_f)
            receives.push_back(&step);
    ASSERT_GE(receives.size(), 2U);
    std::swap(receives[0]->transfers, receives[1]->transfers);
    EXPECT_TRUE(mutant.has_fault("do not agree on the order of their transfers"));
    EXPECT_TRUE(mutant.has_fault("communication in a cycle"));
    const EngineResult result = mutant.run();
    ASSERT_FALSE(result.stuck.empty());
    for (const StuckTrack& stuck : result.stuck)
        EXPECT_FALSE(stuck.waits_for.empty());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
