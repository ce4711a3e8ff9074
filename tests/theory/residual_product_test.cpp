// A branch ends with a product that writes s·b·h elements, which the residual addition behind it
// reads: added by the product itself, neither passes, and there is a kernel less. So it is twice in
// a layer, and twice where the layer is made again, or once where that stops before its end.
#include <algorithm>

#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;

constexpr std::int64_t kSequence = 32, kHidden = 512, kLayers = 4;
const char* const kAdded = "training.residual_kernel=epilogue";

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

std::int64_t sums_in(const Block& block) {
    return std::count_if(block.ops.begin(), block.ops.end(),
                         [](const Op& op) { return op.is<plan::ResidualGemm>(); });
}

class LayersThatAddInProducts : public testing::TestWithParam<const char*> {};

TEST_P(LayersThatAddInProducts, NeitherWriteNorReadABranch) {
    struct Case {
        Sets sets;
        std::int64_t samples;
        int in_backward;  // sums that are made again
    };
    for (const Case& c : std::initializer_list<Case>{
             {{}, 1, 0},
             {{"layout.micro_batch_size=2"}, 2, 0},
             {{"training.norm_kernel=fused_add"}, 1, 0},
             {{"layout.recompute=full"}, 1, 2},
             {{"layout.recompute=full", "training.recompute_stops_early=true"}, 1, 1}}) {
        const plan::Plan apart = plan_of(c.sets, GetParam());
        const plan::Plan added = plan_of(with(c.sets, kAdded), GetParam());
        const auto rows = static_cast<double>(2 * c.samples * kSequence * kHidden);
        // A norm of fused_add does not read its sum; with nothing left to add it does again.
        const bool norms = c.sets == Sets{"training.norm_kernel=fused_add"};
        EXPECT_EQ(bytes_of(apart, "layer.forward") - bytes_of(added, "layer.forward"),
                  (norms ? 3 : 4) * rows);
        EXPECT_EQ(bytes_of(apart, "layer.backward") - bytes_of(added, "layer.backward"),
                  2 * c.in_backward * rows);
        EXPECT_EQ(sums_in(block_named(added, "layer.forward")), 2);
        EXPECT_EQ(sums_in(block_named(added, "layer.backward")), c.in_backward);
        EXPECT_EQ(kept_of(apart), kept_of(added));
    }
}

INSTANTIATE_TEST_SUITE_P(BothFamilies, LayersThatAddInProducts, testing::Values(kGpt, kLlama));

// The rule refuses the key exactly where the pass would find nothing to do.
TEST(ResidualProduct, IsRefusedWhereNothingIsAdded) {
    const std::string tp4 = "layout.tensor_parallel=4";
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
                                     {{}, kLlama},
                                     {{"training.precision=fp32"}},
                                     {{"training.dropout=0.1"}},
                                     {{"model.attn_pdrop=0.1"}},
                                     {{"layout.recompute=selective_op"}},
                                     {{"layout.pipeline_parallel=2"}},
                                     {{"layout.context_parallel=2"}},
                                     {{tp4}},
                                     {{tp4, "layout.sequence_parallel=true"}},
                                     {{lora(R"(["linear_qkv"])")}},
                                     {{lora(R"(["linear_proj"])")}},
                                     {{lora(R"(["linear_fc2"])")}},
                                     {{lora(R"(["linear_proj", "linear_fc2"])")}}}) {
        const plan::ReadResult read =
            plan::read_scenario_text(c.text, "theory.json", "", with(c.sets, kAdded), library());
        plan::Scenario asked = scenario(c.sets, c.text);
        asked.training.framework.residual_kernel = plan::ResidualKernel::epilogue;
        std::int64_t found = 0;
        for (const Block& block : plan::build_plan(asked).blocks)
            found += sums_in(block);
        EXPECT_EQ(read.scenario.has_value(), found > 0)
            << testing::PrintToString(c.sets) << plan::format_text(read.errors);
        ++(found > 0 ? taken : refused);
    }
    EXPECT_GT(refused, 0);
    EXPECT_GT(taken, 0);
}

// Rows so long that none of them fit the cache: of each sum a kernel's constant is saved, and two
// passes over the rows at the memory's bandwidth, since the residual is read either way. The host
// keeps nobody waiting.
TEST(ResidualProduct, SavesAKernelAndTwoPasses) {
    const sim::Profile profile = sim::load_profile(library() + "/profiles/a100-80gb-sxm.json");
    constexpr std::int64_t kSamples = 2816, kElements = kSamples * kSequence * kHidden;
    ASSERT_GT(2 * kElements, 2 * profile.memory.resident_bytes.value);
    const Sets sets = {set("layout.micro_batch_size", kSamples),
                       set("layout.global_batch_size", 2 * kSamples), "training.launch_us=0"};
    for (const char* text : {kGpt, kLlama}) {
        const auto step_s = [&](const Sets& asked) {
            return sim::simulate(scenario(asked, text), profile, {}, "{}").step.time_s;
        };
        const double bandwidth =
            profile.memory.efficiency.value * profile.hardware.memory_GBps.value * 1e9;
        // Of the three passes of the addition the product has one; the bias goes with it.
        const double bias = text == kGpt ? 2.0 * kHidden / bandwidth : 0;
        const double each = profile.memory.t0_us.value * 1e-6 +
                            2 * static_cast<double>(2 * kElements) / bandwidth + bias;
        EXPECT_NEAR(step_s(sets) - step_s(with(sets, kAdded)), 2 * 2 * kLayers * each,
                    2 * 2 * kLayers * 3e-12);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
