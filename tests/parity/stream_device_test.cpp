// The executor of devices with queues, on one that performs on the host what it is asked.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include <boost/dynamic_bitset.hpp>

#include "plan/assemble/build_plan.hpp"
#include "runtime/streams/repeated_work.hpp"
#include "runtime/streams/stream_device.hpp"
#include "runtime/streams/stream_schedule.hpp"
#include "sim/prediction.hpp"
#include "tests/parity/host_streams.hpp"
#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using runtime::BoundProgram;
using runtime::StreamSchedule;

// Every kind of stream, with memory used again and again.
std::vector<NamedLayout> some_layouts() {
    return {
        layout("one", {}),
        layout("recomputed", {"recompute=full"}),
        layout("tensor", {"tensor_parallel=2", "sequence_parallel=true"}),
        layout("pipeline", {"pipeline_parallel=4", "micro_batch_size=1"}),
        layout("interleaved", {"pipeline_parallel=2", "schedule=interleaved", "virtual_pipeline=2",
                               "micro_batch_size=1"}),
        layout("zero3", {"data_parallel=2", "zero_stage=3", "micro_batch_size=2"}),
        layout("all", {"tensor_parallel=2", "pipeline_parallel=2", "data_parallel=2",
                       "zero_stage=2", "micro_batch_size=1"}),
    };
}

struct Bound {
    plan::Scenario scenario;
    plan::Plan plan;
    BoundProgram program;
};

std::vector<std::unique_ptr<Bound>> all_bound(const NamedLayout& layout) {
    const plan::Scenario read = scenario(kGpt, layout.sets);
    std::vector<std::unique_ptr<Bound>> all;
    for (plan::Rank rank = 0; rank < read.layout.ranks(); ++rank) {
        auto bound = std::make_unique<Bound>(Bound{read, plan::build_plan(read), {}});
        bound->program = runtime::bind_program(bound->plan, bound->plan.program_of(rank), rank);
        all.push_back(std::move(bound));
    }
    return all;
}

// By op: which ops are sure to have ended before it begins, from the order of streams and the waits
// for events alone.
using Before = std::vector<boost::dynamic_bitset<>>;

Before before(const BoundProgram& program, const std::vector<std::vector<std::uint32_t>>& events) {
    const std::size_t ops = program.ops.size();
    Before ended(ops, boost::dynamic_bitset<>(ops));
    std::array<std::int64_t, plan::kStreams> last{};
    last.fill(-1);
    auto join = [&](std::size_t op, std::size_t earlier) {
        ended[op] |= ended[earlier];
        ended[op].set(earlier);
    };
    for (std::size_t op = 0; op < ops; ++op) {
        auto& previous = last[plan::index_of(program.ops[op].op->stream)];
        if (previous >= 0) join(op, static_cast<std::size_t>(previous));
        for (const std::uint32_t earlier : events[op])
            join(op, earlier);
        previous = static_cast<std::int64_t>(op);
    }
    return ended;
}

std::vector<std::vector<std::uint32_t>> events_of(const BoundProgram& program) {
    const StreamSchedule schedule(program);
    std::vector<std::vector<std::uint32_t>> events(program.ops.size());
    for (std::uint32_t op = 0; op < events.size(); ++op)
        for (const runtime::AwaitedOp& awaited : schedule.waits(op))
            events[op].push_back(awaited.op);
    return events;
}

// The first edge of the plan that does not hold; empty: all do.
std::string broken_edge(const BoundProgram& program, const Before& ended) {
    std::array<std::vector<std::size_t>, plan::kStreams> issued;
    for (std::size_t op = 0; op < program.ops.size(); ++op) {
        for (const plan::Wait& wait : program.ops[op].waits) {
            const std::size_t earlier = issued[plan::index_of(wait.stream)][wait.count - 1];
            if (!ended[op][earlier])
                return std::to_string(earlier) + " before " + std::to_string(op);
        }
        issued[plan::index_of(program.ops[op].op->stream)].push_back(op);
    }
    return "";
}

class StreamSchedules : public testing::TestWithParam<NamedLayout> {};

