// Steps that hide each other's exchange of experts' rows (DeepSeek-AI 2024, arXiv 2412.19437,
// section 3.2.1): which they are, in which order their ops are issued, and what they must not
// share.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/assemble/build_plan.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/ir/link.hpp"
#include "plan/memory/arena.hpp"
#include "plan/text/text.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

struct Shape {
    const char* schedule;
    std::int64_t pipeline, chunks, micro_batches;
    std::int64_t tensor = 1;
};

const std::vector<Shape> kShapes = {{"1f1b", 1, 1, 4},        {"1f1b", 1, 1, 2, 2},
                                    {"interleaved", 2, 2, 4}, {"interleaved", 2, 2, 8, 2},
                                    {"dualpipe-v", 2, 2, 6},  {"dualpipe-v", 2, 2, 4, 2}};

Scenario scenario_of(const Shape& shape, bool overlaps = true) {
    Scenario s = small_mixtral();
    s.model.layers = 4;
    set_tensor(s, shape.tensor, shape.tensor > 1);
    set_pipeline(s, shape.schedule, shape.pipeline, shape.chunks, shape.micro_batches);
    set_data(s, 2);
    s.layout.expert_parallel = 2;
    s.layout.overlap_expert_communication = overlaps;
    return s;
}

std::vector<std::size_t> pairs_of(const Program& program) {
    std::vector<std::size_t> seconds;
    for (std::size_t s = 0; s < program.steps.size(); ++s)
        if (program.steps[s].beside_last) seconds.push_back(s);
    return seconds;
}

TEST(ExpertOverlap, PlansHoldAndAreReadAgain) {
    for (const Shape& shape : kShapes) {
        const Plan plan = build_plan(scenario_of(shape));  // runs all checks
        const ParsedPlan read = parse_plan(to_text(plan));
        ASSERT_TRUE(read.plan) << read.error;
        EXPECT_EQ(*read.plan, plan) << shape.schedule;
        for (const Program& program : plan.programs) {
            const std::vector<std::size_t> seconds = pairs_of(program);
            EXPECT_FALSE(seconds.empty()) << shape.schedule;
            for (const std::size_t second : seconds)
                EXPECT_NE(program.steps[second].action.micro_batch,
                          program.steps[second - 1].action.micro_batch);
        }
    }
}

// Without a pipeline all forward passes but the first have a backward pass beside them.
TEST(ExpertOverlap, OnePassGoesAhead) {
    for (const std::int64_t micro_batches : {2, 4, 7}) {
        const Plan plan = build_plan(scenario_of({"1f1b", 1, 1, micro_batches}));
        EXPECT_EQ(pairs_of(plan.programs[0]).size(), static_cast<std::size_t>(micro_batches - 1));
    }
}

// In the steady state of interleaved stages, too, after the 2(p − i − 1) + (v − 1)p + 1 that go
// ahead on rank i; on ranks before the last the first forward pass may go before its backward pass
// is there.
TEST(ExpertOverlap, StagesRunInPairs) {
    constexpr std::int64_t p = 2, v = 2, m = 8;
    const Plan plan = build_plan(scenario_of({"interleaved", p, v, m}));
    for (std::int64_t rank = 0; rank < p; ++rank) {
        const std::int64_t ahead = 2 * (p - rank - 1) + (v - 1) * p + 1;
        const auto pairs = static_cast<std::int64_t>(
            pairs_of(plan.programs[static_cast<std::size_t>(rank)]).size());
        EXPECT_LE(pairs, m * v - ahead) << "rank " << rank;
        EXPECT_GE(pairs, m * v - ahead - (rank + 1 < p ? 1 : 0)) << "rank " << rank;
    }
}

// After the exchange of one comes an op of the other, as long as that has any.
TEST(ExpertOverlap, StepsTakeTurnsAtExchanges) {
    for (const Shape& shape : kShapes) {
        const Plan plan = build_plan(scenario_of(shape));
        std::vector<const Op*> ops;
        for (const Block& block : plan.blocks)
            for (const Op& op : block.ops)
                ops.push_back(&op);
        for (const Program& program : plan.programs) {
            const LinkedProgram linked = link(plan, program);
            std::vector<std::size_t> last(program.steps.size());
            for (std::size_t i = 0; i < linked.size(); ++i)
                last[linked.step[i]] = i;
            std::size_t turns = 0;
            for (std::size_t i = 0; i + 1 < linked.size(); ++i) {
                const auto step = static_cast<std::size_t>(linked.step[i]);
                const bool second = program.steps[step].beside_last;
                const bool first =
                    step + 1 < program.steps.size() && program.steps[step + 1].beside_last;
                if ((!first && !second) || !ops[linked.op[i]]->is<AllToAllV>() ||
                    ops[linked.op[i + 1]]->is<AllToAllV>())
                    continue;
                const std::size_t other = second ? step - 1 : step + 1;
                if (last[other] < i) continue;
                EXPECT_EQ(linked.step[i + 1], other) << shape.schedule;
                ++turns;
            }
            // Four exchanges a layer, two of them forward; the last may have nobody to take turns.
            EXPECT_GE(turns, 3 * pairs_of(program).size()) << shape.schedule;
        }
    }
}

// One forward pass more keeps its activations, and scratch is there for both.
TEST(ExpertOverlap, TakesTheMemoryOfOneMorePass) {
    const Shape shape{"1f1b", 1, 1, 4};
    const Plan apart = build_plan(scenario_of(shape, false)),
               beside = build_plan(scenario_of(shape));
    const auto stash = [](const Plan& plan) {
        for (const Resident& resident : plan.programs[0].residents)
            if (resident.name == "stash 0F0") return resident.bytes;
        return std::int64_t{0};
    };
    const auto peak = [](const Plan& plan) { return memory_peak(plan, plan.programs[0]).live; };
    EXPECT_GE(peak(beside), peak(apart) + stash(beside));
    EXPECT_EQ(beside.conserved, apart.conserved);
}

void expect_fault(const Plan& plan, const Scenario& scenario, const char* text) {
    const std::vector<std::string> faults = plan_faults(plan, scenario);
    EXPECT_TRUE(std::any_of(faults.begin(), faults.end(), [&](const std::string& fault) {
        return fault.find(text) != std::string::npos;
    })) << text;
}

TEST(ExpertOverlap, PairsThatMayNotBeAreFaults) {
    const Scenario scenario = scenario_of({"1f1b", 1, 1, 4});
    const Plan sound = build_plan(scenario);
    const std::size_t second = pairs_of(sound.programs[0]).front();
    Plan first_of_all = sound;
    first_of_all.programs[0].steps[0].beside_last = true;
    expect_fault(first_of_all, scenario, "issued in turns");
    Plan of_one = sound;  // backward of what the forward step is about to keep
    of_one.programs[0].steps[second].stash = of_one.programs[0].steps[second - 1].stash;
    expect_fault(of_one, scenario, "shares bytes");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
