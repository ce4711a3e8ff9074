// The critical path is exact: its segments follow each other from the step's beginning to its end,
// and it is critical: the step stays to the picosecond when what is not on it costs nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "sim/cuda_graphs.hpp"
#include "sim/machine.hpp"
#include "sim/prediction.hpp"
#include "tests/sim/engine/engine_world.hpp"
#include "tests/sim/random_layouts.hpp"
#include "trace/critical_path.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using trace::PathPart;
using trace::PathSegment;

// The slow-down of compute beside communication is left out: with it, less communication can
// change what runs beside what.
const Profile& profile() {
    static const Profile loaded = [] {
        Profile steady = load_profile(theory::library() + "/profiles/h100-sxm.json");
        steady.overlap.compute_slowdown.value = 1;
        return steady;
    }();
    return loaded;
}

std::vector<PathSegment> path_of(const plan::Scenario& scenario, const trace::Trace& trace) {
    return critical_path(trace, host_issue(scenario, profile().hardware));
}

// What is wrong with a path; empty when it is whole.
std::string path_fault(const trace::Trace& trace, const std::vector<PathSegment>& path) {
    if (path.empty()) return "empty";
    if (path.front().from != trace.step_start) return "does not begin with the step";
    if (path.back().to != trace.step_end) return "does not end with the step";
    Picoseconds sum = 0;
    for (std::size_t i = 0; i < path.size(); ++i) {
        if (path[i].to <= path[i].from) return "an empty segment";
        if (i > 0 && path[i].from != path[i - 1].to) return "a gap or an overlap";
        sum += path[i].to - path[i].from;
    }
    if (sum != trace.step_end - trace.step_start) return "does not sum to the step";
    Picoseconds parts = 0;
    for (const PathPart& part : parts_of(trace, path)) {
        if (part.account == trace::Account::bubble || part.account == trace::Account::imbalance)
            return "waits for a peer";
        parts += part.time;
    }
    return parts == sum ? "" : "the parts do not sum to the step";
}

// The step when every op that is nowhere on the path takes no time.
Picoseconds step_of_path_alone(const plan::Scenario& scenario, const trace::Trace& trace,
                               const std::vector<PathSegment>& path) {
    const plan::Plan plan = plan::build_plan(scenario);
    Machine machine = build_machine(plan, scenario, profile(), false);
    std::set<std::size_t> on_path;
    for (const PathSegment& segment : path) {
        if (segment.op < 0) continue;
        const trace::Track& track = trace.tracks[static_cast<std::size_t>(segment.track)];
        on_path.insert(trace.programs[static_cast<std::size_t>(track.program)]
                           .op[static_cast<std::size_t>(segment.op)]);
    }
    for (const auto& table : machine.tables)
        for (std::size_t op = 0; op < table->durations.size(); ++op)
            if (on_path.count(op) == 0) table->durations[op] = 0;
    const StepWindow window = step_window(machine, run_engine(machine.input));
    return window.end - window.start;
}

TEST(LaunchTimes, AreTheFrameworksTimesItsFactors) {
    plan::Framework framework;
    framework.launch_us = 10;
    framework.backward_launch_factor = 0.5;
    framework.collective_launch_factor = 0.4;
    framework.transfer_launch_factor = 3;
    const trace::LaunchTimes times = launch_times(framework);
    EXPECT_EQ(times.forward, 10'000'000);  // ps
    EXPECT_EQ(times.backward, 5'000'000);
    EXPECT_EQ(times.forward_collective, 4'000'000);
    EXPECT_EQ(times.backward_collective, 2'000'000);
    EXPECT_EQ(times.transfer, 30'000'000);
    using plan::OpKind;
    using plan::Phase;
    EXPECT_EQ(times.of(OpKind::gemm, Phase::backward), times.backward);
    EXPECT_EQ(times.of(OpKind::all_reduce, Phase::forward), times.forward_collective);
    EXPECT_EQ(times.of(OpKind::all_reduce, Phase::backward), times.backward_collective);
    EXPECT_EQ(times.of(OpKind::exchange, Phase::backward), times.transfer);
}