TEST_P(StreamSchedules, HoldEveryEdgeAndNoEventIsSuperfluous) {
    for (const auto& bound : all_bound(GetParam())) {
        const BoundProgram& program = bound->program;
        auto events = events_of(program);
        EXPECT_EQ(broken_edge(program, before(program, events)), "");
        std::set<std::uint32_t> awaited;
        for (std::uint32_t op = 0; op < events.size(); ++op) {
            awaited.insert(events[op].begin(), events[op].end());
            const auto kept = events[op];
            for (const std::uint32_t event : kept) {
                EXPECT_NE(program.ops[event].op->stream, program.ops[op].op->stream);
                std::erase(events[op], event);
                EXPECT_NE(broken_edge(program, before(program, events)), "")
                    << "op " << op << " need not wait for " << event;
                events[op] = kept;
            }
        }
        const StreamSchedule schedule(program);
        for (std::uint32_t op = 0; op < events.size(); ++op)
            EXPECT_EQ(schedule.marked(op), awaited.contains(op)) << op;
    }
}

// What rank 0 asks of its driver in each of some steps.
std::vector<std::vector<Asked>> logs_of_steps(const std::vector<std::unique_ptr<Bound>>& ranks,
                                              const runtime::StreamOptions& options, int steps) {
    std::vector<std::vector<Asked>> logs;
    runtime::run_ranks(ranks[0]->plan.mesh, {}, [&](plan::Rank rank, runtime::Communicator& inner) {
        const Bound& bound = *ranks[static_cast<std::size_t>(rank)];
        HostDriver driver;
        HostCommunicator communicator(inner, driver);
        runtime::StreamDevice device(bound.program, communicator, driver, options);
        const std::vector<std::int32_t> tokens(1024, 1);
        runtime::StepInputs inputs;
        inputs.tokens.fill(tokens);
        for (int step = 0; step < steps; ++step) {
            driver.log.clear();
            inputs.step = inputs.updates = step + 1;
            device.run(inputs);
            if (rank == 0) logs.push_back(driver.log);
        }
    });
    return logs;
}

std::vector<Asked> log_of_step(const std::vector<std::unique_ptr<Bound>>& ranks,
                               const runtime::StreamOptions& options) {
    return logs_of_steps(ranks, options, 1).front();
}

// An op's waits, its beginning, what it asks for, its end: all in the one stream that is its own.
TEST_P(StreamSchedules, AreWhatTheDeviceIsAsked) {
    const auto ranks = all_bound(GetParam());
    const BoundProgram& program = ranks[0]->program;
    const StreamSchedule schedule(program);
    const std::vector<Asked> log = log_of_step(ranks, {.time_ops = true});
    std::map<plan::Stream, std::uintptr_t> streams;  // of the plan → of the driver
    std::map<std::uint32_t, std::uintptr_t> ends;    // by op
    std::size_t at = 1;                              // the first mark is the step's
    for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
        const plan::Op& planned = *program.ops[op].op;
        const std::uintptr_t stream = streams.emplace(planned.stream, log[at].stream).first->second;
        std::vector<std::uintptr_t> waits, expected;
        for (; log[at].what == Asked::What::wait; ++at)
            waits.push_back(log[at].event);
        for (const runtime::AwaitedOp& earlier : schedule.waits(op))
            expected.push_back(ends.at(earlier.op));
        EXPECT_EQ(waits, expected) << "op " << op;
        ASSERT_EQ(log[at++].what, Asked::What::record);
        bool communicates = false;
        for (; log[at].what != Asked::What::record; ++at) {
            EXPECT_EQ(log[at].stream, stream) << "op " << op;
            communicates = communicates || log[at].what == Asked::What::communication;
        }
        EXPECT_EQ(communicates, plan::is_communication(planned.kind())) << "op " << op;
        EXPECT_EQ(log[at].stream, stream);
        ends[op] = log[at++].event;
    }
    std::set<std::uintptr_t> distinct;
    for (const auto& [planned, stream] : streams)
        distinct.insert(stream);
    EXPECT_EQ(distinct.size(), streams.size());
    EXPECT_EQ(log.size() - at, streams.size());  // the end of each
}

