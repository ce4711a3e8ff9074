// A vocabulary that pipeline ranks share out (Yeung et al. 2024, arXiv 2411.05288): what each rank
// holds, what travels, and how many micro-batches are in flight: min(m, p − i + 2) with Algorithm 1
// in 1F1B, min(m, p − i + 1) with Algorithm 2 (section 5.2), and half as many again as ranks where
// the passes are interlaced (section 2).
#include <algorithm>

#include "plan/assemble/chosen_schedule.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/memory/arena.hpp"
#include "plan/schedule/schedule.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::GroupKind;
using plan::Op;

constexpr std::int64_t kHidden = 512, kWords = 128, kTokens = 32, kLayers = 4;

Sets shared(std::int64_t p, const char* how = "vocab-1", const Sets& more = {}) {
    Sets sets = {set("layout.pipeline_parallel", p),
                 std::string("layout.vocabulary_parallel=") + how};
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

std::int64_t parameters_of(const plan::Program& program) {
    std::int64_t elements = 0;
    for (const plan::Bucket& bucket : program.buckets)
        elements += bucket.elements;
    return elements;
}

TEST(SharedVocabulary, EachRankHoldsItsPartOfBothEnds) {
    const std::int64_t layer = 12 * kHidden * kHidden + 13 * kHidden;
    for (const std::int64_t p : {2, 4}) {
        const plan::Plan plan = plan_of(shared(p));
        for (std::int64_t i = 0; i < p; ++i) {
            const std::int64_t positions = i == 0 ? 32 * kHidden : 0;
            const std::int64_t last_norm = i == p - 1 ? 2 * kHidden : 0;
            EXPECT_EQ(parameters_of(plan.programs[static_cast<std::size_t>(i)]),
                      kLayers / p * layer + 2 * kWords / p * kHidden + positions + last_norm)
                << "p " << p << " rank " << i;
        }
    }
}

// Of a head's piece with t tokens, h hidden and V/p words, three products of 2·t·h·V/p FLOPs either
// way: Algorithm 2 makes that of the input's gradient in the forward pass, and adds none.
double flops_of(const plan::Plan& plan, const std::string& block) {
    double sum = 0;
    for (const plan::Block& one : plan.blocks)
        if (one.name.starts_with(block))
            for (const Op& op : one.ops)
                sum += plan::flops(op);
    return sum;
}

TEST(SharedVocabulary, TheSecondAlgorithmMakesTheInputsGradientForward) {
    for (const std::int64_t p : {2, 4}) {
        const auto product = static_cast<double>(2 * kTokens * kHidden * (kWords / p));
        // The block stands twice: on the rank that hands the head its input, and on the others.
        const plan::Plan one = plan_of(shared(p)), two = plan_of(shared(p, "vocab-2"));
        EXPECT_EQ(flops_of(one, "head.forward"), 2 * product);
        EXPECT_EQ(flops_of(one, "head.backward"), 2 * 2 * product);
        EXPECT_EQ(flops_of(two, "head.forward"), 2 * 2 * product);
        EXPECT_EQ(flops_of(two, "head.backward"), 2 * product);
        EXPECT_EQ(plan::executed_flops(one), plan::executed_flops(two));
    }
}

// Elements of a rank's messages in a step, by kind, on the stream of the vocabulary.
std::map<plan::OpKind, std::int64_t> sent_by(const plan::Plan& plan, std::size_t rank) {
    std::map<plan::OpKind, std::int64_t> sent;
    const plan::Program& program = plan.programs[rank];
    for (const plan::Step& step : program.steps) {
        if (step.procedure < 0) continue;
        for (const plan::BlockUse& use :
             program.procedures[static_cast<std::size_t>(step.procedure)].uses)
            for (const Op& op : plan.blocks[static_cast<std::size_t>(use.block)].ops)
                if (op.stream == plan::Stream::vocabulary_comm) sent[op.kind()] += op.size(0);
    }
    return sent;
}

// Of each micro-batch: the head's input goes out and its gradient is summed; the embedding's rows
// are summed and their gradient goes out; of a token three numbers of each part come together.
TEST(SharedVocabulary, SendsTwoActivationsEachWayAndThreeNumbersAToken) {
    const std::int64_t m = 8, p = 4, activation = kTokens * kHidden;
    for (const char* how : {"vocab-1", "vocab-2"}) {
        const plan::Plan plan = plan_of(shared(p, how));
        for (std::size_t rank = 0; rank < p; ++rank) {
            auto sent = sent_by(plan, rank);
            EXPECT_EQ(sent[plan::OpKind::broadcast], 2 * m * activation);
            EXPECT_EQ(sent[plan::OpKind::all_reduce], 2 * m * activation);
            EXPECT_EQ(sent[plan::OpKind::all_gather], 3 * m * p * kTokens);
        }
    }
    // Within the micro-batch the maximum and two sums are reduced instead.
    auto sent = sent_by(plan_of(shared(p, "interlaced")), 1);
    EXPECT_EQ(sent[plan::OpKind::all_reduce], 2 * m * activation + 3 * m * kTokens);
    EXPECT_EQ(sent[plan::OpKind::all_gather], 0);
}

// Passes through layers alone: those of the pieces are stages of their own.
std::int32_t in_flight(const plan::Schedule& schedule, std::size_t rank) {
    std::vector<plan::Action> row;
    for (const plan::Action& action : schedule.grid[rank])
        if (action.stage < schedule.placement.stages()) row.push_back(action);
    return plan::most_in_flight(row);
}

plan::Schedule schedule_of(const char* how, std::int64_t p, std::int64_t m) {
    return plan::chosen_schedule(
        scenario(shared(p, how, {set("model.n_layer", p), set("layout.global_batch_size", m)}))
            .layout);
}

TEST(SharedVocabulary, HasAMicroBatchMoreInFlightForEachBarrier) {
    for (const auto& [how, barriers] : {std::pair("vocab-1", 2), std::pair("vocab-2", 1)})
        for (const std::int64_t p : {2, 3, 4, 8, 16})
            for (const std::int64_t m : {1, 2, 5, 40}) {
                const plan::Schedule schedule = schedule_of(how, p, m);
                for (std::int64_t i = 0; i < p; ++i)
                    EXPECT_EQ(in_flight(schedule, static_cast<std::size_t>(i)),
                              std::min(m, p - i + barriers))
                        << how << " p " << p << " m " << m << " rank " << i;
            }
}

TEST(SharedVocabulary, InterlacedHasHalfAsManyMoreAsRanks) {
    for (const std::int64_t p : {2, 4, 8, 16, 32})
        EXPECT_EQ(in_flight(schedule_of("interlaced", p, 4 * p), 0), p + p / 2) << p;
}

// A plan may be read from a file: one whose messages come from no member of their group is refused.
TEST(SharedVocabulary, ABroadcastComesFromAMemberOfItsGroup) {
    const plan::Scenario asked = scenario(shared(4));
    plan::Plan plan = plan::build_plan(asked);
    ASSERT_TRUE(plan::plan_faults(plan, asked).empty());
    for (plan::Block& block : plan.blocks)
        for (Op& op : block.ops)
            if (op.is<plan::Broadcast>()) op.as<plan::Broadcast>().root = 4;
    const std::vector<std::string> faults = plan::plan_faults(plan, asked);
    ASSERT_FALSE(faults.empty());
    EXPECT_NE(faults.front().find("is from member 4 of 4"), std::string::npos) << faults.front();
}

// The small stash of a piece in the place of a whole stash of layers would keep it from the next
// one, and the arena would grow by a stash of layers for each: next to nothing is lost.
TEST(SharedVocabulary, StashesOfPiecesDoNotTakeTheRoomOfLayers) {
    for (const Sets& sets :
         {shared(2), shared(2, "interlaced"), shared(4, "interlaced"),
          shared(2, "vocab-1", {"layout.schedule=zb-h1"}), shared(4, "vocab-2")}) {
        const plan::Plan plan = plan_of(sets);
        const auto stages = static_cast<std::int32_t>(plan.programs.size());
        for (const plan::Program& program : plan.programs) {
            std::int64_t of_layers = 0;
            for (const plan::Step& step : program.steps)
                if (step.stash >= 0 && step.action.stage < stages)
                    of_layers = program.residents[static_cast<std::size_t>(step.stash)].bytes;
            const std::int64_t live = plan::memory_peak(plan, program).live;
            EXPECT_GT(of_layers, 0);
            EXPECT_LT(program.arena_bytes - live, of_layers)
                << program.arena_bytes << " of which " << live;
        }
    }
}

// All schedules, odd numbers of ranks too: ranks run the pieces' passes in one order.
TEST(SharedVocabulary, RanksRunTheirPiecesInOneOrder) {
    for (const plan::ScheduleKind& kind : plan::schedule_kinds())
        for (const auto& [p, how] :
             {std::pair(2, "vocab-1"), std::pair(3, "vocab-2"), std::pair(5, "vocab-1"),
              std::pair(8, "vocab-2"), std::pair(8, "vocab-1"), std::pair(2, "vocab-2")}) {
            const std::int64_t v = kind.chunks == plan::Chunks::one ? 1 : 2;
            const plan::Schedule schedule = plan::chosen_schedule(
                scenario(shared(p, how,
                                {set("model.n_layer", p * v), set("layout.virtual_pipeline", v),
                                 set("layout.global_batch_size", 4 * p),
                                 "layout.schedule=" + std::string(kind.name)}))
                    .layout);
            std::vector<plan::Action> first;
            for (std::size_t rank = 0; rank < schedule.grid.size(); ++rank) {
                std::vector<plan::Action> pieces;
                for (plan::Action action : schedule.grid[rank])
                    if (action.stage >= schedule.placement.stages()) {
                        action.stage -= static_cast<std::int32_t>(rank);
                        pieces.push_back(action);
                    }
                if (rank == 0) first = pieces;
                EXPECT_EQ(pieces, first) << kind.name << " p " << p << " rank " << rank;
            }
            EXPECT_EQ(first.size(), static_cast<std::size_t>(4 * 4 * p)) << kind.name;
        }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
