// A compressed stash takes b bytes a number instead of 2 in 16 bits or 4 in fp32: 2 in bf16, and
// 33/32 in fp8, a byte and a 32nd of its block's scale. Statistics keep their size.
#include "plan/memory/arena.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

// By the tensors of the layer's forward block as it is without compression.
std::int64_t expected_bytes(const plan::Block& forward, const std::string& stash) {
    std::int64_t bytes = 0;
    for (const plan::Tensor& tensor : forward.tensors) {
        if (tensor.role != plan::Role::stash) continue;
        const bool statistics = tensor.name.ends_with("_stats") || tensor.name == "lse";
        const std::int64_t n = tensor.elements();
        if (statistics)
            bytes += plan::aligned(tensor.bytes());
        else
            bytes +=
                stash == "bf16" ? plan::aligned(2 * n) : plan::aligned(n) + plan::aligned(n / 32);
    }
    return bytes;
}

TEST(ActivationStash, TakesItsBytes) {
    for (const char* precision : {"bf16", "fp32"})
        for (const char* stash : {"bf16", "fp8"}) {
            if (std::string(precision) == stash) continue;
            const Sets sets = {std::string("training.precision=") + precision};
            Sets compressed = sets;
            compressed.push_back(std::string("layout.activation_stash=") + stash);
            const std::int64_t expected =
                expected_bytes(block_named(plan_of(sets), "layer.forward"), stash);
            const plan::Plan plan = plan_of(compressed);
            EXPECT_EQ(plan::stash_area(block_named(plan, "layer.forward")).bytes, expected)
                << precision << " in " << stash;
        }
}

// GPipe's stash grows with the micro-batches; the arena of a deep pipeline shrinks by it.
TEST(ActivationStash, ShrinksTheArena) {
    const Sets sets = {"training.precision=bf16", "layout.pipeline_parallel=2",
                       "layout.schedule=gpipe", "layout.micro_batch_size=8",
                       "layout.global_batch_size=128"};
    Sets compressed = sets;
    compressed.push_back("layout.activation_stash=fp8");
    const plan::Program exact = plan_of(sets).programs[0];
    const plan::Program packed = plan_of(compressed).programs[0];
    const std::int64_t saved = stash_bytes(exact) - stash_bytes(packed);
    EXPECT_GT(saved, 0);
    // 16 micro-batches wait; what is expanded takes scratch of one layer.
    EXPECT_GT(exact.arena_bytes - packed.arena_bytes, 15 * saved);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
