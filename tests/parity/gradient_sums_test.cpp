// What gradients of 16-bit weights are summed in over micro-batches. Of micro-batches that are all
// alike the sum is that of one, to which each adds its share: with a power of two of them, exactly
// that share.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

Trained train_alike(std::int64_t micro_batches, Sets sets) {
    sets.insert(sets.end(), {"model.n_layer=1", "model.n_embd=16", "model.n_head=2",
                             "layout.micro_batch_size=1",
                             "layout.global_batch_size=" + std::to_string(micro_batches)});
    RunOptions options;
    options.steps = 1;
    options.samples = [](std::int64_t, std::span<std::int32_t> tokens,
                         std::span<std::int32_t> targets) {
        for (std::size_t i = 0; i < tokens.size(); ++i)
            tokens[i] = targets[(i + tokens.size() - 1) % tokens.size()] =
                static_cast<std::int32_t>(7 * i % 125);
    };
    return train(scenario(kGpt, sets), options);
}

constexpr std::int64_t kMicroBatches = 1024;

// Each addition of fp32 rounds by 2⁻²⁴ of the sum at most.
TEST(GradientSums, OfSixteenBitsAreOfFp32ByDefault) {
    const double within = static_cast<double>(kMicroBatches) * std::exp2(-24);
    for (const char* precision : {"bf16", "fp16"}) {
        Sets sets = {std::string("training.precision=") + precision};
        if (precision == std::string("fp16")) sets.push_back("training.loss_scale=65536");
        const Trained one = train_alike(1, sets), many = train_alike(kMicroBatches, sets);
        EXPECT_LT(difference(many.gradients, one.gradients).relative, within) << precision;
        EXPECT_NEAR(many.norms[0], one.norms[0], within * one.norms[0]) << precision;
    }
}

// bf16 keeps 8 bits: once a sum is over 2⁸ times what is added, rounding loses the addend or adds
// it twice; from the next power of two on, which is 512 of 1,024 addends at most, it loses it.
TEST(GradientSums, InSixteenBitsLoseWhatComesLate) {
    const Sets sets = {"training.precision=bf16", "training.gradient_dtype=same"};
    const Trained one = train_alike(1, sets), many = train_alike(kMicroBatches, sets);
    EXPECT_LE(many.norms[0], one.norms[0] / 2 * (1 + std::exp2(-8)));
    EXPECT_GE(many.norms[0], one.norms[0] / 4 * (1 - std::exp2(-8)));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
