// GELU behind the first product of an MLP passes twice over s·b·4h elements, and its gradient three
// times. Taken along by the products, GELU reads them no more, and of what the second product's
// gradient makes it is the last to hear: that is neither written nor read.
#include <algorithm>

#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;

constexpr std::int64_t kSequence = 32, kHidden = 512, kLayers = 4;
const char* const kTaken = "training.activation_kernel=epilogue";

Sets with(Sets sets, const std::string& more) {
    sets.push_back(more);
    return sets;
}

double bytes_of(const plan::Plan& plan, const char* name) {
    const Block& block = block_named(plan, name);
    double bytes = 0;
    for (const Op& op : block.ops)
        bytes += plan::bytes_moved(block, op);
    return bytes;
}

std::size_t ops_of(const plan::Plan& plan, const char* name) {
    return block_named(plan, name).ops.size();
}

TEST(Epilogue, SparesPassesOverTheInnerRows) {
    struct Case {
        Sets sets;
        std::int64_t samples, share;
        int forward, backward;  // passes that are spared
        std::size_t kernels;    // of backward
    };
    const std::string sp = "layout.sequence_parallel=true", tp4 = "layout.tensor_parallel=4";
    for (const Case& c : std::initializer_list<Case>{
             {{}, 1, 1, 1, 2, 1},
             {{"layout.micro_batch_size=2"}, 2, 1, 1, 2, 1},
             {{tp4}, 1, 4, 1, 2, 1},
             {{tp4, sp}, 1, 4, 1, 2, 1},
             // What is made again is not kept before.
             {{"layout.recompute=full"}, 1, 1, 2, 3, 2},
             // GELU is made again alone, of a product that is kept.
             {{"layout.recompute=selective", R"(layout.recompute_modules=["mlp_act"])"},
              1,
              1,
              1,
              2,
              1}}) {
        const plan::Plan apart = plan_of(c.sets, kGpt), taken = plan_of(with(c.sets, kTaken), kGpt);
        const auto pass = static_cast<double>(2 * c.samples * kSequence * 4 * kHidden / c.share);
        EXPECT_EQ(bytes_of(apart, "layer.forward") - bytes_of(taken, "layer.forward"),
                  c.forward * pass);
        EXPECT_EQ(bytes_of(apart, "layer.backward") - bytes_of(taken, "layer.backward"),
                  c.backward * pass);
        EXPECT_EQ(ops_of(apart, "layer.forward"), ops_of(taken, "layer.forward") + 1);
        EXPECT_EQ(ops_of(apart, "layer.backward"), ops_of(taken, "layer.backward") + c.kernels);
        EXPECT_EQ(kept_of(apart), kept_of(taken));
    }
}

// The rule refuses the key exactly where the pass would find nothing to do.
TEST(Epilogue, IsRefusedWhereNothingIsTakenAlong) {
    const std::string parts = "training.tensor_overlap_parts=2", tp4 = "layout.tensor_parallel=4";
    const auto lora = [](const char* modules) {
        return std::string("training.lora={\"rank\": 2, \"target_modules\": ") + modules + "}";
    };
    struct Case {
        Sets sets;
        const char* text = kGpt;
    };
    int refused = 0, taken = 0;
    for (const Case& c :
         std::initializer_list<Case>{{{}},
                                     {{"model.activation_function=gelu_new"}},
                                     {{"model.activation_function=gelu"}},
                                     {{}, kLlama},
                                     {{"training.precision=fp32"}},
                                     {{parts}},
                                     {{parts, tp4}},
                                     {{parts, tp4, "layout.sequence_parallel=true"}},
                                     {{lora(R"(["linear_qkv"])")}},
                                     {{lora(R"(["linear_fc1"])")}},
                                     {{lora(R"(["linear_fc2"])")}},
                                     {{lora(R"(["linear_fc1", "linear_fc2"])")}}}) {
        const plan::ReadResult read =
            plan::read_scenario_text(c.text, "theory.json", "", with(c.sets, kTaken), library());
        plan::Scenario asked = scenario(c.sets, c.text);
        asked.training.framework.activation_kernel = plan::ActivationKernel::epilogue;
        std::int64_t found = 0;
        for (const Block& block : plan::build_plan(asked).blocks)
            found += std::count_if(block.ops.begin(), block.ops.end(),
                                   [](const Op& op) { return op.is<plan::ActivatedGemm>(); });
        EXPECT_EQ(read.scenario.has_value(), found > 0)
            << testing::PrintToString(c.sets) << plan::format_text(read.errors);
        ++(found > 0 ? taken : refused);
    }
    EXPECT_GT(refused, 0);
    EXPECT_GT(taken, 0);
}

// Floating-point operations are the products'.
TEST(Epilogue, MultipliesAsMuch) {
    const auto flops = [](const plan::Plan& plan) {
        double sum = 0;
        for (const char* name : {"layer.forward", "layer.backward"})
            for (const Op& op : block_named(plan, name).ops)
                sum += plan::flops(op);
        return sum;
    };
    EXPECT_EQ(flops(plan_of({kTaken}, kGpt)), flops(plan_of({}, kGpt)));
}

// Rows so long that none of them fit the cache: of a layer and micro-batch two kernels' constants
// are saved, and three passes over the inner rows at the memory's bandwidth. The host keeps nobody
// waiting.
TEST(Epilogue, SavesTwoKernelsAndThreePasses) {
    const sim::Profile profile = sim::load_profile(library() + "/profiles/a100-80gb-sxm.json");
    constexpr std::int64_t kSamples = 704, kElements = kSamples * kSequence * 4 * kHidden;
    ASSERT_GT(2 * kElements, 2 * profile.memory.resident_bytes.value);
    const Sets sets = {set("layout.micro_batch_size", kSamples),
                       set("layout.global_batch_size", 2 * kSamples), "training.launch_us=0"};
    const auto step_s = [&](const Sets& asked) {
        return sim::simulate(scenario(asked, kGpt), profile, {}, "{}").step.time_s;
    };
    const double bandwidth =
        profile.memory.efficiency.value * profile.hardware.memory_GBps.value * 1e9;
    const double each =
        2 * profile.memory.t0_us.value * 1e-6 + 3 * static_cast<double>(2 * kElements) / bandwidth;
    // Two times of whole picoseconds in forward and in backward each, with the engine's own.
    EXPECT_NEAR(step_s(sets) - step_s(with(sets, kTaken)), 2 * kLayers * each, 2 * kLayers * 6e-12);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
