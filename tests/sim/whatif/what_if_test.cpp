// What-ifs against closed forms, and against the scenario that says the same.
#include "sim/whatif/what_if.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/sim/random_layouts.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/h100-sxm.json");
    return loaded;
}

const WhatIf& named(std::string_view name) {
    for (const WhatIf& what : what_ifs())
        if (what.name == name) return what;
    ADD_FAILURE() << "no what-if " << name;
    return what_ifs().front();
}

Picoseconds simulated(const plan::Scenario& scenario, const Profile& with = profile()) {
    const Prediction prediction = simulate(scenario, with, {}, "");
    return prediction.trace.step_end - prediction.trace.step_start;
}

Picoseconds asked(std::string_view name, const Sets& sets) {
    const plan::Scenario scenario = theory::scenario(sets);
    return step_if(&named(name), plan::build_plan(scenario), scenario, profile());
}

constexpr Picoseconds kForward = 1000;
constexpr Picoseconds kBackward = 2000;

// A machine in which only the first op of a layer's forward and backward takes time.
Machine unit_machine(const plan::Plan& plan, const plan::Scenario& scenario) {
    Machine machine = build_machine(plan, scenario, profile(), false);
    for (const auto& table : machine.tables) {
        table->durations.clear();
        for (const plan::Block& block : plan.blocks)
            for (std::size_t i = 0; i < block.ops.size(); ++i) {
                Picoseconds duration = 0;
                if (i == 0 && block.name == "layer.forward") duration = kForward;
                if (i == 0 && block.name == "layer.backward") duration = kBackward;
                table->durations.push_back(duration);
            }
    }
    for (EngineTrack& track : machine.input.tracks)
        std::fill(track.transfer_to_peer.begin(), track.transfer_to_peer.end(), 0);
    return machine;
}

Picoseconds step_of(const Machine& machine) {
    const StepWindow window = step_window(machine, run_engine(machine.input));
    return window.end - window.start;
}

constexpr std::int64_t kMicroBatches = 8;

Sets pipeline_of_four(const std::string& layers, const std::string& clip_norm) {
    return {"model.n_layer=6",
            "model.n_embd=64",
            "layout.pipeline_parallel=4",
            "layout.layers_per_stage=" + layers,
            "training.launch_us=0",
            "training.launch_queue=1000000",
            "training.optimizer.clip_norm=" + clip_norm,
            set("layout.global_batch_size", kMicroBatches)};
}

// 1F1B, free communication: m·(F + B) of the slowest stage, which holds two layers; without the
// change there is a bubble on top of it.
TEST(WhatIf, WithoutWaitingTheStepIsTheSlowestRanksWork) {
    for (const char* clip_norm : {"0", "1"}) {
        const plan::Scenario scenario = theory::scenario(pipeline_of_four("[1,2,1,2]", clip_norm));
        const plan::Plan plan = plan::build_plan(scenario);
        Machine machine = unit_machine(plan, scenario);
        const Picoseconds slowest = kMicroBatches * 2 * (kForward + kBackward);
        EXPECT_GT(step_of(machine), slowest);
        named("no_bubble").change_machine(plan, profile(), machine);
        EXPECT_EQ(step_of(machine), slowest);
    }
}

// Stages of 1, 2, 1, 2 layers become 1.5 each: 1F1B takes (m + p − 1)·1.5·(F + B).
TEST(WhatIf, BalancedStagesAllTakeTheMean) {
    const plan::Scenario scenario = theory::scenario(pipeline_of_four("[1,2,1,2]", "1"));
    const plan::Plan plan = plan::build_plan(scenario);
    Machine machine = unit_machine(plan, scenario);
    named("balanced_stages").change_machine(plan, profile(), machine);
    EXPECT_EQ(step_of(machine), (kMicroBatches + 3) * 3 * (kForward + kBackward) / 2);
}

