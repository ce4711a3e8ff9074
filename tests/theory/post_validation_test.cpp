// What a shifted schedule gains, and what it takes to have it: with free communication and F, I and
// W of one unit each, a rank of zb-2p works 3m units a step and one of zb-v 6m; the last begins
// p − 1 units after the first (Qi 2024, §4 and table 1). A global norm makes each step wait for
// the last rank; validated later, each rank goes on when it has done its own.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/checks/validate_plan.hpp"
#include "plan/memory/arena.hpp"
#include "tests/sim/engine/plan_world.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::ActionKind;
using sim::Picoseconds;

constexpr Picoseconds kUnit = 1000;
constexpr int kSteps = 3;

struct Shape {
    const char* schedule;
    std::int64_t chunks;
    std::int64_t p;
    std::int64_t m;

    Picoseconds work() const { return 3 * chunks * m * kUnit; }
    Picoseconds shift() const { return (p - 1) * kUnit; }
};

const std::vector<Shape> kShapes = {{"zb-2p", 1, 2, 3},  {"zb-2p", 1, 4, 7}, {"zb-2p", 1, 4, 16},
                                    {"zb-2p", 1, 8, 24}, {"zb-v", 2, 2, 3},  {"zb-v", 2, 4, 7},
                                    {"zb-v", 2, 4, 16}};

Sets sets_of(const Shape& shape) {
    return {"model.n_embd=16",
            "model.n_head=2",
            "model.vocab_size=16",
            "training.sequence_length=4",
            "training.optimizer.clip_norm=1",
            std::string("layout.schedule=") + shape.schedule,
            set("model.n_layer", shape.p * shape.chunks),
            set("layout.virtual_pipeline", shape.chunks),
            set("layout.pipeline_parallel", shape.p),
            set("layout.global_batch_size", shape.m)};
}

Sets with_key(Sets sets) {
    sets.push_back("layout.optimizer_post_validation=true");
    return sets;
}

// Some steps in a row, by rank: when each begins to compute and when all of it has ended.
struct Span {
    Picoseconds begin = 0, end = 0;
};
std::vector<std::vector<Span>> run(const plan::Plan& plan, Picoseconds hop = 0) {
    sim::PlanWorld world(plan);
    for (auto& durations : world.durations) {
        std::size_t number = 0;
        for (const plan::Block& block : plan.blocks) {
            const bool layer = block.name.starts_with("layer.");
            if (layer) durations[number] = kUnit;
            number += block.ops.size();
        }
    }
    for (std::size_t t = 0; t < world.input.tracks.size(); ++t) {
        world.input.linked[t] = plan::link(plan, plan.programs[t], kSteps);
        for (auto& to_peer : world.input.tracks[t].statistic_to_peer)
            std::fill(to_peer.begin(), to_peer.end(), hop);
    }
    const sim::EngineResult result = run_engine(world.input);
    EXPECT_TRUE(result.stuck.empty());
    std::vector<std::vector<Span>> spans;
    for (const auto& events : result.events) {
        std::vector<Span>& of_rank = spans.emplace_back(kSteps);
        for (std::size_t i = 0; i < events.size(); ++i) {
            Span& span = of_rank[i * kSteps / events.size()];
            if (events[i].end == events[i].start) continue;
            if (span.end == 0) span.begin = events[i].start;
            span.end = std::max(span.end, events[i].end);
        }
    }
    return spans;
}

Picoseconds end_of(const std::vector<std::vector<Span>>& spans, std::size_t step) {
    Picoseconds end = 0;
    for (const auto& of_rank : spans)
        end = std::max(end, of_rank[step].end);
    return end;
}

TEST(PostValidation, LeavesNoBubbleBetweenShiftedSteps) {
    for (const Shape& shape : kShapes) {
        const auto spans = run(plan_of(with_key(sets_of(shape))));
        for (std::size_t step = 1; step < kSteps; ++step)
            EXPECT_EQ(end_of(spans, step) - end_of(spans, step - 1), shape.work())
                << shape.schedule << " p " << shape.p << " m " << shape.m;
        // The first rank's next forward pass begins when its own work ends.
        EXPECT_EQ(spans[0][1].begin, shape.work());
        EXPECT_EQ(spans[0][1].begin, spans[0][0].end);
    }
}

TEST(PostValidation, WithoutItEveryStepWaitsForTheLastRank) {
    for (const Shape& shape : kShapes) {
        const auto spans = run(plan_of(sets_of(shape)));
        for (std::size_t step = 1; step < kSteps; ++step)
            EXPECT_EQ(end_of(spans, step) - end_of(spans, step - 1), shape.work() + shape.shift())
                << shape.schedule << " p " << shape.p << " m " << shape.m;
    }
}

