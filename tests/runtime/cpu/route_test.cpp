#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

struct Routed {
    Values scores, weights;
    std::vector<std::int32_t> choice, counts;
};

// By the definition, in fp64, with sorts.
Routed plain_route(const RoutingRule& rule, const Values& logits, const Values& bias) {
    Routed routed;
    const std::int64_t experts = rule.experts;
    const auto rows = static_cast<std::int64_t>(logits.size()) / experts;
    routed.counts.assign(at(experts), 0);
    for (std::int64_t row = 0; row < rows; ++row) {
        Values scores(at(experts));
        double sum = 0;
        for (std::int64_t i = 0; i < experts; ++i)
            sum += std::exp(logits[at(row * experts + i)]);
        for (std::int64_t i = 0; i < experts; ++i) {
            const double x = logits[at(row * experts + i)];
            scores[at(i)] = rule.sigmoid ? 1 / (1 + std::exp(-x)) : std::exp(x) / sum;
        }
        Values by = scores;
        for (std::int64_t i = 0; i < experts && !bias.empty(); ++i)
            by[at(i)] += bias[at(i)];
        const auto best = [](const Values& of, std::vector<std::int64_t> among, std::int64_t n) {
            std::stable_sort(among.begin(), among.end(),
                             [&](auto a, auto b) { return of[at(a)] > of[at(b)]; });
            among.resize(at(n));
            return among;
        };
        std::vector<std::int64_t> open(at(experts));
        std::iota(open.begin(), open.end(), 0);
        if (rule.groups > 0) {
            const std::int64_t each = experts / rule.groups;
            Values of_groups;
            std::vector<std::int64_t> groups(at(rule.groups));
            std::iota(groups.begin(), groups.end(), 0);
            for (const std::int64_t group : groups) {
                std::vector<std::int64_t> own(at(each));
                std::iota(own.begin(), own.end(), group * each);
                double of_group = 0;
                for (const std::int64_t i : best(by, own, rule.group_best))
                    of_group += by[at(i)];
                of_groups.push_back(of_group);
            }
            open.clear();
            std::vector<std::int64_t> kept = best(of_groups, groups, rule.kept_groups);
            std::sort(kept.begin(), kept.end());
            for (const std::int64_t group : kept)
                for (std::int64_t i = 0; i < each; ++i)
                    open.push_back(group * each + i);
        }
        std::vector<std::int64_t> chosen = best(by, open, rule.chosen);
        std::sort(chosen.begin(), chosen.end());
        double of_chosen = 0;
        for (const std::int64_t i : chosen)
            of_chosen += scores[at(i)];
        for (const std::int64_t i : chosen) {
            routed.choice.push_back(static_cast<std::int32_t>(i));
            ++routed.counts[at(i)];
            routed.weights.push_back(rule.factor * scores[at(i)] /
                                     (rule.normalizes ? of_chosen : 1));
        }
        routed.scores.insert(routed.scores.end(), scores.begin(), scores.end());
    }
    return routed;
}

// Logits, scores and weights in the type that is computed in.
Routed run_route(const World& world, const RoutingRule& rule, const Values& logits,
                 const Values& bias, std::vector<Tensor>* outputs = nullptr) {
    const auto rows = static_cast<std::int64_t>(logits.size()) / rule.experts;
    const Tensor in = world.work_in(logits), tbias = world.work_in(bias);
    const Tensor scores = world.work_out(logits.size());
    const Tensor weights = world.work_out(at(rows * rule.chosen));
    Routed routed;
    routed.choice.assign(at(rows * rule.chosen), -1);
    routed.counts.assign(at(rule.experts), -1);
    world.table.route(
        {rows, rule, in.buffer(), bias.empty() ? Buffer{} : tbias.buffer(), scores.buffer(),
         routed.choice.data(), weights.buffer(), routed.counts.data()},
        world.team);
    routed.scores = scores.values();
    routed.weights = weights.values();
    if (outputs != nullptr) *outputs = {scores, weights};
    return routed;
}

std::vector<RoutingRule> rules() {
    std::vector<RoutingRule> all;
    for (const bool sigmoid : {false, true})
        for (const bool normalizes : {false, true}) {
            all.push_back({8, 2, sigmoid, normalizes});
            all.push_back({60, 4, sigmoid, normalizes, 2.5});
            all.push_back({5, 5, sigmoid, normalizes});  // all of them
            all.push_back({1, 1, sigmoid, normalizes});
            all.push_back({16, 3, sigmoid, normalizes, 1, 4, 2, 2});
            all.push_back({16, 4, sigmoid, normalizes, 16, 8, 3, 1});
        }
    return all;
}

constexpr std::int64_t kRows = 70;

TEST(Route, ChoosesAndWeighsAsSortsDo) {
    Team team(2);
    for (const RoutingRule& rule : rules())
        for (const bool biased : {false, true}) {
            const Values logits = exact_numbers(kRows * rule.experts, 11);
            Values bias;
            if (biased)
                for (const double x : exact_numbers(rule.experts, 12))
                    bias.push_back(x / 4);
            const Routed expected = plain_route(rule, logits, bias);
            const Routed found =
                run_route({baseline_kernels(), team, plan::DType::fp64}, rule, logits, bias);
            EXPECT_EQ(found.choice, expected.choice) << rule.experts << " " << rule.groups;
            EXPECT_EQ(found.counts, expected.counts);
            EXPECT_EQ(std::accumulate(found.counts.begin(), found.counts.end(), 0),
                      kRows * rule.chosen);
            // Exponentials to a few last places, sums of up to 60 of them.
            expect_equal_in_fp64(found.scores, expected.scores, 80);
            expect_equal_in_fp64(found.weights, expected.weights, 160);
        }
}