// Durations that are even: half of each, half of the step.
TEST(WhatIf, KernelsOfHalfTheTimeHalveAStepOfKernels) {
    const plan::Scenario scenario = theory::scenario(pipeline_of_four("[1,2,1,2]", "1"));
    const plan::Plan plan = plan::build_plan(scenario);
    Machine machine = unit_machine(plan, scenario);
    const Picoseconds before = step_of(machine);
    named("compute_x2").change_machine(plan, profile(), machine);
    EXPECT_EQ(step_of(machine) * 2, before);
}

// Products of eight bits too: none is left above FLOP ÷ the sheet's figure for its elements.
TEST(WhatIf, AtThePeakEveryProductTakesItsOperationsOverIt) {
    for (const char* precision : {"bf16", "fp8"}) {
        Sets sets = {"model.n_embd=1024", "model.n_head=8",
                     std::string("training.precision=") + precision};
        if (precision == std::string("fp8")) sets.emplace_back("training.fp8_recipe=tensorwise");
        const plan::Scenario scenario = theory::scenario(sets);
        const plan::Plan plan = plan::build_plan(scenario);
        Machine machine = build_machine(plan, scenario, profile(), false);
        named("gemm_at_peak").change_machine(plan, profile(), machine);
        int products = 0;
        std::size_t number = 0;
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops) {
                const Picoseconds duration = machine.tables.front()->durations[number++];
                if (op.kind() != plan::OpKind::gemm) continue;
                const std::string type =
                    plan::is_eight_bit(op.dtype) ? "fp8" : std::string(plan::name(op.dtype));
                const double at_peak =
                    plan::flops(op) / (profile().hardware.peak(type)->value * 1e12);
                EXPECT_LE(duration, from_seconds(at_peak)) << block.name << ' ' << op.label;
                products += type == precision ? 1 : 0;
            }
        EXPECT_GT(products, 0) << precision;
    }
}

TEST(WhatIf, IsTheScenarioThatSaysTheSame) {
    const Sets base = {"layout.tensor_parallel=2", "layout.pipeline_parallel=2",
                       "layout.data_parallel=4", "cluster.nodes=8", "cluster.devices_per_node=2"};
    const auto with = [&](const std::string& change) {
        return simulated(theory::scenario(joined(base, {change})));
    };
    EXPECT_EQ(asked("inter_node_bandwidth_x2", base),
              with("cluster.inter_node.bandwidth_Gbps=400"));
    EXPECT_EQ(asked("intra_node_bandwidth_x2", base),
              with("cluster.intra_node.bandwidth_GBps=600"));
    EXPECT_EQ(asked("no_launch_time", base), with("training.launch_us=0"));
    EXPECT_LT(asked("no_launch_time", base), simulated(theory::scenario(base)));
}

TEST(WhatIf, WithoutLaunchTimeNothingCountsAsLaunch) {
    const Prediction prediction =
        simulate(theory::scenario({"training.launch_us=0"}), profile(), {}, "");
    EXPECT_EQ(prediction.step.breakdown_s[static_cast<std::size_t>(trace::Account::launch)], 0);
    const Prediction slow =
        simulate(theory::scenario({"training.launch_us=50"}), profile(), {}, "");
    EXPECT_GT(slow.step.breakdown_s[static_cast<std::size_t>(trace::Account::launch)], 0);
}

// Eight nodes of one rank; nothing takes time but one reduction of 1.6 GB: 2·7/8 of it at 25 GB/s
// are 113 ms, against latencies below 1 ms.
TEST(WhatIf, TwiceTheBandwidthHalvesAStepOfCommunication) {
    const plan::Scenario scenario = theory::scenario(
        {"model.n_embd=4096", "cluster.devices_per_node=1", "layout.data_parallel=8",
         "cluster.inter_node.nics_per_node=1", "training.gradient_bucket_mb=10000",
         "training.overlap_gradient_reduce=false", "training.launch_us=0"});
    const plan::Plan plan = plan::build_plan(scenario);
    const auto step = [&](bool twice) {
        plan::Scenario changed = scenario;
        Profile same = profile();
        if (twice) named("inter_node_bandwidth_x2").change_inputs(changed, same);
        Machine machine = build_machine(plan, changed, same, false);
        for (const auto& table : machine.tables) {
            std::size_t number = 0;
            for (const plan::Block& block : plan.blocks)
                for (const plan::Op& op : block.ops) {
                    if (op.kind() != plan::OpKind::all_reduce) table->durations[number] = 0;
                    ++number;
                }
        }
        return step_of(machine);
    };
    const double ratio = static_cast<double>(step(true)) / static_cast<double>(step(false));
    EXPECT_GE(ratio, 0.5);
    EXPECT_LT(ratio, 0.51);
}