// The start, the ops that somebody waits for, the end of each stream.
TEST_P(StreamSchedules, MarkNothingElseUnlessOpsAreTimed) {
    const auto ranks = all_bound(GetParam());
    const BoundProgram& program = ranks[0]->program;
    const StreamSchedule schedule(program);
    std::size_t marked = 0;
    std::set<plan::Stream> streams;
    for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
        marked += schedule.marked(op) ? 1 : 0;
        streams.insert(program.ops[op].op->stream);
    }
    const std::vector<Asked> log = log_of_step(ranks, {});
    EXPECT_EQ(std::count_if(log.begin(), log.end(),
                            [](const Asked& asked) { return asked.what == Asked::What::record; }),
              1 + marked + streams.size());
}

std::int64_t count_of(const std::vector<Asked>& log, Asked::What what) {
    return std::count_if(log.begin(), log.end(),
                         [what](const Asked& asked) { return asked.what == what; });
}

// Parameters that decay, that do not, and that another rank counts: all that a bucket has in one
// launch, which is what the simulator has a price for; and one that clears the norm's sums.
TEST_P(StreamSchedules, StepABucketAtOnce) {
    const auto ranks = all_bound(GetParam());
    const auto asked = [log = log_of_step(ranks, {})](const char* name) {
        return std::count_if(log.begin(), log.end(), [name](const Asked& each) {
            return each.what == Asked::What::request && each.name == name;
        });
    };
    const sim::Profile profile =
        sim::load_profile(std::string(ORRERY_SOURCE_DIR) + "/scenarios/profiles/cpu-core.json");
    const sim::Prediction prediction = sim::simulate(ranks[0]->scenario, profile, {true}, "{}");
    const auto& track = prediction.trace.tracks.front();
    ASSERT_EQ(track.rank, 0);
    const trace::ProgramOps& program =
        prediction.trace.programs[static_cast<std::size_t>(track.program)];
    const auto predicted = [&](plan::OpKind kind) {
        return std::count_if(program.op.begin(), program.op.end(), [&](std::uint32_t op) {
            return prediction.trace.ops[op].kind == kind;
        });
    };
    EXPECT_GT(asked("adamw"), 0);
    EXPECT_EQ(asked("adamw"), predicted(plan::OpKind::adamw));
    EXPECT_EQ(asked("gradient_norm"), predicted(plan::OpKind::gradient_norm));
    EXPECT_LE(asked("fill"), 1);
}

// On one rank a pass of a layer is one launch from the second step on, and what remains is what no
// layer has: tokens, embedding, head, loss, optimizer.
TEST(StreamDevice, LaunchesAPassOfALayerAtOnce) {
    const auto ranks = all_bound(layout("one", {"micro_batch_size=1"}));
    const plan::Scenario& read = ranks[0]->scenario;
    const BoundProgram& program = ranks[0]->program;
    std::set<std::tuple<const plan::Block*, std::int32_t, std::int32_t>> passes;
    for (const runtime::BoundOp& bound : program.ops)
        if (bound.layer >= 0) passes.emplace(bound.block, bound.layer, bound.micro_batch);
    const std::int64_t micro_batches = read.layout.global_batch_size;
    ASSERT_EQ(passes.size(), static_cast<std::size_t>(2 * read.model.layers * micro_batches));
    const auto logs = logs_of_steps(ranks, {.keep_layers = true}, 3);
    EXPECT_EQ(count_of(logs[0], Asked::What::launch), 0);
    EXPECT_EQ(count_of(logs[1], Asked::What::launch), static_cast<std::int64_t>(passes.size()));
    EXPECT_EQ(count_of(logs[2], Asked::What::launch), static_cast<std::int64_t>(passes.size()));
    const std::int64_t others = count_of(logs[2], Asked::What::request);
    EXPECT_GT(others, 0);
    EXPECT_LT(others * 4, count_of(logs[0], Asked::What::request));
    EXPECT_EQ(logs[1].size(), logs[2].size());
}