// Scores that differ by no more than their roundings may be chosen either way in fp32: logits here
// are far apart.
TEST(Route, IsTheSameOnEveryTeamAndInstructionSet) {
    const RoutingRule rule{24, 3, false, true};
    Values logits;
    for (std::int64_t row = 0; row < kRows; ++row)
        for (std::int64_t i = 0; i < rule.experts; ++i)
            logits.push_back(static_cast<double>((row * 7 + i * 5) % 24) / 8);
    const Computation run = [&](const World& world) {
        std::vector<Tensor> outputs;
        const Routed routed = run_route(world, rule, logits, {}, &outputs);
        EXPECT_EQ(routed.choice, plain_route(rule, logits, {}).choice);
        return outputs;
    };
    expect_everywhere(run, 100);
}

TEST(Route, GivesTiesToTheLowerExpert) {
    Team team(1);
    for (const bool sigmoid : {false, true}) {
        const RoutingRule rule{6, 2, sigmoid, true};
        const World world{kernels(), team, plan::DType::fp32};
        EXPECT_EQ(run_route(world, rule, Values(12, 0.5), {}).choice,
                  (std::vector<std::int32_t>{0, 1, 0, 1}));
        EXPECT_EQ(run_route(world, rule, {0, 1, 0, 1, 1, 0}, {}).choice,
                  (std::vector<std::int32_t>{1, 3}));
        // Groups alike: the first ones are kept.
        const RoutingRule grouped{6, 2, sigmoid, true, 1, 3, 1, 1};
        EXPECT_EQ(run_route(world, grouped, Values(6, 0.5), {}).choice,
                  (std::vector<std::int32_t>{0, 1}));
    }
}

// Of logits that are no numbers some experts are chosen, each once.
TEST(Route, ChoosesDistinctExpertsOfNoNumbers) {
    Team team(1);
    const RoutingRule rule{4, 2, true, true};
    const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
    const World world{kernels(), team, plan::DType::fp32};
    EXPECT_EQ(run_route(world, rule, Values(4, nan), {}).choice, (std::vector<std::int32_t>{0, 1}));
    EXPECT_EQ(run_route(world, rule, {nan, -1, nan, 2}, {}).choice,
              (std::vector<std::int32_t>{1, 3}));
    // Scores that are all 0 have weights 0, not 0 ÷ 0.
    EXPECT_EQ(run_route(world, rule, Values(4, -infinity), {}).weights, (Values{0, 0}));
}

// A bias that decides which experts are chosen leaves their weights as they are.
TEST(Route, BiasChoosesAndDoesNotWeigh) {
    Team team(1);
    const RoutingRule rule{4, 1, true, false};
    const Values logits = {2, 1, 0, -1}, bias = {0, 0, 0, 3};
    const World world{kernels(), team, plan::DType::fp64};
    const Routed routed = run_route(world, rule, logits, bias);
    EXPECT_EQ(routed.choice, std::vector<std::int32_t>{3});
    EXPECT_NEAR(routed.weights[0], 1 / (1 + std::exp(1)), 1e-15);
}

// The choice is a step function: it stays what it is in the loss of finite differences.
TEST(Route, BackwardIsItsGradient) {
    Team team(2);
    const World world{baseline_kernels(), team, plan::DType::fp64};
    for (const RoutingRule& rule : rules()) {
        const Values logits = exact_numbers(kRows * rule.experts, 21);
        const Values dweights = exact_numbers(kRows * rule.chosen, 22);
        const Routed routed = run_route(world, rule, logits, {});
        const Tensor tdw = world.in(dweights), scores = world.in(routed.scores);
        const Tensor dlogits = world.out(logits.size());
        world.table.route_backward(
            {kRows, rule, tdw.buffer(), scores.buffer(), routed.choice.data(), dlogits.buffer()},
            team);
        const auto loss = [&](const Values& x) {
            double sum = 0;
            for (std::int64_t row = 0; row < kRows; ++row) {
                double all = 0, chosen = 0;
                const auto score = [&](std::int64_t expert) {
                    const double logit = x[at(row * rule.experts + expert)];
                    return rule.sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit) / all;
                };
                for (std::int64_t i = 0; i < rule.experts; ++i)
                    all += std::exp(x[at(row * rule.experts + i)]);
                for (std::int64_t i = 0; i < rule.chosen; ++i)
                    chosen += score(routed.choice[at(row * rule.chosen + i)]);
                for (std::int64_t i = 0; i < rule.chosen; ++i)
                    sum += dweights[at(row * rule.chosen + i)] * rule.factor *
                           score(routed.choice[at(row * rule.chosen + i)]) /
                           (rule.normalizes ? chosen : 1);
            }
            return sum;
        };
        // Where the weight is 1 whatever the logits are, the gradient is what rounding leaves.
        if (rule.experts == 1 && (rule.normalizes || !rule.sigmoid)) {
            for (const double g : dlogits.values())
                EXPECT_NEAR(g, 0, 1e-14);
        } else {
            expect_gradient(loss, logits, dlogits.values());
        }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
