// Each rule of plan_faults, broken once on purpose, is reported.
#include "plan/checks/validate_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/assemble/build_plan.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Two pipeline ranks, tied embeddings, four micro-batches: every rule has something to look at.
class ValidatePlan : public testing::Test {
  protected:
    ValidatePlan() {
        set_pipeline(scenario, "1f1b", 2, 1, 4);
        set_tensor(scenario, 2, true);
        set_data(scenario, 2);
        plan = build_plan(scenario);
    }

    std::vector<std::string> faults() const { return plan_faults(plan, scenario); }
    Program& program(std::size_t rank) { return plan.programs[rank]; }

    std::size_t step_of(std::size_t rank, const Action& action) {
        const auto& steps = program(rank).steps;
        for (std::size_t s = 0; s < steps.size(); ++s)
            if (steps[s].action == action) return s;
        ADD_FAILURE() << "no step " << to_text(action);
        return 0;
    }
    void erase_step(std::size_t rank, std::size_t step) {
        program(rank).steps.erase(program(rank).steps.begin() + static_cast<std::ptrdiff_t>(step));
    }
    Resident& resident(std::size_t rank, std::int32_t id) {
        return program(rank).residents[static_cast<std::size_t>(id)];
    }
    // The step of a rank with one transfer of this kind; the n-th of them.
    std::size_t transfer_step(std::size_t rank, ActionKind kind, int n = 0) {
        const auto& steps = program(rank).steps;
        for (std::size_t s = 0; s < steps.size(); ++s)
            if (steps[s].transfers.size() == 1 && steps[s].transfers[0].action.kind == kind &&
                n-- == 0)
                return s;
        ADD_FAILURE() << "no such transfer";
        return 0;
    }

    Scenario scenario = small_gpt2();
    Plan plan;
};

TEST_F(ValidatePlan, FindsNothingWrongWithABuiltPlan) {
    EXPECT_THAT(faults(), testing::IsEmpty());
}

TEST_F(ValidatePlan, ReportsAForwardThatRunsTwice) {
    program(0).steps[step_of(0, {0, ActionKind::forward, 2})].action.micro_batch = 1;
    EXPECT_THAT(faults(), Contains("pipeline rank 0: 0F1 twice"));
}

TEST_F(ValidatePlan, ReportsABackwardBeforeItsForward) {
    auto& steps = program(1).steps;
    std::swap(steps[step_of(1, {1, ActionKind::forward, 3})].action,
              steps[step_of(1, {1, ActionKind::backward, 3})].action);
    EXPECT_THAT(faults(), Contains("pipeline rank 1: 1B3 without its one forward"));
}

TEST_F(ValidatePlan, ReportsABackwardThatIsMissing) {
    erase_step(0, step_of(0, {0, ActionKind::backward, 3}));
    EXPECT_THAT(faults(), Contains("pipeline rank 0: 3 of 4 micro-batch passes are complete"));
}

TEST_F(ValidatePlan, ReportsALifeOutsideTheSteps) {
    const auto last = static_cast<std::int32_t>(program(0).steps.size());
    resident(0, program(0).scratch).last_step = last;
    EXPECT_THAT(faults(), Contains("pipeline rank 0: scratch lives outside the steps"));
    resident(0, program(0).scratch).last_step = -1;
    EXPECT_THAT(faults(), Contains("pipeline rank 0: scratch lives outside the steps"));
    resident(0, program(0).scratch).last_step = last - 1;
    EXPECT_THAT(faults(), testing::IsEmpty());
}

TEST_F(ValidatePlan, ReportsResidentsThatShareMemoryByAByte) {
    Resident& frame = resident(1, program(1).frames[1]);
    const std::int64_t offset = frame.offset;
    // One alignment lower it reaches into whoever ends where it began, or begins where it ended.
    frame.offset = offset - 256;
    EXPECT_THAT(faults(), Contains(HasSubstr("shares memory with another")));
    frame.offset = resident(1, program(1).frames[0]).offset;
    EXPECT_THAT(faults(), Contains(HasSubstr("shares memory with another")));
}