// All micro-batches of a step come to one slot of the stash on one rank, and ask the same of it:
// but for the first one, whose gradients overwrite what was there and are not added to it.
TEST(RepeatedWork, OfTheSameSlotIsKeptOnce) {
    const auto ranks = all_bound(layout("one", {"micro_batch_size=1"}));
    const BoundProgram& program = ranks[0]->program;
    const StreamSchedule schedule(program);
    HostDriver driver;
    runtime::RepeatedWork repeated(program, schedule, driver,
                                   [](const runtime::BoundOp& bound) { return bound.layer >= 0; });
    const plan::Scenario& read = ranks[0]->scenario;
    EXPECT_EQ(repeated.runs(),
              static_cast<std::size_t>(2 * read.model.layers * read.layout.global_batch_size));
    const runtime::Stream stream = driver.create_stream(runtime::StreamUse::compute);
    for (int step = 0; step < 2; ++step) {
        EXPECT_EQ(repeated.kept(), 0U);
        for (std::uint32_t id = 0; id < program.ops.size(); ++id)
            repeated.issue(id, stream, [](std::uint32_t) {});
    }
    EXPECT_EQ(repeated.kept(), static_cast<std::size_t>((1 + 2) * read.model.layers));
}

// Whoever times ops or looks at them has them one by one; so has what depends on the step, as
// dropout does.
TEST(StreamDevice, KeepsNothingThatIsLookedAtOrIsOfAStep) {
    const auto ranks = all_bound(layout("one", {}));
    for (const runtime::StreamOptions& options :
         {runtime::StreamOptions{.time_ops = true, .keep_layers = true},
          runtime::StreamOptions{.poison = true, .keep_layers = true}})
        for (const auto& log : logs_of_steps(ranks, options, 2))
            EXPECT_EQ(count_of(log, Asked::What::launch), 0);
    const auto asked_for = [](const std::vector<Asked>& log, const char* name) {
        return std::count_if(log.begin(), log.end(),
                             [name](const Asked& asked) { return asked.name == name; });
    };
    const auto dropping = all_bound(layout("one", {"training.dropout=0.1"}));
    const auto logs = logs_of_steps(dropping, {.keep_layers = true}, 2);
    EXPECT_GT(count_of(logs[1], Asked::What::launch), 0);
    for (const char* dropped : {"residual_add", "attention"}) {  // of each layer, and what is apart
        EXPECT_GE(asked_for(logs[0], dropped), ranks[0]->scenario.model.layers);
        EXPECT_EQ(asked_for(logs[1], dropped), asked_for(logs[0], dropped));
    }
    EXPECT_EQ(asked_for(logs_of_steps(ranks, {.keep_layers = true}, 2)[1], "attention"), 0);
}

INSTANTIATE_TEST_SUITE_P(Layouts, StreamSchedules, testing::ValuesIn(some_layouts()),
                         [](const auto& layout) { return layout.param.name; });

// Nothing of a step depends on which device performs it, nor on which library communicates, as long
// as it adds up in pairs in the order of ranks.
class StreamDevices : public testing::TestWithParam<NamedLayout> {};

Trained train_in_streams(const plan::Scenario& read, std::int64_t steps,
                         const runtime::StreamOptions& asked = {.time_ops = true, .poison = true}) {
    runtime::StreamBackendOptions streams;
    streams.streams = asked;
    runtime::StreamBackend backend(host_devices(8), std::nullopt, streams);
    RunOptions options;
    options.steps = steps;
    options.backend = &backend;
    return train(read, options);
}

Trained train_on_cpu(const plan::Scenario& read, std::int64_t steps) {
    RunOptions options;
    options.steps = steps;
    return train(read, options);
}

TEST_P(StreamDevices, TrainAsTheCpuDoesBitForBit) {
    constexpr std::int64_t kSteps = 5;
    const plan::Scenario read = scenario(kGpt, GetParam().sets);
    const Trained expected = train_on_cpu(read, kSteps);
    for (const runtime::StreamOptions& asked :
         {runtime::StreamOptions{.time_ops = true, .poison = true},
          runtime::StreamOptions{.keep_layers = true}}) {
        const Trained found = train_in_streams(read, kSteps, asked);
        EXPECT_EQ(found.losses, expected.losses);
        EXPECT_EQ(found.norms, expected.norms);
        EXPECT_EQ(found.gradients, expected.gradients);
        EXPECT_EQ(found.parameters, expected.parameters);
        EXPECT_EQ(found.disagreement, "");
    }
}

