// Prices from a measured trace: a replay gives the measured step, a what-if the step that the same
// machine would have measured, and what nobody measured is priced by the profile.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/prediction.hpp"
#include "sim/replay/measured.hpp"
#include "tests/calib/compare/measured_run.hpp"

namespace orrery::compare {
namespace {

using sim::MeasuredCosts;
using sim::PriceSource;
using trace::Picoseconds;

constexpr Picoseconds kMicro = 1'000'000;

struct World {
    plan::ReadResult read;
    plan::Plan plan;
    trace::Trace described;

    explicit World(const std::vector<std::string>& sets)
        : read(plan::read_scenario(std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json",
                                   sets, std::string(ORRERY_SOURCE_DIR) + "/scenarios")) {
        EXPECT_TRUE(read.scenario) << plan::format_text(read.errors);
        plan = plan::build_plan(*read.scenario);
        std::vector<plan::LinkedProgram> linked;
        for (const plan::Program& program : plan.programs)
            linked.push_back(plan::link(plan, program));
        described = trace::describe_plan(plan, std::move(linked));
    }

    const trace::OpName& op(plan::Rank rank, std::uint32_t id) const {
        const auto program = static_cast<std::size_t>(plan.mesh.coordinates(rank).pipeline);
        return described.ops[described.programs[program].op[id]];
    }

    sim::Prediction priced_by(const trace::Trace& measured) const {
        const MeasuredCosts costs(measured, "measured.orrery");
        const sim::Profile profile = sim::load_profiles(read.scenario->cluster);
        return sim::simulate(*read.scenario, profile, {false, &costs}, read.resolved_json);
    }
};

Picoseconds step_of(const trace::Trace& trace) {
    return trace.step_end - trace.step_start;
}

std::size_t at(PriceSource source) {
    return static_cast<std::size_t>(source);
}

// Every op of every rank has a time of its own, and is come to late by one of its own.
class Scattered {
  public:
    Scattered(const World& world, std::uint64_t seed) {
        std::mt19937_64 draw(seed);
        for (plan::Rank rank = 0; rank < world.plan.mesh.ranks(); ++rank) {
            const auto program =
                static_cast<std::size_t>(world.plan.mesh.coordinates(rank).pipeline);
            auto& of_rank = timings_.emplace_back(world.described.programs[program].op.size());
            for (Timing& timing : of_rank)
                timing = {static_cast<Picoseconds>(draw() % 3) * kMicro,
                          static_cast<Picoseconds>(5 + draw() % 45) * kMicro};
        }
    }
    Timing operator()(plan::Rank rank, std::uint32_t op) const {
        return timings_[static_cast<std::size_t>(rank)][op];
    }

