// Prices from a measured trace: a replay gives the measured step, a what-if the step that the same
// machine would have measured, and what nobody measured is priced by the profile.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "calib/compare/calibration_from_trace.hpp"
#include "calib/compare/validate.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/machine.hpp"
#include "sim/prediction.hpp"
#include "sim/replay/measured.hpp"
#include "sim/whatif/what_if.hpp"
#include "tests/calib/compare/measured_run.hpp"
#include "trace/critical_path.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

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

// The chain that a measured step hung on: from op to op, and where one came late, its host.
TEST(Replay, HasACriticalPathFromTheStepsBeginningToItsEnd) {
    std::uint64_t seed = 1;
    for (const auto& sets : layouts()) {
        const World world(sets);
        SCOPED_TRACE(seed);
        const Scattered timings(world, seed++);
        trace::Trace measured = measured_run(world.plan, timings, world.read.resolved_json);
        constexpr Picoseconds kAfter = 7 * kMicro;
        measured.step_end += kAfter;  // the run goes on after its last op
        const trace::Trace replayed = world.priced_by(measured).trace;
        const std::vector<trace::PathSegment> path = trace::critical_path(replayed, {});
        Picoseconds now = replayed.step_start;
        for (const trace::PathSegment& segment : path) {
            EXPECT_EQ(segment.from, now);
            now = segment.to;
        }
        EXPECT_EQ(now, replayed.step_end);
        EXPECT_EQ(path.back().op, trace::kHost);
        EXPECT_EQ(path.back().to - path.back().from, kAfter);
        // The step stays as it is when what is not on it takes no time.
        std::set<std::pair<plan::Rank, std::uint32_t>> on_path;
        for (const trace::PathSegment& segment : path)
            if (segment.op != trace::kHost)
                on_path.emplace(replayed.tracks[static_cast<std::size_t>(segment.track)].rank,
                                segment.op);
        const trace::Trace alone = measured_run(
            world.plan,
            [&](plan::Rank rank, std::uint32_t op) {
                Timing timing = timings(rank, op);
                if (!on_path.contains({rank, op})) timing.duration = 0;
                return timing;
            },
            world.read.resolved_json);
        EXPECT_EQ(step_of(alone), step_of(measured) - kAfter);
    }
}

// One rank, whose ops all take D and all come L late: what n of them gain is known.
TEST(Replay, WhatWouldShortenAMeasuredStepIsAskedOfItsTimes) {
    constexpr Picoseconds kLate = 2 * kMicro, kTakes = 30 * kMicro;
    const World world({"layout.tensor_parallel=1", "layout.pipeline_parallel=1",
                       "layout.data_parallel=1", "cluster.devices_per_node=1"});
    const trace::Trace measured = measured_run(
        world.plan,
        [&](plan::Rank, std::uint32_t) {
            return Timing{kLate, kTakes};
        },
        world.read.resolved_json);
    const sim::Prediction now = world.priced_by(measured);
    const auto ops = static_cast<std::int64_t>(now.trace.tracks.front().events.size());
    ASSERT_EQ(step_of(now.trace), ops * (kLate + kTakes));
    std::int64_t products = 0, of_optimizer = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(ops); ++i) {
        const trace::OpName& op = now.trace.op_of(now.trace.tracks.front(), i);
        ASSERT_EQ(op.stream, plan::Stream::compute);
        if (op.kind == plan::OpKind::gemm) ++products;
        if (op.phase == plan::Phase::optimizer) ++of_optimizer;
    }
    MeasuredCosts costs(measured, "measured.orrery");
    costs.price_by_means();
    sim::Profile profile = sim::load_profiles(world.read.scenario->cluster);
    for (auto& [dtype, peak] : profile.hardware.peak_tflops)
        peak.value = 1e9;  // any product in no time
    std::map<std::string_view, Picoseconds> gains;
    for (const sim::Answer& answer : sim::ask_what_ifs(
             *world.read.scenario, profile, now, [] {}, &costs))
        gains[answer.what->name] = sim::from_seconds(answer.gain_s);
    EXPECT_EQ(gains.at("no_launch_time"), ops * kLate);
    EXPECT_EQ(gains.at("compute_x2"), ops * kTakes / 2);
    EXPECT_EQ(gains.at("free_optimizer"), of_optimizer * kTakes);
    EXPECT_EQ(gains.at("gemm_at_peak"), products * kTakes);
    EXPECT_FALSE(gains.contains("no_slowdown"));  // it is in what was measured
}

