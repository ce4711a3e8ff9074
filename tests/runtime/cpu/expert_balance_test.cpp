#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kSequence = 3;  // rows of a sequence that the rank has
constexpr std::int64_t kFirst = 2;     // of its share of them
constexpr std::int64_t kRows = 5, kChosen = 2, kExperts = 4, kSamples = 3;

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

std::int64_t sample_of(std::int64_t row) {
    return (kFirst + row) / kSequence;
}

TEST(ExpertBalance, CountsChoicesOfEachSequence) {
    Team team(1);
    const World world{baseline_kernels(), team, plan::DType::fp64};
    const std::vector<std::int32_t> choice = {0, 1, 1, 3, 1, 2, 0, 3, 2, 3};
    const Tensor choices = world.out(at(kSamples * kExperts));
    world.table.count_choices(
        {kRows, kChosen, kExperts, kSamples, kFirst, kSequence, choice.data(), choices.buffer()},
        team);
    Values expected(at(kSamples * kExperts), 0);
    for (std::int64_t row = 0; row < kRows; ++row)
        for (std::int64_t i = 0; i < kChosen; ++i)
            expected[at(sample_of(row) * kExperts + choice[at(row * kChosen + i)])] += 1;
    EXPECT_EQ(choices.values(), expected);
}

// What comes to the loss is factor · Σ over rows and experts of choices · share of the scores.
TEST(ExpertBalance, AddsTheGradientOfItsShareOfTheLoss) {
    Team team(2);
    const World world{baseline_kernels(), team, plan::DType::fp64};
    const Values logits = exact_numbers(kRows * kExperts, 31);
    const Values choices = exact_numbers(kSamples * kExperts, 32);
    const Values before = exact_numbers(kRows * kExperts, 33);
    constexpr double kFactor = 0.25;
    constexpr float kScale = 2;
    for (const bool sigmoid : {false, true}) {
        const auto score = [&](double logit) {
            return sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit);
        };
        const auto shares = [&](const Values& x, std::int64_t row) {
            Values of(at(kExperts));
            for (std::int64_t i = 0; i < kExperts; ++i)
                of[at(i)] = score(x[at(row * kExperts + i)]);
            const double sum = std::accumulate(of.begin(), of.end(), 0.0);
            for (double& share : of)
                share /= sum;
            return of;
        };
        const auto loss = [&](const Values& x) {
            double sum = 0;
            for (std::int64_t row = 0; row < kRows; ++row) {
                const Values of = shares(x, row);
                for (std::int64_t i = 0; i < kExperts; ++i)
                    sum +=
                        kFactor * kScale * choices[at(sample_of(row) * kExperts + i)] * of[at(i)];
            }
            return sum;
        };
        Values scores;  // a softmax's are shares
        for (std::int64_t row = 0; row < kRows; ++row)
            for (std::int64_t i = 0; i < kExperts; ++i)
                scores.push_back(sigmoid ? score(logits[at(row * kExperts + i)])
                                         : shares(logits, row)[at(i)]);
        const Tensor tensor_of_scores = world.in(scores), tensor_of_choices = world.in(choices);
        const Tensor dlogits = world.in(before);
        BalanceGradient op;
        op.rows = kRows;
        op.experts = kExperts;
        op.first = kFirst;
        op.run = kSequence;
        op.sigmoid = sigmoid;
        op.factor = kFactor;
        op.scale = &kScale;
        op.scores = tensor_of_scores.buffer();
        op.choices = tensor_of_choices.buffer();
        op.dlogits = dlogits.buffer();
        world.table.balance_gradient(op, team);
        Values added = dlogits.values();
        for (std::size_t i = 0; i < added.size(); ++i)
            added[i] -= before[i];
        expect_gradient(loss, logits, added);
    }
}

// What comes to the loss is factor · Σ over rows of (log Σ exp)².
TEST(ExpertBalance, AddsTheGradientOfTheZLoss) {
    Team team(2);
    const World world{baseline_kernels(), team, plan::DType::fp64};
    const Values logits = exact_numbers(kRows * kExperts, 41);
    const Values before = exact_numbers(kRows * kExperts, 42);
    constexpr double kFactor = 0.25;
    constexpr float kScale = 2;
    const auto loss = [&](const Values& x) {
        double sum = 0;
        for (std::int64_t row = 0; row < kRows; ++row) {
            double powers = 0;
            for (std::int64_t i = 0; i < kExperts; ++i)
                powers += std::exp(x[at(row * kExperts + i)]);
            sum += kFactor * kScale * std::log(powers) * std::log(powers);
        }
        return sum;
    };
    const Tensor tlogits = world.in(logits), dlogits = world.in(before);
    world.table.router_z_gradient(
        {kRows, kExperts, kFactor, &kScale, tlogits.buffer(), dlogits.buffer()}, team);
    Values added = dlogits.values();
    for (std::size_t i = 0; i < added.size(); ++i)
        added[i] -= before[i];
    expect_gradient(loss, logits, added);
}

TEST(LoadGradient, IsWhatAnExpertHasMoreThanTheMean) {
    const std::vector<std::int32_t> counts = {3, 0, 7, 2};
    const Values before = exact_numbers(4, 1);
    for (const bool accumulates : {false, true}) {
        const Computation run = [&](const World& world) {
            const Tensor sums = world.in(before);
            world.table.load_gradient({4, 3, counts.data(), sums.buffer(), accumulates},
                                      world.team);
            return std::vector{sums};
        };
        Values expected = {0, -3, 4, -1};
        for (std::size_t i = 0; i < expected.size() && accumulates; ++i)
            expected[i] += before[i];
        expect_equal_in_fp64(in_fp64(run)[0], expected, 1);
        expect_everywhere(run, 2);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