  private:
    std::vector<std::vector<Timing>> timings_;
};

const std::vector<std::vector<std::string>>& layouts() {
    static const std::vector<std::vector<std::string>> all = {
        {},
        {"layout.tensor_parallel=1", "layout.pipeline_parallel=1"},
        {"layout.tensor_parallel=8", "layout.pipeline_parallel=1"},
        {"layout.tensor_parallel=4", "layout.pipeline_parallel=1", "layout.sequence_parallel=true"},
        {"layout.tensor_parallel=1", "layout.pipeline_parallel=4", "layout.schedule=gpipe"},
        {"layout.tensor_parallel=1", "layout.pipeline_parallel=2", "layout.virtual_pipeline=2",
         "layout.schedule=interleaved"},
        {"layout.tensor_parallel=2", "layout.pipeline_parallel=1", "layout.zero_stage=3"},
        {"layout.tensor_parallel=1", "layout.pipeline_parallel=2", "layout.zero_stage=1",
         "layout.recompute=full"},
    };
    return all;
}

TEST(Replay, GivesEveryEventOfTheMeasuredStep) {
    std::uint64_t seed = 1;
    for (const auto& sets : layouts()) {
        const World world(sets);
        const trace::Trace measured =
            measured_run(world.plan, Scattered(world, seed++), world.read.resolved_json);
        const sim::Prediction replayed = world.priced_by(measured);
        SCOPED_TRACE(seed);
        EXPECT_EQ(step_of(replayed.trace), step_of(measured));
        EXPECT_DOUBLE_EQ(replayed.prices->share[at(PriceSource::own_time)], 1);
        ASSERT_EQ(replayed.trace.tracks.size(), measured.tracks.size());
        for (std::size_t t = 0; t < measured.tracks.size(); ++t)
            for (std::size_t i = 0; i < measured.tracks[t].events.size(); ++i) {
                ASSERT_EQ(replayed.trace.tracks[t].events[i].start,
                          measured.tracks[t].events[i].start)
                    << "rank " << t << " op " << i;
                ASSERT_EQ(replayed.trace.tracks[t].events[i].end, measured.tracks[t].events[i].end);
            }
    }
}

// The step of a run in which ranks begin the next step before the slowest has ended this one.
TEST(Replay, GivesTheStepOfARunInProgress) {
    std::uint64_t seed = 100;
    for (std::vector<std::string> sets : layouts()) {
        sets.emplace_back("training.optimizer.clip_norm=0");
        const World world(sets);
        constexpr int kSteps = 4;
        const trace::Trace measured =
            measured_run(world.plan, Scattered(world, seed++), world.read.resolved_json, kSteps);
        const sim::Prediction replayed = world.priced_by(measured);
        EXPECT_NEAR(static_cast<double>(step_of(replayed.trace)),
                    static_cast<double>(step_of(measured)),
                    0.03 * static_cast<double>(step_of(measured)))
            << "seed " << seed - 1;
    }
}

// A gap between the last op and the end of the step is of the step.
TEST(Replay, KeepsWhatFollowsTheLastOp) {
    const World world({});
    trace::Trace measured = measured_run(world.plan, Scattered(world, 7));
    measured.step_end += 123 * kMicro;
    EXPECT_EQ(step_of(world.priced_by(measured).trace), step_of(measured));
}

// A machine on which an op takes as long as its name and size say, whatever the layout.
Timings by_name(const World& world) {
    return [&world](plan::Rank rank, std::uint32_t id) {
        const trace::OpName& op = world.op(rank, id);
        Picoseconds sum = 0;
        for (const char c : op.block + op.label)
            sum = (sum * 31 + c) % 47;
        return Timing{kMicro, (3 + sum) * kMicro + static_cast<Picoseconds>(op.bytes)};
    };
}

// Of a run with 8 micro-batches: what 16, another schedule, or other ranks would have measured.
TEST(WhatIf, FromARunIsWhatTheMachineWouldHaveMeasured) {
    const std::vector<std::string> run = {"layout.tensor_parallel=1", "layout.pipeline_parallel=2",
                                          "layout.data_parallel=1"};
    const World measured_world(run);
    const trace::Trace measured = measured_run(measured_world.plan, by_name(measured_world));
    for (const char* set : {"layout.global_batch_size=32", "layout.schedule=gpipe"}) {
        std::vector<std::string> sets = run;
        sets.emplace_back(set);
        const World asked(sets);
        const trace::Trace would = measured_run(asked.plan, by_name(asked));
        const sim::Prediction prediction = asked.priced_by(measured);
        EXPECT_EQ(step_of(prediction.trace), step_of(would)) << set;
        EXPECT_DOUBLE_EQ(prediction.prices->share[at(PriceSource::median)], 1) << set;
        EXPECT_EQ(prediction.prices->ops[at(PriceSource::profile)], 0) << set;
    }
}

// Two copies: the layers are measured, the reduction of gradients between them never was.
TEST(WhatIf, PricesByTheProfileWhatWasNeverMeasured) {
    const World one({"layout.tensor_parallel=1", "layout.pipeline_parallel=1",
                     "layout.data_parallel=1", "layout.global_batch_size=8"});
    const World two(
        {"layout.tensor_parallel=1", "layout.pipeline_parallel=1", "layout.data_parallel=2"});
    const sim::Prediction prediction = two.priced_by(measured_run(one.plan, by_name(one)));
    const sim::PriceSources& prices = *prediction.prices;
    EXPECT_EQ(prices.ops[at(PriceSource::own_time)], 0);
    std::int64_t unmeasured = 0;
    for (const std::uint32_t op : two.described.programs[0].op)
        if (two.described.ops[op].group != plan::GroupKind::none) ++unmeasured;
    EXPECT_GT(unmeasured, 0);
    EXPECT_GE(prices.ops[at(PriceSource::profile)], 2 * unmeasured);
    EXPECT_GT(prices.share[at(PriceSource::median)], 0.5);
    EXPECT_NEAR(prices.share[0] + prices.share[1] + prices.share[2], 1, 1e-12);
}

// Rank 1 computes ten times as long, and rank 0 waits for it in every all-reduce of 4 µs.
TEST(MeasuredCosts, NeverHoldWaiting) {
    const World world(
        {"layout.tensor_parallel=2", "layout.pipeline_parallel=1", "layout.data_parallel=1"});
    const MeasuredCosts costs(
        measured_run(world.plan,
                     [&](plan::Rank rank, std::uint32_t id) {
                         const bool waits = plan::is_communication(world.op(rank, id).kind);
                         return Timing{0, (waits ? 4 : 10 + 90 * rank) * kMicro};
                     }),
        "measured.orrery");
    for (const trace::OpName& op : world.described.ops) {
        const sim::MeasuredOp* measured = costs.find(op);
        if (measured == nullptr) continue;
        const bool communicates = plan::is_communication(op.kind);
        EXPECT_EQ(measured->time.duration, (communicates ? 4 : 55) * kMicro) << op.label;
        EXPECT_EQ(measured->time.late, 0) << op.label;
        // Half 10 µs, half 100 µs: the variance is n ÷ (n − 1) × 45².
        const auto n = static_cast<double>(measured->runs);
        EXPECT_NEAR(measured->relative_sd, communicates ? 0 : std::sqrt(n / (n - 1)) * 45 / 55,
                    1e-12);
    }
}

TEST(MeasuredCosts, RefuseAPrediction) {
    const World world({});
    trace::Trace trace = measured_run(world.plan, Scattered(world, 3));
    trace.origin = trace::Origin::predicted;
    EXPECT_THROW(MeasuredCosts(trace, "p.orrery"), sim::CostsError);
    trace.origin = trace::Origin::measured;
    trace.tracks[0].alike = {{1, 1}};
    EXPECT_THROW(MeasuredCosts(trace, "p.orrery"), sim::CostsError);
}

}  // namespace
}  // namespace orrery::compare