// A run whose ops take what the model says times a factor of their family, and come late by `late`.
TraceCalibration calibrated(const World& world, const std::string& name,
                            const std::function<double(const plan::OpKind)>& factor,
                            Picoseconds late) {
    const sim::Profile profile = sim::load_profiles(world.read.scenario->cluster);
    const trace::Trace modelled =
        sim::simulate(*world.read.scenario, profile, {true, nullptr}, world.read.resolved_json)
            .trace;
    const trace::Trace measured = measured_run(
        world.plan,
        [&](plan::Rank rank, std::uint32_t op) {
            const trace::Event event = modelled.tracks[static_cast<std::size_t>(rank)].events[op];
            const double times = factor(world.op(rank, op).kind);
            return Timing{late, std::llround(static_cast<double>(event.end - event.start) * times)};
        },
        world.read.resolved_json);
    const std::string path = testing::TempDir() + name;
    trace::write_trace(measured, path);
    return calibrate_to_trace(path, {}, std::string(ORRERY_SOURCE_DIR) + "/scenarios");
}

const FoundConstant* constant_of(const TraceCalibration& found, const std::string& key) {
    for (const FoundConstant& constant : found.constants)
        if (constant.key == key) return &constant;
    return nullptr;
}

TEST(TraceCalibration, FindsWhatAStackTakesOverTheModel) {
    const World world({"layout.tensor_parallel=1", "layout.pipeline_parallel=1",
                       "layout.data_parallel=1", "cluster.devices_per_node=1"});
    const auto factor = [](plan::OpKind kind) {
        if (kind == plan::OpKind::gemm) return 1.3;
        const bool attends =
            kind == plan::OpKind::attention || kind == plan::OpKind::attention_backward;
        return attends ? 1.6 : 2.0;
    };
    const TraceCalibration found = calibrated(world, "slower.orrery", factor, 0);
    ASSERT_EQ(found.families.size(), 3u);
    for (const auto& [key, over] : {std::pair{"training.kernel_factor", 1.3},
                                    std::pair{"training.attention_factor", 1.6 / 1.3},
                                    std::pair{"training.memory_kernel_factor", 2.0 / 1.3}}) {
        const FoundConstant* constant = constant_of(found, key);
        ASSERT_NE(constant, nullptr) << key;
        EXPECT_NEAR(constant->after / constant->before, over, 1e-5) << key;
    }
    EXPECT_NEAR(found.predicted_after_s / found.measured_step_s, 1, 1e-3);
    EXPECT_LT(found.predicted_before_s, found.measured_step_s / 1.3);
}

TEST(TraceCalibration, FindsTheHostsLaunchesByWhatADeviceWaits) {
    const World world({"layout.tensor_parallel=1", "layout.pipeline_parallel=1",
                       "layout.data_parallel=1", "cluster.devices_per_node=1"});
    constexpr Picoseconds kLate = 100 * kMicro;
    const TraceCalibration found = calibrated(
        world, "late.orrery", [](plan::OpKind) { return 1.0; }, kLate);
    const auto ops = static_cast<double>(world.described.programs.front().op.size());
    EXPECT_NEAR(found.measured_wait_s, ops * sim::to_seconds(kLate), 1e-9);
    const FoundConstant* launch = constant_of(found, "training.launch_us");
    ASSERT_NE(launch, nullptr);
    // Every op was waited for so long beyond what it took: a launch is at least that.
    EXPECT_GT(launch->after, 100);
    EXPECT_NEAR(constant_of(found, "training.kernel_factor")->after,
                constant_of(found, "training.kernel_factor")->before, 1e-6);
    EXPECT_NEAR(found.predicted_after_s / found.measured_step_s, 1, 0.004);
}