// What is free leaves its account: no optimizer, no exposed communication of that kind.
TEST(WhatIf, FreeCommunicationIsOfOneKind) {
    const Sets sets = {"layout.tensor_parallel=2", "layout.data_parallel=4"};
    const plan::Scenario scenario = theory::scenario(sets);
    const plan::Plan plan = plan::build_plan(scenario);
    Machine machine = build_machine(plan, scenario, profile(), false);
    named("free_tensor_communication").change_machine(plan, profile(), machine);
    std::size_t number = 0;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops) {
            const Picoseconds duration = machine.tables.front()->durations[number++];
            if (op.group == plan::GroupKind::tensor) {
                EXPECT_EQ(duration, 0) << block.name << " " << op.label;
            }
            if (op.group == plan::GroupKind::data) {
                EXPECT_GT(duration, 0) << block.name << " " << op.label;
            }
        }
}

RC_GTEST_PROP(WhatIf, OfNothingIsThePredictionToThePicosecond, ()) {
    const plan::Scenario scenario = theory::scenario(random_sets());
    RC_ASSERT(step_if(nullptr, plan::build_plan(scenario), scenario, profile()) ==
              simulated(scenario));
}

// Where compute is not slowed by communication, a step is a longest path: less work never makes it
// longer. (Of steps in a row, which validation and parameters gathered ahead make of it, the one
// that counts begins where the one before ends, which less work moves too; a balanced pipeline has
// ranks that work more.)
RC_GTEST_PROP(WhatIf, ThatTakesWorkAwayNeverCostsTime, ()) {
    const Sets sets = joined(
        random_sets(), {"training.optimizer.clip_norm=1", "layout.optimizer_post_validation=false",
                        "training.overlap_parameter_gather=false"});
    RC_LOG() << testing::PrintToString(sets) << "\n";
    const plan::Scenario scenario = theory::scenario(sets);
    Profile steady = profile();
    steady.overlap.compute_slowdown.value = 1;
    const Prediction prediction = simulate(scenario, steady, {}, "");
    for (const Answer& answer : ask_what_ifs(scenario, steady, prediction)) {
        RC_LOG() << answer.what->name << " " << answer.gain_s << "\n";
        if (answer.what->name != "balanced_stages") RC_ASSERT(answer.gain_s >= 0);
        if (answer.what->name == "no_slowdown") RC_ASSERT(answer.gain_s == 0);
    }
}

TEST(WhatIf, AnswersAreSortedAndDoNotAskWhatMeansNothing) {
    const plan::Scenario scenario = theory::scenario({"cluster.nodes=1"});
    const Prediction prediction = simulate(scenario, profile(), {}, "");
    const std::vector<Answer> answers = ask_what_ifs(scenario, profile(), prediction);
    ASSERT_FALSE(answers.empty());
    for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_NE(answers[i].what->name, "inter_node_bandwidth_x2");
        EXPECT_NE(answers[i].what->name, "no_bubble");
        EXPECT_NE(answers[i].what->name, "free_tensor_communication");
        if (i > 0) {
            EXPECT_GE(answers[i - 1].gain_s, answers[i].gain_s);
        }
        EXPECT_NEAR(answers[i].step_time_s + answers[i].gain_s, prediction.step.time_s, 1e-12);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
