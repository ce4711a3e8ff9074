// How unequal experts' loads are: closed forms, and tables of simulated draws.
#include "sim/cost/expert_load.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/plan/small_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

plan::Scenario scenario_of(plan::ExpertLoad load, std::int64_t chosen) {
    plan::Scenario scenario;
    plan::ExpertMlp experts;
    experts.routing.chosen = chosen;
    scenario.model.layer().mlp = experts;
    scenario.training.routing.distribution = load;
    return scenario;
}

// `tokens` of the whole group.
double fullest(const plan::Scenario& scenario, std::int64_t experts, std::int64_t ranks,
               double tokens) {
    const double chosen = static_cast<double>(scenario.model.experts()->routing.chosen);
    return ExpertLoads(scenario)
        .of({experts, ranks, 1}, tokens * chosen / static_cast<double>(ranks))
        .fullest;
}

TEST(ExpertLoad, TheLargestOfNormalNumbers) {
    EXPECT_EQ(largest_of_normals(1), 0);
    const double pi = 3.14159265358979323846;
    EXPECT_NEAR(largest_of_normals(2), 1 / std::sqrt(pi), 1e-5);
    // Of four: 6·(1/(2√π) + asin(1/3)/(√π·π)) − ... by Jones 1948: 3/√π · (½ + asin(1/3)/π).
    EXPECT_NEAR(largest_of_normals(4), 3 / std::sqrt(pi) * (0.5 + std::asin(1.0 / 3) / pi), 1e-4);
    for (double n = 2; n < 1e4; n *= 1.3)
        EXPECT_LT(largest_of_normals(n), std::sqrt(2 * std::log(n)));  // Cramér's bound
}

// Two ranks with an expert each, one of which a token chooses: the larger count of N tokens is
// N/2 + E|B − N/2|, whose mean deviation is √(N/2π) for a binomial B (de Moivre 1730).
TEST(ExpertLoad, OfTwoRanksIsTheMeanDeviationOfABinomial) {
    const double tokens = 4096, pi = 3.14159265358979323846;
    const plan::Scenario random = scenario_of(plan::ExpertLoad::random, 1);
    EXPECT_NEAR(fullest(random, 2, 2, tokens), 1 + std::sqrt(tokens / (2 * pi)) / (tokens / 2),
                1e-4);
}

// Rows of the fullest rank over the mean of 4,096 tokens that each go through different experts, as
// simulated draws had it (12 seeds; their spread is about a hundredth).
TEST(ExpertLoad, OfManyRanksIsThatOfSimulatedDraws) {
    const struct {
        std::int64_t experts, chosen, ranks;
        double random, dirichlet_10, zipf_half;
    } rows[] = {{8, 2, 8, 1.03, 1.45, 1.72},
                {128, 8, 8, 1.02, 1.10, 1.26},
                {128, 8, 32, 1.06, 1.38, 1.98},
                {256, 8, 64, 1.10, 1.42, 2.65}};
    for (const auto& row : rows) {
        SCOPED_TRACE(row.ranks);
        EXPECT_NEAR(fullest(scenario_of(plan::ExpertLoad::random, row.chosen), row.experts,
                            row.ranks, 4096),
                    row.random, 0.015);
        EXPECT_NEAR(fullest(scenario_of(plan::ExpertLoad::dirichlet, row.chosen), row.experts,
                            row.ranks, 4096),
                    row.dirichlet_10, 0.12 * row.dirichlet_10);
        EXPECT_NEAR(
            fullest(scenario_of(plan::ExpertLoad::zipf, row.chosen), row.experts, row.ranks, 4096),
            row.zipf_half, 0.15 * row.zipf_half);
    }
}

TEST(ExpertLoad, NothingIsSkewedWhereNothingIsSpread) {
    for (const auto load : {plan::ExpertLoad::uniform, plan::ExpertLoad::random,
                            plan::ExpertLoad::dirichlet, plan::ExpertLoad::zipf})
        EXPECT_EQ(fullest(scenario_of(load, 2), 8, 1, 4096), 1);
    EXPECT_EQ(fullest(scenario_of(plan::ExpertLoad::uniform, 2), 8, 8, 4096), 1);
    EXPECT_EQ(fullest(scenario_of(plan::ExpertLoad::random, 8), 8, 8, 4096), 1);  // all chosen
}

TEST(ExpertLoad, CountsAreTakenAsTheyAre) {
    plan::Scenario scenario = scenario_of(plan::ExpertLoad::counts, 1);
    // Of two ranks: 30 of 40 and 22 of 40, twice the mean 20: 1.5 and 1.1.
    scenario.training.routing.counts = {{10, 20, 5, 5}, {10, 8, 11, 11}};
    EXPECT_DOUBLE_EQ(fullest(scenario, 4, 2, 40), (1.5 + 1.1) / 2);
}