RC_GTEST_PROP(CriticalPath, OfRandomLayoutsIsWholeAndCritical, ()) {
    const std::int64_t queue = *rc::gen::elementOf(std::vector<std::int64_t>{2, 16, 1'000'000});
    const std::string captured =
        *rc::gen::elementOf(std::vector<std::string>{"none", "per_layer", "full_iteration"});
    // A step that is validated in the next one is the second of three: what is on no path of it may
    // be on one of theirs.
    const Sets sets = joined(
        random_sets(), {set("training.launch_queue", queue), "training.cuda_graphs=" + captured,
                        "layout.optimizer_post_validation=false"});
    RC_LOG() << testing::PrintToString(sets) << "\n";
    const plan::Scenario asked = theory::scenario(sets);
    const Prediction prediction = simulate(asked, profile(), {}, "");
    const trace::Trace& trace = prediction.trace;
    const auto path = path_of(asked, trace);
    const std::string fault = path_fault(trace, path);
    RC_LOG() << fault << "\n";
    RC_ASSERT(fault.empty());
    // Where two steps are simulated the window's beginning would move too; a full queue counts the
    // ops that have ended, so that others ending earlier let the host go on.
    const plan::Plan plan = plan::build_plan(asked);
    const bool two_steps = build_machine(plan, asked, profile(), false).repetitions > 1;
    if (!two_steps && queue == 1'000'000)
        RC_ASSERT(step_of_path_alone(asked, trace, path) == trace.step_end - trace.step_start);
}

// A host that waits for counts goes on with the op that made them last.
TEST(CriticalPath, OfAHostThatReadsCountsIsWholeAndCritical) {
    const std::string model =
        R"(model={"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 512,
                  "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 256,
                  "vocab_size": 128, "num_local_experts": 8, "num_experts_per_tok": 2,
                  "max_position_embeddings": 64})";
    const std::vector<theory::Sets> layouts = {
        {},
        {"layout.data_parallel=2", "layout.expert_parallel=2"},
        {"layout.data_parallel=2", "layout.expert_parallel=2", "layout.pipeline_parallel=2"}};
    int alone = 0;
    for (const char* readings : {"each_pass", "each_product"})
        for (const char* launch_us : {"0.1", "1", "20"})
            for (const theory::Sets& layout : layouts) {
                SCOPED_TRACE(fmt::format("{}, {} µs, {} keys", readings, launch_us, layout.size()));
                const plan::Scenario asked = theory::scenario(
                    joined({model, std::string("training.count_readings=") + readings,
                            std::string("training.launch_us=") + launch_us,
                            "training.launch_queue=1000000"},
                           layout));
                const trace::Trace trace = simulate(asked, profile(), {}, "").trace;
                const auto path = path_of(asked, trace);
                EXPECT_EQ(path_fault(trace, path), "");
                const plan::Plan plan = plan::build_plan(asked);
                if (build_machine(plan, asked, profile(), false).repetitions > 1) continue;
                EXPECT_EQ(step_of_path_alone(asked, trace, path),
                          trace.step_end - trace.step_start);
                ++alone;
            }
    EXPECT_GT(alone, 0);
}

// A host that waits until a transfer has ended goes on with the op of its device that ended last.
TEST(CriticalPath, OfAHostThatWaitsForTransfersIsWholeAndCritical) {
    int alone = 0;
    for (const char* launch_us : {"0.1", "1", "20"}) {
        SCOPED_TRACE(fmt::format("{} µs", launch_us));
        const plan::Scenario asked = theory::scenario(
            {"training.host_waits_for_transfers=true", "training.overlap_pipeline_transfers=never",
             std::string("training.launch_us=") + launch_us, "training.launch_queue=1000000",
             "layout.pipeline_parallel=2"});
        const trace::Trace trace = simulate(asked, profile(), {}, "").trace;
        const auto path = path_of(asked, trace);
        EXPECT_EQ(path_fault(trace, path), "");
        const plan::Plan plan = plan::build_plan(asked);
        if (build_machine(plan, asked, profile(), false).repetitions > 1) continue;
        EXPECT_EQ(step_of_path_alone(asked, trace, path), trace.step_end - trace.step_start);
        ++alone;
    }
    EXPECT_GT(alone, 0);
}