// A resident of no bytes takes no place, and gives none up: that of whoever begins there.
TEST_F(ValidatePlan, ReportsSharedMemoryWhereANeighbourWithoutBytesHasEnded) {
    const Resident whole = resident(1, program(1).scratch);
    ASSERT_EQ(whole.first_step, 0);
    Resident empty;
    empty.name = "empty";
    empty.offset = whole.offset;
    empty.first_step = empty.last_step = 0;
    program(1).residents.push_back(empty);
    EXPECT_THAT(faults(), Not(Contains(HasSubstr("shares memory with another"))));
    const std::size_t later = transfer_step(1, ActionKind::recv_f, 1);
    Resident& received = resident(1, program(1).steps[later].transfers[0].resident);
    ASSERT_LE(received.bytes, whole.bytes);
    ASSERT_GT(received.first_step, 0);
    ASSERT_LE(received.last_step, whole.last_step);
    received.offset = whole.offset;
    EXPECT_THAT(faults(), Contains(HasSubstr("shares memory with another")));
}

TEST_F(ValidatePlan, ReportsAUseOutsideALife) {
    const Step& step = program(1).steps[step_of(1, {1, ActionKind::backward, 0})];
    resident(1, step.stash).last_step -= 1;
    EXPECT_THAT(faults(), Contains("pipeline rank 1: 1B0 touches stash 1F0 outside its life"));
}

TEST_F(ValidatePlan, ReportsATensorWithoutAPlace) {
    Procedure& procedure = program(0).procedures.front();
    const Block& block = plan.blocks[static_cast<std::size_t>(procedure.uses.front().block)];
    std::size_t t = 0;
    while (block.tensors[t].role != Role::parameter)
        ++t;
    Slot& slot = procedure.uses.front().slots[t];
    const Slot sound = slot;
    const std::string& name = block.tensors[t].name;
    slot.frame = Frame::none;
    EXPECT_THAT(faults(), testing::ElementsAre("pipeline rank 0: forward 0: embedding.forward has "
                                               "no place for " +
                                               name));
    slot = sound;
    procedure.uses.front().slots.pop_back();
    EXPECT_THAT(faults(), Contains(HasSubstr("embedding.forward has")));
}

TEST_F(ValidatePlan, ReportsATensorOutsideItsMemory) {
    Procedure& procedure = program(0).procedures.front();
    Slot* slot = nullptr;
    for (Slot& each : procedure.uses[1].slots)
        if (each.frame == Frame::stash && (slot == nullptr || each.offset > slot->offset))
            slot = &each;
    ASSERT_NE(slot, nullptr);
    slot->offset += std::int64_t{1} << 30;
    EXPECT_THAT(faults(), Contains(HasSubstr("bytes of stash 0F0, which has")));
}

// Who reads the other piece would not wait for who writes the first.
TEST_F(ValidatePlan, ReportsPiecesThatShareBytes) {
    Procedure& procedure = program(0).procedures.front();
    std::vector<Slot*> stash;
    for (Slot& each : procedure.uses.back().slots)
        if (each.frame == Frame::stash) stash.push_back(&each);
    ASSERT_GT(stash.size(), 1U);
    stash[1]->offset = stash[0]->offset;
    EXPECT_THAT(faults(), testing::IsEmpty());  // of one piece, whose accesses are ordered
    stash[1]->piece += 1;
    EXPECT_THAT(faults(), Contains(HasSubstr("forward 0: pieces ")));
}

TEST_F(ValidatePlan, ReportsMemoryThatIsNotAliveYet) {
    resident(0, program(0).buckets.back().parameters).first_step = 1;
    EXPECT_THAT(faults(), Contains(HasSubstr("0F0 touches parameters bucket")));
}