TEST(ExpertLoad, DrawsAreOfTheSeed) {
    plan::Scenario scenario = scenario_of(plan::ExpertLoad::zipf, 2);
    const double first = fullest(scenario, 16, 8, 4096);
    EXPECT_EQ(fullest(scenario, 16, 8, 4096), first);
    scenario.training.routing.seed = 2;
    EXPECT_NE(fullest(scenario, 16, 8, 4096), first);
}

// A layer of experts on one rank, of sequences of 4,096 tokens.
plan::Scenario with_capacity(plan::ExpertLoad load, std::int64_t experts, std::int64_t chosen,
                             double factor) {
    plan::Scenario scenario = scenario_of(load, chosen);
    std::get<plan::ExpertMlp>(scenario.model.layer().mlp).routing.experts = experts;
    scenario.training.sequence_length = 4096;
    scenario.training.routing.capacity_factor = factor;
    return scenario;
}

// What more than the capacity choose an expert, of T tokens each with probability k/E.
double dropped_of_binomial(std::int64_t experts, std::int64_t chosen, std::int64_t capacity) {
    const double tokens = 4096, p = static_cast<double>(chosen) / static_cast<double>(experts);
    double over = 0;
    for (double n = static_cast<double>(capacity) + 1; n <= tokens; ++n) {
        const double ways =
            std::lgamma(tokens + 1) - std::lgamma(n + 1) - std::lgamma(tokens - n + 1);
        over += (n - static_cast<double>(capacity)) *
                std::exp(ways + n * std::log(p) + (tokens - n) * std::log1p(-p));
    }
    return over / (tokens * p);
}

TEST(ExpertCapacity, DropsAtRandomWhatABinomialDoes) {
    struct Row {
        std::int64_t experts, chosen;
        double factor;
    };
    for (const Row& row : {Row{8, 2, 1}, Row{8, 2, 1.02}, Row{8, 2, 0.97}, Row{128, 8, 1},
                           Row{128, 8, 1.1}, Row{64, 6, 1.25}}) {
        const plan::Scenario scenario =
            with_capacity(plan::ExpertLoad::random, row.experts, row.chosen, row.factor);
        const auto capacity =
            static_cast<std::int64_t>(std::ceil(4096.0 * static_cast<double>(row.chosen) /
                                                static_cast<double>(row.experts) * row.factor));
        EXPECT_NEAR(ExpertLoads(scenario).dropped_share(),
                    dropped_of_binomial(row.experts, row.chosen, capacity), 3e-4)
            << row.experts << " experts, factor " << row.factor;
    }
}

// What is dropped, and the fullest of two ranks: counts by hand. Of 40 rows for four experts, 10 of
// each are 1.0; the capacity is 12.
TEST(ExpertCapacity, CutsWhatCameToEachExpert) {
    plan::Scenario scenario = with_capacity(plan::ExpertLoad::counts, 4, 1, 1.2);
    scenario.training.routing.counts = {{20, 10, 6, 4}};
    const ExpertLoads loads(scenario);
    EXPECT_NEAR(loads.dropped_share(), 8.0 / 40, 1e-3);  // of 4,096 tokens it is 1,229, not 1,228.8
    const RowLoad load = loads.of({4, 2, 1}, 20);
    EXPECT_NEAR(load.mean, 32.0 / 40, 1e-3);
    EXPECT_NEAR(load.fullest, (12.0 + 10) / 20, 1e-3);
    scenario.training.routing.pads_to_capacity = true;
    EXPECT_EQ(ExpertLoads(scenario).of({4, 2, 1}, 20).fullest, 1);
    EXPECT_NEAR(ExpertLoads(scenario).dropped_share(), 8.0 / 40, 1e-3);
}

// The plan expects what the capacity leaves of rows that are chosen alike often.
TEST(ExpertCapacity, OfLessThanTheMeanIsFull) {
    const plan::Scenario scenario = with_capacity(plan::ExpertLoad::uniform, 8, 2, 0.5);
    EXPECT_EQ(ExpertLoads(scenario).of({8, 4, 1}, 1024).fullest, 1);
    EXPECT_EQ(ExpertLoads(scenario).dropped_share(), 0.5);
    // At random nearly all are full.
    const plan::Scenario random = with_capacity(plan::ExpertLoad::random, 8, 2, 0.5);
    EXPECT_NEAR(ExpertLoads(random).of({8, 4, 1}, 1024).mean, 1, 1e-9);
    EXPECT_NEAR(ExpertLoads(random).of({8, 4, 1}, 1024).fullest, 1, 1e-9);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
