// Bias gradients of a GPT's layer are sums over s·b rows of 3h, h, 4h and h elements. Made by the
// products that read these rows for the weights' gradients, nobody reads them for the sums alone.
#include <algorithm>

#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;

constexpr std::int64_t kSequence = 32, kHidden = 512, kLayers = 4;
const char* const kSummed = "training.bias_gradient_kernel=epilogue";

Sets with(Sets sets, const std::string& more) {
    sets.push_back(more);
    return sets;
}

double backward_bytes(const plan::Plan& plan) {
    const Block& block = block_named(plan, "layer.backward");
    double bytes = 0;
    for (const Op& op : block.ops)
        bytes += plan::bytes_moved(block, op);
    return bytes;
}

std::int64_t of_kind(const Block& block, plan::OpKind kind) {
    return std::count_if(block.ops.begin(), block.ops.end(),
                         [kind](const Op& op) { return op.kind() == kind; });
}

TEST(BiasGradient, SparesOneReadingOfTheRows) {
    struct Case {
        Sets sets;
        std::int64_t samples;
        std::int64_t width;  // of a rank's rows that are not read again, in h
        std::int64_t share = 1;
        std::int64_t products = 4;
    };
    const std::string sp = "layout.sequence_parallel=true", tp4 = "layout.tensor_parallel=4";
    for (const Case& c : std::initializer_list<Case>{
             {{}, 1, 9},
             {{"layout.micro_batch_size=2"}, 2, 9},
             {{"layout.recompute=full"}, 1, 9},
             {{"training.activation_kernel=epilogue"}, 1, 9},
             // Row-parallel linears: all rows on each rank, of which its biases are the same.
             {{tp4}, 1, 7 + 4 * 2, 4},
             // Their biases are added to a share of the rows that their products make.
             {{tp4, sp}, 1, 7, 4, 2}}) {
        const plan::Plan apart = plan_of(c.sets), summed = plan_of(with(c.sets, kSummed));
        const auto rows = static_cast<double>(2 * c.samples * kSequence * kHidden);
        EXPECT_EQ(backward_bytes(apart) - backward_bytes(summed),
                  rows * static_cast<double>(c.width) / static_cast<double>(c.share));
        const Block& before = block_named(apart, "layer.backward");
        const Block& after = block_named(summed, "layer.backward");
        EXPECT_EQ(of_kind(after, plan::OpKind::bias_gradient_gemm), c.products);
        EXPECT_EQ(of_kind(before, plan::OpKind::bias_gradient) -
                      of_kind(after, plan::OpKind::bias_gradient),
                  c.products);
        EXPECT_EQ(kept_of(apart), kept_of(summed));
    }
}

// A pipeline that makes weights' gradients later makes their biases' with them.
TEST(BiasGradient, WaitsWithTheWeights) {
    const Sets halves = {"layout.pipeline_parallel=2", "layout.schedule=zb-h1"};
    const plan::Plan apart = plan_of(halves), summed = plan_of(with(halves, kSummed));
    const auto in = [](const plan::Plan& plan, const char* half, plan::OpKind kind) {
        return of_kind(block_named(plan, half), kind);
    };
    EXPECT_EQ(in(apart, "layer.backward_input", plan::OpKind::bias_gradient), 4);
    EXPECT_EQ(in(summed, "layer.backward_input", plan::OpKind::bias_gradient), 0);
    EXPECT_EQ(in(summed, "layer.backward_weight", plan::OpKind::bias_gradient_gemm), 4);
}

// The rule refuses the key exactly where the pass would find nothing to do.
TEST(BiasGradient, IsRefusedWhereNothingIsSummed) {
    const std::string parts = "training.tensor_overlap_parts=2", tp4 = "layout.tensor_parallel=4",
                      sp = "layout.sequence_parallel=true";
    struct Case {
        Sets sets;
        const char* text = kGpt;
    };
    int refused = 0, taken = 0;
    for (const Case& c : std::initializer_list<Case>{
             {{}},
             {{}, kLlama},
             {{"model.attention_bias=true"}, kLlama},
             {{"model.mlp_bias=true"}, kLlama},
             {{"training.precision=fp32"}},
             {{parts}},
             {{tp4, sp}},
             {{parts, tp4}},
             {{parts, tp4, sp}},
             {{R"(training.lora={"rank": 2, "target_modules": ["linear_qkv"]})"}}}) {
        const plan::ReadResult read =
            plan::read_scenario_text(c.text, "theory.json", "", with(c.sets, kSummed), library());
        plan::Scenario asked = scenario(c.sets, c.text);
        asked.training.framework.bias_gradient_kernel = plan::BiasGradientKernel::epilogue;
        std::int64_t found = 0;
        for (const Block& block : plan::build_plan(asked).blocks)
            found += of_kind(block, plan::OpKind::bias_gradient_gemm);
        EXPECT_EQ(read.scenario.has_value(), found > 0)
            << testing::PrintToString(c.sets) << plan::format_text(read.errors);
        ++(found > 0 ? taken : refused);
    }
    EXPECT_GT(refused, 0);
    EXPECT_GT(taken, 0);
}

// Rows so long that none of them fit the cache: of a layer and micro-batch 9 h elements of each row
// are not read again at the memory's bandwidth. Four kernels that sum columns are no more; four
// that add to sums of other micro-batches, three passes over 9 h elements in all, stand in their
// place. The host keeps nobody waiting.
TEST(BiasGradient, SavesTheReading) {
    const sim::Profile profile = sim::load_profile(library() + "/profiles/a100-80gb-sxm.json");
    constexpr std::int64_t kSamples = 2816, kRows = kSamples * kSequence;
    const double resident = profile.memory.resident_bytes.value;
    ASSERT_GT(2 * kRows * kHidden, 2 * resident);
    const Sets sets = {set("layout.micro_batch_size", kSamples),
                       set("layout.global_batch_size", 2 * kSamples), "training.launch_us=0"};
    const auto step_s = [&](const Sets& asked) {
        return sim::simulate(scenario(asked), profile, {}, "{}").step.time_s;
    };
    const double efficiency = profile.memory.efficiency.value * 1e9;
    const double at_memory = efficiency * profile.hardware.memory_GBps.value,
                 at_cache = efficiency * profile.memory.cache_GBps.value;
    constexpr double kWidth = 9.0 * kHidden, kGradient = 4;
    const double constants =
        4e-6 * (profile.memory.reduction_t0_us.value - profile.memory.t0_us.value);
    const double each = (2 * kRows * kWidth + 2 * kGradient * kWidth) / at_memory -
                        3 * kGradient * kWidth / at_cache + constants;
    EXPECT_NEAR(step_s(sets) - step_s(with(sets, kSummed)), 2 * kLayers * each,
                2 * kLayers * 8e-12);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