// What the second half of backward reads lives until then.
TEST(ValidateHalves, ReportWhatDiesBeforeTheWeights) {
    Scenario scenario = small_gpt2();
    set_pipeline(scenario, "zb-h1", 2, 1, 4);
    Plan plan = build_plan(scenario);
    EXPECT_THAT(plan_faults(plan, scenario), testing::IsEmpty());
    Program& program = plan.programs[1];
    auto residents = [&](const char* name) -> Resident& {
        return *std::find_if(program.residents.begin(), program.residents.end(),
                             [&](const Resident& r) { return r.name == name; });
    };
    residents("deferred 1I0").last_step -= 1;
    EXPECT_THAT(plan_faults(plan, scenario),
                testing::ElementsAre("pipeline rank 1: 1W0 touches deferred 1I0 outside its life"));
    residents("deferred 1I0").last_step += 1;
    residents("kept 1F2").last_step -= 1;
    EXPECT_THAT(plan_faults(plan, scenario),
                testing::ElementsAre("pipeline rank 1: 1W2 touches kept 1F2 outside its life"));
}

// The group that sums a tied embedding is of the first and the last pipeline rank.
TEST(ValidateStages, ReportATiedEmbeddingBetweenTheEnds) {
    Scenario scenario = small_gpt2();
    set_pipeline(scenario, "1f1b", 4, 1, 4);
    Plan plan = build_plan(scenario);
    EXPECT_THAT(plan_faults(plan, scenario), testing::IsEmpty());
    std::swap(plan.programs[2].pipeline_rank, plan.programs[3].pipeline_rank);
    EXPECT_THAT(plan_faults(plan, scenario),
                Contains("pipeline rank 2: reduces a tied embedding between the ends"));
}

TEST(ValidateHalves, ReportAHalfWithoutTheOther) {
    Scenario scenario = small_gpt2();
    set_pipeline(scenario, "zb-h1", 2, 1, 4);
    const Plan sound = build_plan(scenario);
    auto with = [&](std::int32_t from, ActionKind kind) {
        Plan plan = sound;
        for (Step& step : plan.programs[1].steps)
            if (step.action == Action{1, ActionKind::backward_weight, from})
                step.action.kind = kind;
        return plan_faults(plan, scenario);
    };
    EXPECT_THAT(with(0, ActionKind::backward),
                Contains("pipeline rank 1: 1B0 without its one forward"));
    EXPECT_THAT(with(0, ActionKind::step),
                Contains("pipeline rank 1: 3 of 4 micro-batch passes are complete"));
    Plan twice = sound;
    for (Step& step : twice.programs[1].steps)
        if (step.action == Action{1, ActionKind::backward_weight, 1}) step.action.micro_batch = 0;
    EXPECT_THAT(plan_faults(twice, scenario),
                Contains("pipeline rank 1: 1W0 without its one backward_input"));
}

TEST_F(ValidatePlan, ReportsATransferOutsideALife) {
    const std::size_t s = transfer_step(0, ActionKind::send_f);
    Resident& sent = resident(0, program(0).steps[s].transfers[0].resident);
    sent.last_step = static_cast<std::int32_t>(s) - 1;
    EXPECT_THAT(faults(),
                Contains("pipeline rank 0: 0SEND_F0 touches sending 0F0 outside its life"));
}

TEST_F(ValidatePlan, ReportsASendWithoutReceive) {
    program(1).steps[transfer_step(1, ActionKind::recv_f)].transfers.clear();
    EXPECT_THAT(faults(), Contains("a send without its receive"));
    EXPECT_THAT(faults(), testing::Not(Contains("a receive without its send")));
}

TEST_F(ValidatePlan, ReportsAReceiveWithoutSend) {
    program(0).steps[transfer_step(0, ActionKind::send_f)].transfers.clear();
    EXPECT_THAT(faults(), Contains("a receive without its send"));
    EXPECT_THAT(faults(), testing::Not(Contains("a send without its receive")));
}

TEST_F(ValidatePlan, ReportsATransferOfAnotherMicroBatch) {
    program(0).steps[transfer_step(0, ActionKind::send_f)].transfers[0].action.micro_batch = 9;
    EXPECT_THAT(faults(), Contains("a send without its receive"));
    EXPECT_THAT(faults(), Contains("a receive without its send"));
}

