// A graph of actions says what the engine says, to the picosecond, or there is none: on random
// layouts with random durations, for every schedule, with a short queue of the host and a slow-down
// that the graph cannot know of.
#include "sim/engine/action_graph.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/machine.hpp"
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
    std::vector<Picoseconds> scratch;
    const ActionTimes times = graph.evaluate(graph.durations(machine.input), scratch);
    const EngineResult result = run_engine(machine.input);
    if (!result.stuck.empty()) return "the engine is stuck";
    const StepWindow window = step_window(machine, result);
    if (times.start == window.start && times.end == window.end) return "";
    return "graph " + std::to_string(times.start) + " to " + std::to_string(times.end) +
           ", engine " + std::to_string(window.start) + " to " + std::to_string(window.end);
}

RC_GTEST_PROP(ActionGraph, SaysWhatTheEngineSaysOnRandomLayouts, ()) {
    const Sets sets = joined(random_sets(), {"layout.optimizer_post_validation=false"});
    RC_LOG() << testing::PrintToString(sets) << "\n";
    const plan::Scenario asked = theory::scenario(joined(sets, {"cluster.slow_devices=[]"}));
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

RC_GTEST_PROP(ActionGraph, IsExactOrIsNot, ()) {
    const plan::Scenario asked =
        theory::scenario(joined(random_sets(), {"cluster.slow_devices=[]"}));
    const plan::Plan plan = plan::build_plan(asked);
    Machine machine = ideal_machine(plan, asked);
    draw_durations(machine);
    machine.input.launch_queue = *rc::gen::elementOf(std::vector<std::int64_t>{1, 2, 8, 64});
    machine.input.compute_slowdown_permille =
        *rc::gen::elementOf(std::vector<std::int64_t>{0, 189});
    if (*rc::gen::arbitrary<bool>())
        machine.input.node_network_kBps =
            build_machine(plan, asked, profile(), false).input.node_network_kBps;
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
    const ActionTimes times = graph->evaluate(graph->durations(machine.input), scratch);
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

TEST(ActionGraph, IsRefusedWhereItWouldNotBeExact) {
    const plan::Scenario asked = pipeline_of(2, 4, "1f1b");
    const plan::Plan plan = plan::build_plan(asked);
    Machine machine = ideal_machine(plan, asked);
    const auto exists = [&] { return ActionGraph::of(machine.input, 1).has_value(); };
    EXPECT_TRUE(exists());
    machine.input.launch = 1;
    EXPECT_FALSE(exists());
    machine.input.launch = 0;
    machine.input.compute_slowdown_permille = 100;  // transfers run beside the next action
    EXPECT_FALSE(exists());
    machine.input.compute_slowdown_permille = 0;
    machine.input.launch_queue = 1;
    EXPECT_FALSE(exists());
    machine.input.launch_queue = 1024;
    machine.input.peers_never_wait = true;
    EXPECT_FALSE(exists());
    machine.input.peers_never_wait = false;
    const Uneven uneven(asked.cluster, 0);
    machine.input.tracks[0].uneven = &uneven;
    EXPECT_FALSE(exists());
    machine.input.tracks[0].uneven = nullptr;
    EXPECT_TRUE(exists());
}

}  // namespace
}  // namespace orrery::sim