std::vector<NamedLayout> trained_layouts() {
    std::vector<NamedLayout> all = some_layouts();
    all.push_back(layout("fp16", {"training.precision=fp16", "data_parallel=2"}));
    all.push_back(layout("bf16", {"training.precision=bf16", "tensor_parallel=2"}));
    all.push_back(layout("spike", {"training.loss_spike.skip_above=2",
                                   "training.loss_spike.window=1", "data_parallel=2"}));
    return all;
}

// Copies between the tiers of memory, those on disk too.
std::vector<NamedLayout> offloaded_layouts() {
    std::vector<NamedLayout> all = offload_layouts();
    for (NamedLayout& named : all)
        named.sets.emplace_back("training.precision=bf16");
    return all;
}

// A norm that clips each step, so that each is amended.
std::vector<NamedLayout> validated_layouts() {
    const std::string validates = "optimizer_post_validation=true", pp2 = "pipeline_parallel=2",
                      tp2 = "tensor_parallel=2", dp2 = "data_parallel=2",
                      clips = "training.optimizer.clip_norm=1e-3";
    return {layout("validated", {validates, pp2, clips}),
            layout("validated_zb_2p", {validates, "pipeline_parallel=4", "schedule=zb-2p", clips}),
            layout("validated_zb_v", {validates, pp2, "virtual_pipeline=2", tp2, dp2,
                                      "schedule=zb-v", "zero_stage=1", clips}),
            layout("validated_zero_3", {validates, pp2, dp2, "zero_stage=3", clips})};
}

std::vector<NamedLayout> stale_layouts() {
    const std::string serves = "data_parallel_mode=parameter_server", zero = "zero_stage=1",
                      one = "staleness=1", two = "staleness=2", dp2 = "data_parallel=2",
                      pp2 = "pipeline_parallel=2", bf16 = "training.precision=bf16";
    return {layout("stale", {serves, zero, one, dp2}),
            layout("stale_alone", {serves, zero, two, "pipeline_parallel=4", bf16}),
            layout("stale_small", {serves, zero, two, "data_parallel=4", bf16,
                                   "training.gradient_bucket_mb=0.02"}),
            layout("stale_tensor", {serves, zero, one, dp2, "tensor_parallel=2", pp2,
                                    "sequence_parallel=true", bf16}),
            layout("stale_interleaved",
                   {serves, zero, two, dp2, pp2, "virtual_pipeline=2", "schedule=interleaved"})};
}

// fp16 whose first steps overflow, and are taken back in the steps after them. Norms that are not
// numbers equal nothing.
TEST(StreamDevice, TakesBackStepsThatOverflow) {
    constexpr std::int64_t kSteps = 6;
    const plan::Scenario read = scenario(
        kGpt,
        {"layout.pipeline_parallel=2", "layout.optimizer_post_validation=true",
         "training.precision=fp16",
         R"(training.loss_scale={"initial": 2097152, "growth_interval": 4, "hysteresis": 1})"});
    const Trained expected = train_on_cpu(read, kSteps);
    const Trained found = train_in_streams(read, kSteps);
    const auto overflows =
        std::count(found.skipped.begin(), found.skipped.end(), runtime::Skipped::overflow);
    EXPECT_GT(overflows, 0);
    EXPECT_LT(overflows, kSteps);
    EXPECT_EQ(found.skipped, expected.skipped);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(found.parameters, expected.parameters);
}

// On the thread that steps end on, while this rank is steps ahead. In whose words the run ends, its
// own or those of a rank that has heard of it, is a matter of who is first.
TEST(StreamDevice, WhatIsThrownAtTheEndOfAStepEndsTheRun) {
    const plan::Scenario read =
        scenario(kGpt, {"layout.data_parallel=2", "layout.data_parallel_mode=parameter_server",
                        "layout.zero_stage=1", "layout.staleness=2"});
    for (const bool in_streams : {false, true}) {
        runtime::StreamBackend backend(host_devices(2), std::nullopt, {});
        RunOptions options;
        options.steps = 9;
        if (in_streams) options.backend = &backend;
        options.after_step = [](plan::Rank rank, const runtime::Device&,
                                const runtime::BoundProgram&, const plan::Program&,
                                std::int64_t step) {
            if (rank == 1 && step == 4) throw std::domain_error("rank 1 has had enough");
        };
        try {
            train(read, options);
            FAIL() << "the run goes on";
        } catch (const std::exception& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("rank 1 has had enough"));
        }
    }
}