TEST_F(ValidatePlan, ReportsTransfersInAnotherOrderThanThePeers) {
    auto& steps = program(0).steps;
    std::swap(steps[transfer_step(0, ActionKind::send_f, 0)].transfers,
              steps[transfer_step(0, ActionKind::send_f, 1)].transfers);
    EXPECT_THAT(faults(), Contains("ranks 0 and 1 do not agree on the order of their transfers"));
    EXPECT_THAT(faults(), Contains("communication in a cycle: the plan would deadlock"));
}

TEST_F(ValidatePlan, ReportsACollectiveThatLacksMembers) {
    for (const GroupKind group : {GroupKind::embedding, GroupKind::model}) {
        Plan broken = plan;
        for (Procedure& procedure : broken.programs[1].procedures)
            std::erase_if(procedure.uses, [&](const BlockUse& use) {
                const auto& ops = broken.blocks[static_cast<std::size_t>(use.block)].ops;
                return std::any_of(ops.begin(), ops.end(),
                                   [&](const Op& op) { return op.group == group; });
            });
        EXPECT_THAT(plan_faults(broken, scenario),
                    Contains("a collective over " + std::string(name(group)) + " lacks members"));
    }
}

// One rank reduces over the model before the embedding, the other after: each group alone agrees.
TEST_F(ValidatePlan, ReportsACycleAcrossGroups) {
    auto& steps = program(1).steps;
    std::size_t tied = steps.size();
    std::size_t clip = steps.size();
    for (std::size_t s = 0; s < steps.size(); ++s) {
        if (steps[s].action.kind == ActionKind::reduce_tied) tied = s;
        if (steps[s].action.kind == ActionKind::clip) clip = s;
    }
    ASSERT_LT(tied, clip);
    std::swap(steps[tied], steps[clip]);
    EXPECT_THAT(faults(), Contains("communication in a cycle: the plan would deadlock"));
}

TEST_F(ValidatePlan, ReportsAnotherNumberOfLayers) {
    for (StagePart& part : program(0).stages.front().parts)
        if (part.layer == 1) part.layer = -1;
    EXPECT_THAT(faults(), Contains("the plan has 3 layers, the model 4"));
}

TEST_F(ValidatePlan, ReportsAnotherNumberOfParameters) {
    ++program(0).buckets.front().elements;
    // Each of the two tensor ranks holds one element too many.
    const Model& m = scenario.model;
    const std::int64_t layer = 12 * m.hidden * m.hidden + 13 * m.hidden;
    const std::int64_t rows = 256;  // 250 words in multiples of 32 × 2
    const std::int64_t held =
        m.layers * layer + 2 * rows * m.hidden + m.max_positions * m.hidden + 2 * m.hidden;
    EXPECT_THAT(faults(), Contains("the plan holds " + std::to_string(held + 2) +
                                   " parameters, the scenario asks for " + std::to_string(held)));
}

TEST_F(ValidatePlan, ReportsReplicatedParametersThatAreCountedAsSharded) {
    program(0).buckets.front().replicated_elements -= 1;
    EXPECT_THAT(faults(), Contains(HasSubstr(" parameters, the scenario asks for ")));
}

TEST_F(ValidatePlan, ReportsOtherForwardFlops) {
    for (Block& block : plan.blocks)
        for (Op& op : block.ops)
            if (block.name == "layer.forward" && op.label == "fc1") op.as<Gemm>().n *= 2;
    EXPECT_THAT(faults(), Contains(HasSubstr("forward FLOPs of the plan are 1.")));
}

TEST_F(ValidatePlan, ReportsAPartThatIsLeftOut) {
    program(1).stages.front().parts.erase(program(1).stages.front().parts.begin());
    EXPECT_THAT(faults(), Contains("the plan has 3 layers, the model 4"));
    EXPECT_THAT(faults(), Contains(HasSubstr("forward FLOPs of the plan are 0.")));
}

TEST_F(ValidatePlan, StopsTheProgramWithEveryFault) {
    for (StagePart& part : program(0).stages.front().parts)
        if (part.layer == 1) part.layer = -1;
    ++program(0).buckets.front().elements;
    EXPECT_DEATH(validate_plan(plan, scenario), "3 layers(.|\n)*parameters");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