// The shipped profile slows compute beside communication: the path is whole all the same.
TEST(CriticalPath, OfShippedRunsIsWhole) {
    for (const char* run :
         {"gpt3-175b-a100x1024", "llama2-7b-a100x8", "tiny-gpt", "mixtral-8x22b-h100x128"}) {
        const plan::ReadResult read = plan::read_scenario(
            theory::library() + "/runs/" + run + ".json", {}, theory::library());
        ASSERT_TRUE(read.scenario) << run;
        const Profile shipped = load_profiles(read.scenario->cluster);
        const Prediction prediction = simulate(*read.scenario, shipped, {}, "");
        EXPECT_EQ(path_fault(prediction.trace, path_of(*read.scenario, prediction.trace)), "")
            << run;
    }
}

// One rank, ops of 1 µs that the host needs 10 µs to issue: the host is all of the path but the
// last op.
TEST(CriticalPath, OfALaunchBoundRankIsItsHost) {
    trace::Trace trace;
    trace.ops.push_back({"", "", plan::OpKind::gemm});
    trace::ProgramOps program;
    trace::Track track;
    std::vector<trace::Event> events;
    for (std::int64_t i = 1; i <= 5; ++i) {
        program.op.push_back(0);
        events.push_back({i * 10, i * 10, i * 10 + 1, trace::kHost, -1});
    }
    track.events = events;
    trace.programs.push_back(program);
    trace.tracks.push_back(track);
    trace.step_end = 51;
    EXPECT_EQ(critical_path(trace, {10, 1024}),
              (std::vector<PathSegment>{{0, trace::kHost, 0, 50}, {0, 4, 50, 51}}));
}

// A queue of one op: the host issues the next when the last has ended, 3 later.
TEST(CriticalPath, AlternatesWhereTheQueueIsFull) {
    trace::Trace trace;
    trace.ops.push_back({"", "", plan::OpKind::gemm});
    trace::ProgramOps program;
    program.op = {0, 0};
    trace::Track track;
    track.events = {{3, 3, 8, trace::kHost, -1}, {11, 11, 15, trace::kHost, -1}};
    trace.programs.push_back(program);
    trace.tracks.push_back(track);
    trace.step_end = 15;
    EXPECT_EQ(
        critical_path(trace, {3, 1}),
        (std::vector<PathSegment>{
            {0, trace::kHost, 0, 3}, {0, 0, 3, 8}, {0, trace::kHost, 8, 11}, {0, 1, 11, 15}}));
}

// Two ranks reduce together, then the first goes on: rank 1 came last, so the path begins there.
TEST(CriticalPath, CrossesToTheMemberThatCameLast) {
    EngineWorld world(2);
    const auto short_op = world.compute(5);
    const auto long_op = world.compute(9);
    const auto reduce = world.collective(plan::GroupKind::data, 4);
    const auto after = world.compute(2);
    world.meet(plan::GroupKind::data);
    world.add(0, short_op);
    world.add(0, reduce, {{1, plan::Stream::compute}});
    world.add(0, after, {{1, plan::Stream::data_comm}});
    world.add(1, long_op);
    world.add(1, reduce, {{1, plan::Stream::compute}});
    const EngineResult result = world.run();
    trace::Trace trace;
    trace.ops = {{"", "short", plan::OpKind::gemm},
                 {"", "long", plan::OpKind::gemm},
                 {"", "reduce", plan::OpKind::all_reduce, plan::Phase::backward,
                  plan::Stream::data_comm, plan::GroupKind::data},
                 {"", "after", plan::OpKind::gemm}};
    for (std::int32_t t = 0; t < 2; ++t) {
        trace::ProgramOps program;
        program.op =
            t == 0 ? std::vector<std::uint32_t>{0, 2, 3} : std::vector<std::uint32_t>{1, 2};
        trace.programs.push_back(program);
        trace.tracks.push_back({t, {}, t, result.events[static_cast<std::size_t>(t)]});
    }
    trace.step_end = 15;
    // Rank 0's reduction waited for rank 1's op of 9.
    EXPECT_EQ(critical_path(trace, {0, 1000}),
              (std::vector<PathSegment>{{1, 0, 0, 9}, {0, 1, 9, 13}, {0, 2, 13, 15}}));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