std::string placement_error(std::optional<runtime::Launch> launch, int devices, int per_device) {
    runtime::StreamBackendOptions options;
    options.ranks_per_device = per_device;
    runtime::StreamBackend backend(host_devices(devices), std::move(launch), options);
    plan::Mesh mesh;
    mesh.data = 4;
    try {
        backend.run_ranks(mesh, [](runtime::RankSeat&) { FAIL() << "no rank may begin"; });
    } catch (const runtime::PlacementError& error) {
        return error.what();
    }
    return "";
}

TEST(StreamBackend, RefusesWhatDoesNotFitTheMachine) {
    EXPECT_EQ(placement_error(std::nullopt, 2, 1),
              "rank 2 of this machine needs device 2, and there are 2");
    EXPECT_EQ(placement_error(std::nullopt, 1, 2),
              "rank 2 of this machine needs device 1, and there is one");
    const runtime::Launch two{runtime::Launcher::torchrun, 0, 2, 0, 2, "127.0.0.1", 1};
    EXPECT_EQ(placement_error(two, 4, 1), "the layout has 4 ranks, and 2 processes were started");
}

// A launch may be of several machines, whose traces are one.
TEST(StreamBackend, HasTheTimesOfALaunchOnTheClockOfRankZero) {
    constexpr std::int64_t kAhead = 1'000'000'000'000'000'000;  // 31 years, more than since a boot
    for (const bool launched : {false, true}) {
        runtime::StreamBackendOptions streams;
        streams.streams.time_ops = true;
        streams.clock_offset = [](runtime::ControlPlane&) { return kAhead; };
        std::optional<runtime::Launch> launch;
        if (launched) launch = runtime::Launch{runtime::Launcher::torchrun, 0, 1, 0, 1, "", 1};
        runtime::StreamBackend backend(host_devices(1), launch, streams);
        RunOptions options;
        options.steps = 1;
        options.backend = &backend;
        std::size_t ops = 0;
        options.after_step = [&](plan::Rank, const runtime::Device& device,
                                 const runtime::BoundProgram&, const plan::Program&, std::int64_t) {
            ops = device.times().size();
            for (const runtime::OpTime& time : device.times()) {
                EXPECT_EQ(time.begin >= kAhead, launched);
                EXPECT_EQ(time.end >= kAhead, launched);
            }
        };
        train(scenario(kGpt, {}), options);
        EXPECT_GT(ops, 0U);
    }
}

// The first failure is what the run has ended with, not what it brought about on other ranks:
// tried often, as the two are a race between threads.
TEST(StreamBackend, EndsAllRanksWithWhatEndedTheFirst) {
    for (int attempt = 0; attempt < 100; ++attempt) {
        runtime::StreamBackend backend(host_devices(2), std::nullopt, {});
        plan::Mesh mesh;
        mesh.data = 2;
        try {
            backend.run_ranks(mesh, [](runtime::RankSeat& seat) {
                if (seat.rank() == 1) throw std::runtime_error("rank 1 has had enough");
                seat.control().barrier();
            });
            FAIL();
        } catch (const std::runtime_error& error) {
            ASSERT_STREQ(error.what(), "rank 1 has had enough");
        }
    }
}

const auto kByName = [](const auto& tested) { return tested.param.name; };
INSTANTIATE_TEST_SUITE_P(Layouts, StreamDevices, testing::ValuesIn(trained_layouts()), kByName);
INSTANTIATE_TEST_SUITE_P(Offloaded, StreamDevices, testing::ValuesIn(offloaded_layouts()), kByName);
INSTANTIATE_TEST_SUITE_P(Validated, StreamDevices, testing::ValuesIn(validated_layouts()), kByName);
INSTANTIATE_TEST_SUITE_P(Stale, StreamDevices, testing::ValuesIn(stale_layouts()), kByName);

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
