// How unequal experts' loads are: closed forms, and tables of simulated draws.
#include "sim/cost/expert_load.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/plan/small_scenarios.hpp"

namespace orrery::sim {
namespace {

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

}  // namespace
}  // namespace orrery::sim