// Of the hops down the pipeline, which the ranks' shift hides, the last shows at most; of those
// back, which begin when the first backward pass could, the p − 1 from the last rank to the first.
TEST(PostValidation, CostsItsHopsWhereNothingElseIsWaitedFor) {
    for (const Shape& shape : kShapes) {
        constexpr Picoseconds kHop = kUnit / 100;
        const plan::Plan plan = plan_of(with_key(sets_of(shape)));
        const Picoseconds added =
            end_of(run(plan, kHop), 2) - end_of(run(plan, kHop), 1) - shape.work();
        EXPECT_GE(added, 0);
        EXPECT_LE(added, shape.p * kHop) << shape.schedule << " p " << shape.p;
    }
}

// A step that is amended repeats what it has run: with all other ranks p units, as many as the last
// one is away from the first, and its own forward pass.
TEST(PostValidation, RepeatsTheForwardPassesBeforeTheFirstBackward) {
    for (const Shape& shape : {Shape{"zb-2p", 1, 4, 7}, Shape{"1f1b", 1, 4, 7}}) {
        const plan::Plan plan = plan_of(with_key(sets_of(shape)));
        for (const plan::Program& program : plan.programs) {
            std::int64_t forwards = 0;
            for (const plan::Step& step : program.steps) {
                if (step.action.kind == ActionKind::validate) break;
                forwards += step.action.kind == ActionKind::forward ? 1 : 0;
            }
            EXPECT_EQ(forwards, shape.p - program.pipeline_rank) << shape.schedule;
        }
    }
}

// What is kept to go back: 12 bytes of states and 2 of parameters, of what a rank steps.
TEST(PostValidation, KeepsACopyOfStatesAndParameters) {
    for (const std::int64_t data : {1, 2, 4}) {
        Sets sets = sets_of(kShapes.front());
        sets.insert(sets.end(), {set("layout.data_parallel", data), "layout.zero_stage=1",
                                 set("layout.global_batch_size", 3 * data)});
        const plan::Plan without = plan_of(sets), with = plan_of(with_key(sets));
        for (std::size_t rank = 0; rank < 2; ++rank) {
            std::int64_t states = 0, parameters = 0;  // each piece of memory is aligned
            for (const plan::Bucket& bucket : with.programs[rank].buckets) {
                states += plan::aligned(12 * bucket.padded() / data);
                parameters += plan::aligned(2 * bucket.padded() / data);
            }
            const auto optimizer = [&](const plan::Plan& plan) {
                return resident_bytes(plan.programs[rank], plan::MemoryCategory::optimizer);
            };
            EXPECT_EQ(optimizer(without), states);
            EXPECT_EQ(optimizer(with), 2 * states + parameters);
        }
    }
}

// Before the first gradient, on every rank, and with no message on its way: plan_faults says so of
// every plan that is built; here, of plans in which it is not so.
TEST(PostValidation, APlanThatValidatesTooLateIsRefused) {
    const Sets sets = with_key(sets_of(kShapes.front()));
    const plan::Scenario s = scenario(sets);
    for (const std::size_t rank : {0U, 1U}) {
        plan::Plan plan = plan::build_plan(s);
        EXPECT_TRUE(plan_faults(plan, s).empty());
        auto& steps = plan.programs[rank].steps;
        const auto validate = std::find_if(steps.begin(), steps.end(), [](const auto& step) {
            return step.action.kind == ActionKind::validate;
        });
        ASSERT_NE(validate, steps.end());
        const auto backward = std::find_if(validate, steps.end(), [](const auto& step) {
            return step.action.kind == ActionKind::backward_input;
        });
        std::rotate(validate, validate + 1, backward + 1);
        const auto faults = plan_faults(plan, s);
        EXPECT_TRUE(std::any_of(faults.begin(), faults.end(), [](const std::string& fault) {
            return fault.find("before the last ones are validated") != std::string::npos;
        }));
    }
}

// Every schedule has a moment at which all ranks can begin anew.
TEST(PostValidation, IsPlannedInEverySchedule) {
    for (const char* schedule :
         {"1f1b", "gpipe", "zb-h1", "zb-2p", "interleaved", "zb-v", "v-half", "dualpipe-v"}) {
        const std::string name = schedule;
        const bool chunked =
            name == "interleaved" || name == "zb-v" || name == "v-half" || name == "dualpipe-v";
        for (const std::int64_t p : {2, 3, 4})
            for (const std::int64_t m : {p, 2 * p, 3 * p}) {
                if (name == "dualpipe-v" && m < 2 * p) continue;
                const Shape shape{schedule, chunked ? 2 : 1, p, m};
                const plan::Plan plan = plan_of(with_key(sets_of(shape)));
                for (const plan::Program& program : plan.programs)
                    EXPECT_EQ(std::count_if(program.steps.begin(), program.steps.end(),
                                            [](const plan::Step& step) {
                                                return step.action.kind == ActionKind::validate;
                                            }),
                              1);
                EXPECT_GT(end_of(run(plan), kSteps - 1), 0);
            }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
