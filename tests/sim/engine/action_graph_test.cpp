// A graph of actions says what the engine says, to the picosecond, or there is none: on random
// layouts with random durations, for every schedule, with launches of the host and its queue, slow
// devices, jitter, and a slow-down of kernels beside communication.
#include "sim/engine/action_graph.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "sim/machine.hpp"
#include "tests/parity/expert_layouts.hpp"
#include "tests/sim/random_layouts.hpp"
#include "tests/sim/soundness.hpp"

namespace orrery::sim {
namespace {

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/h100-sxm.json");
    return loaded;
}

// A machine whose host issues at once, without slow-down, and with a network for each op.
Machine ideal_machine(const plan::Plan& plan, const plan::Scenario& scenario) {
    Machine machine = build_machine(plan, scenario, profile(), false);
    machine.input.launch = 0;
    machine.input.compute_slowdown_permille = 0;
    machine.input.node_network_kBps = 0;
    return machine;
}

// One transfer time between each two pipeline ranks; many ties, and ops that take no time.
void draw_durations(Machine& machine) {
    for (const auto& table : machine.tables)
        for (Picoseconds& duration : table->durations)
            duration = *rc::gen::inRange<Picoseconds>(0, 20);
    const Picoseconds hop = *rc::gen::inRange<Picoseconds>(0, 50);
    for (EngineTrack& track : machine.input.tracks)
        track.transfer_to_peer.assign(track.transfer_to_peer.size(), hop);
}

std::string graph_fault(const ActionGraph& graph, const Machine& machine) {
    const auto delays = graph.delays(machine.input);
    if (!delays) return "the graph does not hold";
    std::vector<Picoseconds> scratch;
    const ActionTimes times = graph.evaluate(*delays, scratch);
    const EngineResult result = run_engine(machine.input);
    if (!result.stuck.empty()) return "the engine is stuck";
    const StepWindow window = step_window(machine, result);
    if (times.start == window.start && times.end == window.end) return "";
    return "graph " + std::to_string(times.start) + " to " + std::to_string(times.end) +
           ", engine " + std::to_string(window.start) + " to " + std::to_string(window.end);
}

Sets random_sets_of_even_devices() {
    return joined(random_sets(),
                  {"cluster.slow_devices=[]", "layout.optimizer_post_validation=false"});
}

RC_GTEST_PROP(ActionGraph, SaysWhatTheEngineSaysOnRandomLayouts, ()) {
    const Sets sets = random_sets_of_even_devices();
    RC_LOG() << testing::PrintToString(sets) << "\n";
    const plan::Scenario asked = theory::scenario(sets);
    const plan::Plan plan = plan::build_plan(asked);
    Machine machine = ideal_machine(plan, asked);
    draw_durations(machine);
    const auto graph = ActionGraph::of(machine.input, machine.repetitions);
    RC_ASSERT(graph.has_value());
    std::size_t ops = 0;
    for (const EngineTrack& track : machine.input.tracks)
        ops += machine.input.linked[static_cast<std::size_t>(track.program)].size();
    RC_ASSERT(graph->nodes() < ops);
    RC_ASSERT(graph_fault(*graph, machine) == "");
    // The same graph at other prices.
    draw_durations(machine);
    RC_ASSERT(graph_fault(*graph, machine) == "");
}

// A host whose queue holds the whole step, devices that are not alike.
RC_GTEST_PROP(ActionGraph, KnowsLaunchesSlowDevicesAndJitter, ()) {
    const auto devices = *rc::gen::elementOf(std::vector<Sets>{
        {"cluster.slow_devices=[]"},
        {R"(cluster.slow_devices=[{"device": 0, "factor": 1.5}])"},
        {R"(cluster.jitter={"distribution": "lognormal", "relative_sd": 0.2})"},
        {R"(cluster.jitter={"distribution": "normal", "relative_sd": 0.1, "per": "device"})"}});
    const plan::Scenario asked = theory::scenario(joined(random_sets_of_even_devices(), devices));
    const plan::Plan plan = plan::build_plan(asked);
    Machine machine = build_machine(plan, asked, profile(), false);
    machine.input.compute_slowdown_permille = 0;
    machine.input.node_network_kBps = 0;
    machine.input.launch_queue = 1 << 20;
    draw_durations(machine);
    const auto graph = ActionGraph::of(machine.input, machine.repetitions);
    RC_ASSERT(graph.has_value());
    RC_ASSERT(graph_fault(*graph, machine) == "");
    // No price is lower: whatever waited for no launch waits for none now.
    for (const auto& table : machine.tables)
        for (Picoseconds& duration : table->durations)
            duration += *rc::gen::inRange<Picoseconds>(0, 20);
    RC_ASSERT(graph_fault(*graph, machine) == "");
}

// Steps that are issued in turns are told by their ops.
RC_GTEST_PROP(ActionGraph, KnowsStepsThatHideEachOthersExchange, ()) {
    const auto where = *rc::gen::elementOf(
        std::vector<Sets>{{"layout.data_parallel=4"},
                          {"layout.pipeline_parallel=2", "layout.virtual_pipeline=2",
                           "layout.schedule=interleaved", "layout.data_parallel=2"},
                          {"layout.pipeline_parallel=2", "layout.virtual_pipeline=2",
                           "layout.schedule=dualpipe-v", "layout.data_parallel=2"}});
    const plan::Scenario asked =
        theory::scenario(joined(where, {"layout.expert_parallel=2", "layout.global_batch_size=16",
                                        "layout.overlap_expert_communication=true"}),
                         parity::kMixtral);
    const plan::Plan plan = plan::build_plan(asked);
    Machine machine = ideal_machine(plan, asked);
    draw_durations(machine);
    const auto graph = ActionGraph::of(machine.input, machine.repetitions);
    RC_ASSERT(graph.has_value());
    RC_ASSERT(graph_fault(*graph, machine) == "");
}

RC_GTEST_PROP(ActionGraph, IsExactOrIsNot, ()) {
    const plan::Scenario asked = theory::scenario(random_sets());
    const plan::Plan plan = plan::build_plan(asked);
    Machine machine = build_machine(plan, asked, profile(), false);
    draw_durations(machine);
    // Kernels that are far shorter than launches, about as long, and far longer.
    const auto scale = *rc::gen::elementOf(std::vector<Picoseconds>{1, 500'000, 100'000'000});
    for (const auto& table : machine.tables)
        for (Picoseconds& duration : table->durations)
            duration *= scale;
    machine.input.launch_queue = *rc::gen::elementOf(std::vector<std::int64_t>{1, 8, 64, 1024});
    machine.input.compute_slowdown_permille =
        *rc::gen::elementOf(std::vector<std::int64_t>{0, 0, 189});
    if (*rc::gen::arbitrary<bool>()) machine.input.node_network_kBps = 0;
    const auto graph = ActionGraph::of(machine.input, machine.repetitions);
    RC_CLASSIFY(graph.has_value());
    if (graph) RC_ASSERT(graph_fault(*graph, machine) == "");
}

plan::Scenario pipeline_of(std::int64_t stages, std::int64_t micro_batches,
                           const std::string& schedule, std::int64_t chunks = 1) {
    return theory::scenario(
        joined(world(stages, 8),
               {set("layout.pipeline_parallel", stages), set("layout.virtual_pipeline", chunks),
                set("model.n_layer", stages * chunks),
                set("layout.global_batch_size", micro_batches), "layout.schedule=" + schedule}));
}

TEST(ActionGraph, SaysWhatTheEngineSaysForEverySchedule) {
    const std::pair<const char*, std::int64_t> schedules[] = {
        {"gpipe", 1},       {"1f1b", 1}, {"zb-h1", 1},  {"zb-2p", 1},
        {"interleaved", 2}, {"zb-v", 2}, {"v-half", 2}, {"dualpipe-v", 2}};
    for (const auto& [schedule, chunks] : schedules) {
        const plan::Scenario asked = pipeline_of(4, 12, schedule, chunks);
        const plan::Plan plan = plan::build_plan(asked);
        const Machine machine = ideal_machine(plan, asked);
        const auto graph = ActionGraph::of(machine.input, machine.repetitions);
        ASSERT_TRUE(graph.has_value()) << schedule;
        EXPECT_EQ(graph_fault(*graph, machine), "") << schedule;
    }
}

// p stages of one layer, m micro-batches, free transfers: (m + p − 1)(F + B) and what stands alone.
TEST(ActionGraph, KnowsTheBubble) {
    constexpr std::int64_t kStages = 4, kMicroBatches = 8;
    constexpr Picoseconds kForward = 1000, kBackward = 2000;
    const plan::Scenario asked = pipeline_of(kStages, kMicroBatches, "1f1b");
    const plan::Plan plan = plan::build_plan(asked);
    Machine machine = ideal_machine(plan, asked);
    for (const auto& table : machine.tables) {
        std::size_t number = 0;
        for (const plan::Block& block : plan.blocks)
            for (std::size_t i = 0; i < block.ops.size(); ++i) {
                Picoseconds takes = i == 0 && block.name == "layer.forward" ? kForward : 0;
                if (i == 0 && block.name == "layer.backward") takes = kBackward;
                table->durations[number++] = takes;
            }
    }
    for (EngineTrack& track : machine.input.tracks)
        track.transfer_to_peer.assign(track.transfer_to_peer.size(), 0);
    const auto graph = ActionGraph::of(machine.input, machine.repetitions);
    ASSERT_TRUE(graph.has_value());
    std::vector<Picoseconds> scratch;
    const ActionTimes times = graph->evaluate(graph->delays(machine.input).value(), scratch);
    const Picoseconds ideal = kMicroBatches * (kForward + kBackward);
    const Picoseconds bubble = (kStages - 1) * (kForward + kBackward);
    for (std::size_t t = 0; t < times.computing.size(); ++t) {
        EXPECT_EQ(times.computing[t], ideal);
        EXPECT_EQ(times.waiting(t), machine.repetitions == 1 ? bubble : times.step() - ideal);
    }
    EXPECT_EQ(graph_fault(*graph, machine), "");
    if (machine.repetitions == 1) {
        EXPECT_EQ(times.step(), ideal + bubble);
    }
}

// Kernels of 100 µs behind launches of 5 µs: once the host is ahead it stays ahead, as far as its
// queue allows. Of 1 µs: each waits for its launch, and a queue that may fill leaves no graph.
TEST(ActionGraph, HasANodeForWhatMayWaitForItsLaunch) {
    const plan::Scenario asked = pipeline_of(4, 12, "1f1b");
    const plan::Plan plan = plan::build_plan(asked);
    Machine machine = ideal_machine(plan, asked);
    machine.input.launch = 5'000'000;
    const auto graph_at = [&](Picoseconds takes, std::int64_t queue) {
        for (const auto& table : machine.tables)
            std::fill(table->durations.begin(), table->durations.end(), takes);
        machine.input.launch_queue = queue;
        return ActionGraph::of(machine.input, machine.repetitions);
    };
    const auto at_once = graph_at(1'000'000, 4096);
    ASSERT_TRUE(at_once.has_value());
    EXPECT_EQ(graph_fault(*at_once, machine), "");
    EXPECT_FALSE(graph_at(1'000'000, 64).has_value());
    const auto ahead = graph_at(100'000'000, 64);
    ASSERT_TRUE(ahead.has_value());
    EXPECT_EQ(graph_fault(*ahead, machine), "");
    EXPECT_LT(4 * ahead->nodes(), at_once->nodes());
    // At lower prices other ops may wait for the host.
    graph_at(99'999'999, 64);
    EXPECT_FALSE(ahead->delays(machine.input).has_value());
}

// F and B of each stage and micro-batch are one node each, and so are the transfers between stages:
// what overlaps within an action does not part it.
TEST(ActionGraph, IsSmallWithSequenceParallelism) {
    constexpr std::int64_t kStages = 4, kMicroBatches = 24;
    const plan::Scenario asked = theory::scenario(joined(
        world(kStages * 4, 8),
        {"layout.tensor_parallel=4", "layout.sequence_parallel=true",
         set("layout.pipeline_parallel", kStages), set("model.n_layer", kStages),
         set("layout.global_batch_size", kMicroBatches), "training.overlap_tensor_backward=true"}));
    const plan::Plan plan = plan::build_plan(asked);
    const Machine machine = ideal_machine(plan, asked);
    const auto graph = ActionGraph::of(machine.input, machine.repetitions);
    ASSERT_TRUE(graph.has_value());
    EXPECT_EQ(graph_fault(*graph, machine), "");
    const std::int64_t actions = 2 * kStages + 2 * (kStages - 1);
    // The ends of a step, and where stashes are made room for, are beside them.
    EXPECT_LT(static_cast<std::int64_t>(graph->nodes()),
              machine.repetitions * (actions * kMicroBatches * 11 / 10 + 20 * kStages));
}

TEST(ActionGraph, IsRefusedWhereItWouldNotBeExact) {
    const plan::Scenario asked = pipeline_of(2, 4, "1f1b");
    const plan::Plan plan = plan::build_plan(asked);
    Machine machine = ideal_machine(plan, asked);
    const auto exists = [&] { return ActionGraph::of(machine.input, 1).has_value(); };
    EXPECT_TRUE(exists());
    machine.input.compute_slowdown_permille = 100;  // transfers run beside the next action
    EXPECT_FALSE(exists());
    machine.input.compute_slowdown_permille = 0;
    machine.input.launch_queue = 1;
    EXPECT_FALSE(exists());
    machine.input.launch_queue = 1024;
    machine.input.peers_never_wait = true;
    EXPECT_FALSE(exists());
    machine.input.peers_never_wait = false;
    EXPECT_TRUE(exists());
    // A graph of kernels that are alike each time does not hold where jitter draws for each.
    const auto even = ActionGraph::of(machine.input, 1);
    plan::Cluster jittered = asked.cluster;
    jittered.jitter = {plan::JitterDistribution::lognormal, plan::JitterPer::kernel, 0.1, 1};
    const Uneven uneven(jittered, 0);
    machine.input.tracks[0].uneven = &uneven;
    EXPECT_FALSE(even->delays(machine.input).has_value());
    EXPECT_TRUE(exists());
}

}  // namespace
}  // namespace orrery::sim
