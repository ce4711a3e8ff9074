// A residual addition passes over a layer's rows three times (branch, residual, sum), the norm of
// the sum twice (sum, result). As one kernel they pass four times, as the sum is at hand: a read of
// s·b·h elements less, and a kernel. So it is once per layer, where the second branch begins, in
// forward and where forward is repeated; backward's norm adds the residual's gradient anyway.
#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;
using plan::OpKind;

constexpr std::int64_t kSequence = 32, kHidden = 512, kLayers = 4;

Sets with(Sets sets, const std::string& more) {
    sets.push_back(more);
    return sets;
}

const char* const kFused = "training.norm_kernel=fused_add";

double bytes_of(const Block& block) {
    double bytes = 0;
    for (const Op& op : block.ops)
        bytes += plan::bytes_moved(block, op);
    return bytes;
}

double bytes_of(const plan::Plan& plan, const char* block) {
    return bytes_of(block_named(plan, block));
}

class LayersThatNormSums : public testing::TestWithParam<const char*> {};

TEST_P(LayersThatNormSums, ALayerReadsItsSumOnceLess) {
    struct Case {
        Sets sets;
        std::int64_t elements;  // of a rank's rows
        int in_backward;        // norms that are made again with their sums
    };
    const std::string sp = "layout.sequence_parallel=true", tp4 = "layout.tensor_parallel=4";
    for (const Case& c : std::initializer_list<Case>{
             {{}, kSequence * kHidden, 0},
             {{"layout.micro_batch_size=2"}, 2 * kSequence * kHidden, 0},
             {{tp4}, kSequence * kHidden, 0},
             {{tp4, sp}, kSequence * kHidden / 4, 0},
             {{tp4, sp, "layout.recompute=full"}, kSequence * kHidden / 4, 1},
             {{"layout.recompute=selective_op"}, kSequence * kHidden, 1},
             // Of a sum that is kept the norm is made again alone.
             {{"layout.recompute=selective", R"(layout.recompute_modules=["layernorm"])"},
              kSequence * kHidden,
              0}}) {
        const plan::Plan apart = plan_of(c.sets, GetParam());
        const plan::Plan together = plan_of(with(c.sets, kFused), GetParam());
        const auto saved = static_cast<double>(2 * c.elements);
        EXPECT_EQ(bytes_of(apart, "layer.forward") - bytes_of(together, "layer.forward"), saved);
        EXPECT_EQ(bytes_of(apart, "layer.backward") - bytes_of(together, "layer.backward"),
                  c.in_backward * saved);
        EXPECT_EQ(block_named(apart, "layer.forward").ops.size(),
                  block_named(together, "layer.forward").ops.size() + 1);
        EXPECT_EQ(kept_of(apart), kept_of(together));
    }
}

INSTANTIATE_TEST_SUITE_P(BothFamilies, LayersThatNormSums, testing::Values(kGpt, kLlama));

// Two numbers of four bytes per token of a LayerNorm are its statistics, one of an RMSNorm; vectors
// of two bytes per element are its weight and bias, and the bias of the product before it.
TEST(FusedNorm, PassesFourTimes) {
    for (const auto& [text, statistics, vectors] :
         {std::tuple{kGpt, 2, 3}, std::tuple{kLlama, 1, 1}}) {
        const plan::Plan plan = plan_of({kFused}, text);
        const Block& forward = block_named(plan, "layer.forward");
        int found = 0;
        for (const Op& op : forward.ops) {
            if (!op.is<plan::ResidualNormalize>()) continue;
            ++found;
            EXPECT_EQ(
                plan::bytes_moved(forward, op),
                4 * 2 * kSequence * kHidden + 4 * statistics * kSequence + 2 * vectors * kHidden);
            EXPECT_EQ(plan::flops(op), 0);
        }
        EXPECT_EQ(found, 1);
    }
}

// Rows so long that no two of them fit the cache: what is saved of a layer is a kernel's constant,
// and s·b·h elements over the bandwidth; of two micro-batches. The host keeps nobody waiting.
TEST(FusedNorm, SavesAKernelsConstantAndAReadOfTheSum) {
    const sim::Profile profile = sim::load_profile(library() + "/profiles/a100-80gb-sxm.json");
    constexpr std::int64_t kSamples = 704, kElements = kSamples * kSequence * kHidden;
    ASSERT_GT(2 * 2 * kElements, 2 * profile.memory.resident_bytes.value);
    const Sets sets = {set("layout.micro_batch_size", kSamples),
                       set("layout.global_batch_size", 2 * kSamples), "training.launch_us=0"};
    for (const char* text : {kGpt, kLlama}) {
        const auto step_s = [&](const Sets& asked) {
            return sim::simulate(scenario(asked, text), profile, {}, "{}").step.time_s;
        };
        const double bandwidth =
            profile.memory.efficiency.value * profile.hardware.memory_GBps.value * 1e9;
        const double each =
            profile.memory.t0_us.value * 1e-6 + static_cast<double>(2 * kElements) / bandwidth;
        // Three times of whole picoseconds for each.
        EXPECT_NEAR(step_s(sets) - step_s(with(sets, kFused)), 2 * kLayers * each,
                    2 * kLayers * 3e-12);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