TEST(TraceCalibration, FindsLinksByTheirCollectives) {
    const World world({"layout.tensor_parallel=8", "layout.pipeline_parallel=1"});
    const auto factor = [](plan::OpKind kind) { return plan::is_communication(kind) ? 1.5 : 1.0; };
    const TraceCalibration found = calibrated(world, "links.orrery", factor, 0);
    const FoundConstant* bandwidth = constant_of(found, "cluster.intra_node.bandwidth_GBps");
    const FoundConstant* latency = constant_of(found, "cluster.intra_node.latency_us");
    ASSERT_NE(bandwidth, nullptr);
    ASSERT_NE(latency, nullptr);
    EXPECT_NEAR(bandwidth->before / bandwidth->after, latency->after / latency->before, 1e-9);
    EXPECT_NEAR(latency->after / latency->before, 1.5, 1e-3);
    EXPECT_EQ(constant_of(found, "cluster.inter_node.latency_us"), nullptr);
    EXPECT_NEAR(found.predicted_after_s / found.measured_step_s, 1, 0.02);
}

TEST(TraceCalibration, NeedsATraceThatWasMeasuredAndSaysItsScenario) {
    const World world({});
    trace::Trace trace = measured_run(world.plan, Scattered(world, 1), "");
    const std::string path = testing::TempDir() + "nameless.orrery";
    const std::string library = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
    trace::write_trace(trace, path);
    EXPECT_THROW(calibrate_to_trace(path, {}, library), RecordsError);
    trace.scenario_json = world.read.resolved_json;
    trace::write_trace(trace, path);
    EXPECT_THROW(calibrate_to_trace(path, {"layout.tensor_parallel=3"}, library), RecordsError);
    trace.origin = trace::Origin::predicted;
    trace::write_trace(trace, path);
    EXPECT_THROW(calibrate_to_trace(path, {}, library), sim::CostsError);
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
        EXPECT_DOUBLE_EQ(prediction.prices->share[at(PriceSource::mean)], 1) << set;
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
    EXPECT_GT(prices.share[at(PriceSource::mean)], 0.5);
    EXPECT_NEAR(std::accumulate(prices.share.begin(), prices.share.end(), 0.0), 1, 1e-12);
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

// However unlike the runs of an op are, so many times its price is what they took.
TEST(MeasuredCosts, AddUpToTheStepThatWasMeasured) {
    const World world({"layout.tensor_parallel=2", "layout.pipeline_parallel=2"});
    const trace::Trace trace = measured_run(world.plan, Scattered(world, 3));
    Picoseconds measured = 0;
    for (const trace::Track& track : trace.tracks)
        for (const trace::Event event : track.events)
            measured += event.duration();
    const MeasuredCosts costs(trace, "measured.orrery");
    std::set<const sim::MeasuredOp*> ops;
    for (const trace::OpName& op : world.described.ops)
        ops.insert(costs.find(op));
    ops.erase(nullptr);
    Picoseconds priced = 0;
    std::int64_t runs = 0;
    for (const sim::MeasuredOp* op : ops) {
        priced += op->time.duration * op->runs;
        runs += op->runs;
    }
    EXPECT_GT(measured, 0);
    EXPECT_NEAR(static_cast<double>(priced), static_cast<double>(measured),
                static_cast<double>(runs))
        << "a picosecond each is rounded away";
}

// What the model predicts, taken for a measurement; `change` alters what ops take.
template <typename Change>
MeasuredCosts as_if_measured(const World& world, Change change) {
    const sim::Profile profile = sim::load_profiles(world.read.scenario->cluster);
    trace::Trace trace =
        sim::simulate(*world.read.scenario, profile, {true}, world.read.resolved_json).trace;
    trace.origin = trace::Origin::measured;
    for (trace::Track& track : trace.tracks) {
        const trace::ProgramOps& program = trace.programs[static_cast<std::size_t>(track.program)];
        track.events.change([&](trace::Event& event, std::size_t i) {
            event.end = event.start + change(trace.ops[program.op[i]], event.duration());
        });
    }
    MeasuredCosts costs(std::move(trace), "measured.orrery");
    costs.hold_against(sim::predicted_ops(world.plan, *world.read.scenario, profile));
    return costs;
}

Picoseconds as_it_is(const trace::OpName& /*op*/, Picoseconds duration) {
    return duration;
}

sim::Prediction predicted(const World& world, const MeasuredCosts* costs) {
    const sim::Profile profile = sim::load_profiles(world.read.scenario->cluster);
    return sim::simulate(*world.read.scenario, profile, {false, costs}, world.read.resolved_json);
}

// Of no host that is waited for, and nothing that slows what runs beside it: what is left is what
// ops take.
std::vector<std::string> of_ops_alone(std::vector<std::string> sets) {
    sets.emplace_back("training.framework.flags.launch_us.value=0");
    sets.emplace_back("training.framework.flags.overlap_factor.value=0");
    return sets;
}

// Where the model is right of what was measured, what follows is what it predicts itself: of more
// ranks, other shapes, another schedule, a slower link.
TEST(Extrapolation, OfAPredictionIsThePrediction) {
    const World measured(of_ops_alone(
        {"layout.tensor_parallel=2", "layout.pipeline_parallel=2", "layout.data_parallel=2"}));
    const MeasuredCosts costs = as_if_measured(measured, as_it_is);
    const std::vector<std::vector<std::string>> targets = {
        {"layout.tensor_parallel=4", "layout.pipeline_parallel=1"},
        {"layout.tensor_parallel=1", "layout.pipeline_parallel=4", "layout.schedule=gpipe"},
        {"layout.micro_batch_size=2"},
        {"cluster.intra_node.bandwidth_GBps=1"},
    };
    for (const auto& target : targets) {
        SCOPED_TRACE(target[0]);
        const World asked(of_ops_alone(target));
        const sim::Prediction alone = predicted(asked, nullptr);
        const sim::Prediction prediction = predicted(asked, &costs);
        EXPECT_NEAR(prediction.step.time_s, alone.step.time_s, 1e-6 * alone.step.time_s);
        EXPECT_GT(prediction.prices->share[at(PriceSource::scaled)], 0);
        EXPECT_EQ(prediction.prices->ops[at(PriceSource::profile)], 0);
        for (const sim::PriceSources::OfKind& kind : prediction.prices->kinds)
            EXPECT_NEAR(kind.over_model, 1, 1e-6) << plan::name(kind.kind);
    }
}

// Eight ranks of a node, and four such nodes: the network between them was never measured and has
// the profile's price, all else follows.
TEST(Extrapolation, ToMoreNodesPricesTheirNetworkByTheProfile) {
    const World measured(of_ops_alone({"layout.pipeline_parallel=1"}));
    const MeasuredCosts costs = as_if_measured(measured, as_it_is);
    const World asked(of_ops_alone(
        {"layout.pipeline_parallel=1", "layout.data_parallel=16", "layout.global_batch_size=64",
         "cluster.nodes=4",
         R"(cluster.inter_node={"kind":"ethernet","bandwidth_Gbps":10,"nics_per_node":1,)"
         R"("latency_us":20,"oversubscription":1})"}));
    const sim::Prediction alone = predicted(asked, nullptr);
    const sim::Prediction prediction = predicted(asked, &costs);
    EXPECT_EQ(asked.plan.mesh.ranks(), 32);
    EXPECT_NEAR(prediction.step.time_s, alone.step.time_s, 1e-6 * alone.step.time_s);
    const sim::PriceSources& prices = *prediction.prices;
    EXPECT_GT(prices.ops[at(PriceSource::profile)], 0);
    EXPECT_GT(prices.share[at(PriceSource::mean)] + prices.share[at(PriceSource::scaled)], 0.5);
    for (const sim::PriceSources::OfKind& kind : prices.kinds)
        if (!plan::is_communication(kind.kind)) {
            EXPECT_EQ(kind.share[at(PriceSource::profile)], 0) << plan::name(kind.kind);
        }
}

// Of two nodes of five devices, so that one tensor group of four lies on a node and the other on
// both: the median of what both took is neither's.
TEST(Extrapolation, PartsGroupsThatLieUnlike) {
    const std::vector<std::string> nodes = {
        "layout.tensor_parallel=4", "layout.pipeline_parallel=1", "cluster.nodes=2",
        "cluster.devices_per_node=5",
        R"(cluster.inter_node={"kind":"ethernet","bandwidth_Gbps":10,"nics_per_node":1,)"
        R"("latency_us":20,"oversubscription":1})"};
    const World measured(of_ops_alone(nodes));
    const MeasuredCosts costs = as_if_measured(measured, as_it_is);
    std::vector<std::string> more = nodes;
    more.emplace_back("layout.global_batch_size=32");
    const World asked(of_ops_alone(more));
    const sim::Prediction alone = predicted(asked, nullptr);
    const sim::Prediction prediction = predicted(asked, &costs);
    EXPECT_NEAR(prediction.step.time_s, alone.step.time_s, 1e-6 * alone.step.time_s);
}

// Products that take a fifth longer than the model says do so at shapes that were never measured,
// and nothing else does.
TEST(Extrapolation, KeepsHowFarTheModelWasOff) {
    const World measured(of_ops_alone({"layout.tensor_parallel=2", "layout.pipeline_parallel=1"}));
    const MeasuredCosts costs =
        as_if_measured(measured, [](const trace::OpName& op, Picoseconds duration) {
            return op.kind == plan::OpKind::gemm ? duration * 6 / 5 : duration;
        });
    const World asked(of_ops_alone({"layout.tensor_parallel=4", "layout.pipeline_parallel=1"}));
    const sim::Prediction prediction = predicted(asked, &costs);
    bool products = false;
    for (const sim::PriceSources::OfKind& kind : prediction.prices->kinds) {
        const bool is_product = kind.kind == plan::OpKind::gemm;
        products = products || is_product;
        EXPECT_NEAR(kind.over_model, is_product ? 1.2 : 1, 1e-6) << plan::name(kind.kind);
    }
    EXPECT_TRUE(products);
}

// The same ranks on a link with a fifth of the bandwidth: the same plan, and yet no replay.
TEST(Extrapolation, PricesCollectivesOfTheSamePlanByTheirOwnLink) {
    const World measured({"layout.tensor_parallel=8", "layout.pipeline_parallel=1"});
    const MeasuredCosts costs = as_if_measured(measured, as_it_is);
    EXPECT_DOUBLE_EQ(predicted(measured, &costs).prices->share[at(PriceSource::own_time)], 1);
    const World slower({"layout.tensor_parallel=8", "layout.pipeline_parallel=1",
                        "cluster.intra_node.bandwidth_GBps=1"});
    const sim::Prediction prediction = predicted(slower, &costs);
    EXPECT_EQ(prediction.prices->ops[at(PriceSource::own_time)], 0);
    EXPECT_GT(prediction.step.time_s, predicted(measured, &costs).step.time_s);
    for (const sim::PriceSources::OfKind& kind : prediction.prices->kinds) {
        const double scaled = kind.share[at(PriceSource::scaled)];
        EXPECT_EQ(scaled > 0, plan::is_communication(kind.kind)) << plan::name(kind.kind);
    }
}

// What the model missed by differs from product to product: one that was not measured may be as
// far off as they are apart.
TEST(Extrapolation, IsLessSureWhereMeasuredOpsDisagree) {
    const World measured(of_ops_alone({"layout.tensor_parallel=2", "layout.pipeline_parallel=1"}));
    const World asked(of_ops_alone({"layout.tensor_parallel=4", "layout.pipeline_parallel=1"}));
    const auto width = [&](const MeasuredCosts& costs) {
        const sim::StepPrediction step = predicted(asked, &costs).step;
        return (step.high_s - step.low_s) / step.time_s;
    };
    const MeasuredCosts agreeing = as_if_measured(measured, as_it_is);
    const MeasuredCosts disagreeing =
        as_if_measured(measured, [](const trace::OpName& op, Picoseconds duration) {
            return op.flops > 1e6 ? duration * 4 : duration;
        });
    EXPECT_GT(width(disagreeing), width(agreeing));
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

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
