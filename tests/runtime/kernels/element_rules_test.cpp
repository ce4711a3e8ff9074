// Shared arithmetic of one element: against closed forms in fp64 and against the CPU's kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "runtime/cpu/kernels.hpp"
#include "runtime/kernels/activation_rules.hpp"
#include "runtime/kernels/dropout_rules.hpp"
#include "runtime/kernels/elements.hpp"
#include "runtime/kernels/gradient_rules.hpp"
#include "runtime/kernels/rope_rules.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DType;

double function_of(ActivationForm form, double x) {
    switch (form) {
        case ActivationForm::gelu_tanh:
        case ActivationForm::geglu_tanh:
            return x / 2 *
                   (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
        case ActivationForm::gelu_erf:
        case ActivationForm::geglu_erf:
            return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
        case ActivationForm::swiglu:
        case ActivationForm::clamped_swiglu:  // computed on no device
            return x / (1 + std::exp(-x));
        case ActivationForm::squared_relu:
            return x > 0 ? x * x : 0;
        case ActivationForm::relu:
            break;
    }
    return std::max(x, 0.0);
}

TEST(ActivationRules, AreTheFunctionsAndTheirSlopes) {
    constexpr double kStep = 1e-6;
    for (const ActivationForm form :
         {ActivationForm::gelu_tanh, ActivationForm::gelu_erf, ActivationForm::relu,
          ActivationForm::squared_relu, ActivationForm::swiglu, ActivationForm::geglu_tanh,
          ActivationForm::geglu_erf})
        for (double x = -9.95; x < 10; x += 0.1) {
            const CurvePoint found = curve_at(form, static_cast<float>(x));
            const double slope =
                (function_of(form, x + kStep) - function_of(form, x - kStep)) / (2 * kStep);
            // A dozen roundings of numbers of up to |x|; 1 + tanh cancels.
            const double bound = 16 * 0x1p-24 * (1 + std::abs(x) * std::abs(x));
            EXPECT_NEAR(static_cast<double>(found.value), function_of(form, x), bound) << x;
            EXPECT_NEAR(static_cast<double>(found.slope), slope, bound + 1e-8) << x;
        }
    EXPECT_TRUE(std::isnan(curve_at(ActivationForm::relu, std::nanf("")).value));
}

TEST(DropoutRules, KeepWhatTheKernelKeeps) {
    constexpr std::int64_t kElements = 1037;
    Team team(1);
    for (const ElementIndex& index :
         {ElementIndex{(1ULL << 40) + 3, 0, 0}, ElementIndex{5, 33, 91}})
        for (const double p : {0.0, 0.1, 0.7}) {
            const DropoutKey key{{99, 4, 7}, p};
            std::vector<float> x(kElements, 1.0F), y(kElements);
            std::vector<std::uint8_t> mask(kElements);
            kernels().dropout({kElements,
                               key,
                               index,
                               {x.data(), DType::fp32},
                               {y.data(), DType::fp32},
                               {mask.data(), DType::u8}},
                              team);
            for (std::int64_t i = 0; i < kElements; ++i) {
                const float factor = dropout_factor(key, global_index(index, i));
                ASSERT_EQ(factor, y[static_cast<std::size_t>(i)]) << i;
                ASSERT_EQ(factor != 0, mask[static_cast<std::size_t>(i)] == 1) << i;
            }
        }
}

// Numbers whose squares fill all five bins, in one bin after another.
TEST(GradientRules, SplitSquaresAsTheKernelDoes) {
    constexpr std::int64_t kElements = 333;
    std::vector<float> gradients;
    for (std::int64_t i = 0; i < kElements; ++i)
        gradients.push_back(static_cast<float>(normal({1, 0, 0}, static_cast<std::uint64_t>(i)) *
                                               std::exp2(-static_cast<double>(i % 45))));
    double expected[kNormBins] = {0x1p-13, 0, 0, 0, 0};
    double found[kNormBins] = {0x1p-13, 0, 0, 0, 0};
    Team team(1);
    kernels().gradient_norm({kElements, {gradients.data(), DType::fp32}, expected}, team);
    for (const float g : gradients)
        add_square(static_cast<double>(g), found);
    for (int bin = 0; bin < kNormBins; ++bin)
        EXPECT_EQ(found[bin], expected[bin]) << bin;
    EXPECT_GT(expected[4], 0);
    double infinite[kNormBins] = {};
    add_square(INFINITY, infinite);
    EXPECT_EQ(infinite[0], INFINITY);
}

TEST(GradientRules, StepAWeightAsTheKernelDoes) {
    constexpr std::size_t kElements = 100;
    std::vector<float> g(kElements), m(kElements), v(kElements), w(kElements);
    for (std::size_t i = 0; i < kElements; ++i) {
        g[i] = static_cast<float>(normal({1, 0, 0}, i));
        m[i] = static_cast<float>(normal({2, 0, 0}, i));
        v[i] = std::abs(static_cast<float>(normal({3, 0, 0}, i)));
        w[i] = static_cast<float>(normal({4, 0, 0}, i));
    }
    std::vector<float> stepped_m = m, stepped_v = v, stepped_w = w;
    double bins[kNormBins] = {36, 0, 0, 0, 0};
    AdamW op;
    op.elements = kElements;
    op.learning_rate = 0.01;
    op.weight_decay = 0.1;
    op.correction1 = 0.19;
    op.correction2 = 0.002;
    op.norm_bins = bins;
    op.clip_norm = 1.5;
    op.gradients = {g.data(), DType::fp32};
    op.m = {stepped_m.data(), DType::fp32};
    op.v = {stepped_v.data(), DType::fp32};
    op.parameters = {stepped_w.data(), DType::fp32};
    Team team(1);
    kernels().adamw(op, team);
    const AdamWStep step = adamw_step(op, clip_factor(bins, op.clip_norm));
    for (std::size_t i = 0; i < kElements; ++i) {
        EXPECT_EQ(step_weight(step, g[i], w[i], m[i], v[i]), stepped_w[i]) << i;
        EXPECT_EQ(m[i], stepped_m[i]) << i;
        EXPECT_EQ(v[i], stepped_v[i]) << i;
    }
}

TEST(RopeRules, TurnAPairByItsAngleAndBack) {
    for (const std::int64_t position : {0, 1, 77, 131071}) {
        constexpr double kFrequency = 0.3;
        float low = 3, high = -4;
        turn_pair(turn_at(position, kFrequency, false), low, high);
        const double angle = std::atan2(-4.0, 3.0) + static_cast<double>(position) * kFrequency;
        // Roundings of cosine, sine, two products and a sum of numbers of up to 5, and of the angle
        // in fp64.
        constexpr double kBound = 5 * 4 * 0x1p-24;
        EXPECT_NEAR(static_cast<double>(low), 5 * std::cos(angle), kBound);
        EXPECT_NEAR(static_cast<double>(high), 5 * std::sin(angle), kBound);
        turn_pair(turn_at(position, kFrequency, true), low, high);
        EXPECT_NEAR(static_cast<double>(low), 3, 2 * kBound);
        EXPECT_NEAR(static_cast<double>(high), -4, 2 * kBound);
    }
}

// 1 + 2^-9 lies half way between neighbours in bf16, and is exact in the others.
TEST(Elements, AreStoredInTheirTypeAndReadBack) {
    for (const DType type : {DType::bf16, DType::fp16, DType::fp32}) {
        std::vector<std::uint32_t> memory(4, 0xffffffffU);
        const Buffer buffer{memory.data(), type};
        store(buffer, 1, 1 + 0x1p-9F);
        store(buffer, 2, -0.375F);
        EXPECT_EQ(load(buffer, 1), type == DType::bf16 ? 1.0F : 1 + 0x1p-9F);
        EXPECT_EQ(load(buffer, 2), -0.375F);
        EXPECT_TRUE(std::isnan(load(buffer, 0)));
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
