// Constants of unknown stacks from those of known ones: calib/compare/stack_population.hpp.
#include "calib/compare/stack_population.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
constexpr double kCentral90 = 1.6448536269514722;

json member(const std::string& generation, const std::string& source, double value, double sd,
            int rows = 20, const json& devices = json::array()) {
    return {{"stack", source},
            {"generation", generation},
            {"fitted_to", {source}},
            {"constants",
             {{{"constant", "factor"},
               {"value", value},
               {"sd", sd},
               {"rows", rows},
               {"devices", devices},
               {"source", "a test"}}}}};
}

StackPopulation population(const json& members) {
    return StackPopulation({{"members", members}, {"estimates", json::array()}});
}

json read(const std::string& path) {
    std::ifstream file(path);
    return json::parse(file);
}

// Two stacks that are known equally well, ln 1 and ln 2.25: τ² is half of what the squares about
// the mean exceed their own errors by, (ln 2.25)² ÷ 2 − sd²; the mean of all is √2.25 = 1.5.
TEST(StackPopulation, WeighsMembersAndTheMeanOfAll) {
    const double sd = 0.1;
    const StackPopulation two =
        population({member("eager", "one", 1, sd), member("fused", "other", 2.25, sd)});
    const auto of_none = two.pooled("factor", "compiled", "", "");
    ASSERT_TRUE(of_none);
    EXPECT_NEAR(of_none->value, 1.5, 1e-9);
    EXPECT_EQ(of_none->stacks, 2);
    const double spread = std::pow(std::log(2.25), 2) / 2 - sd * sd;
    // One's generation: itself, and a pseudo-stack at 1.5 whose weight is 1 ÷ τ².
    const double own = 1 / (sd * sd + spread), pseudo = 1 / spread;
    const double expected = std::exp(pseudo * std::log(1.5) / (own + pseudo));
    const auto of_eager = two.pooled("factor", "eager", "", "");
    EXPECT_NEAR(of_eager->value, expected, 0.005);  // three digits
    EXPECT_NEAR(of_eager->sd, std::sqrt(spread + 1 / (own + pseudo)), 1e-9);
}

TEST(StackPopulation, KnowsNothingOfASourceThatIsLeftOut) {
    const StackPopulation two =
        population({member("eager", "one", 1, 0.1), member("eager", "other", 2.25, 0.1)});
    EXPECT_NEAR(two.pooled("factor", "eager", "", "the paper of one et al.")->value, 2.25, 1e-9);
    nlohmann::json alone = nlohmann::json::array();
    alone.push_back(member("eager", "one", 1, 0.1));
    EXPECT_FALSE(population(alone).pooled("factor", "eager", "", "one"));
}

TEST(StackPopulation, TakesEntriesOfTheDeviceWhereThereAreAny) {
    const StackPopulation both = population(
        {member("eager", "one", 1, 0.1), member("eager", "other", 2, 0.1, 20, {"gpu-x"})});
    EXPECT_NEAR(both.pooled("factor", "eager", "gpu-x", "")->value, 2, 1e-9);
    EXPECT_NEAR(both.pooled("factor", "eager", "gpu-y", "")->value, 1, 1e-9);
}

TEST(StackPopulation, CountsNoConstantThatHardlyAnyRunInforms) {
    const json few = {member("eager", "one", 1, 0.1),
                      member("eager", "other", 9, 0.1, static_cast<int>(kFewestRows) - 1)};
    EXPECT_NEAR(population(few).pooled("factor", "eager", "", "")->value, 1, 1e-9);
}

// Planted truth: stacks drawn from a population that is known, each observed with an error that is
// known. Each is foreseen by the others: the mean comes out, and the stated 90 % holds about 90 %.
TEST(StackPopulation, FindsThePopulationThatSourcesWereDrawnFrom) {
    constexpr double kMean = 1.2, kSpread = 0.15, kError = 0.05;
    constexpr int kStacks = 200;
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    json members = json::array();
    std::vector<double> truth;
    for (int i = 0; i < kStacks; ++i) {
        truth.push_back(std::log(kMean) + kSpread * normal(random));
        const double seen = std::exp(truth.back() + kError * normal(random));
        members.push_back(member("eager", "source" + std::to_string(1000 + i), seen, kError));
    }
    const StackPopulation drawn = population(members);
    const auto all = drawn.pooled("factor", "eager", "", "");
    const double error_of_mean = std::hypot(kSpread, kError) / std::sqrt(kStacks);
    EXPECT_NEAR(std::log(all->value), std::log(kMean), 3 * error_of_mean);
    EXPECT_NEAR(all->sd, kSpread, 3 * kSpread / std::sqrt(2.0 * kStacks));
    int held = 0;
    for (int i = 0; i < kStacks; ++i) {
        const auto others =
            drawn.pooled("factor", "eager", "", "source" + std::to_string(1000 + i));
        const double off = truth[static_cast<std::size_t>(i)] - std::log(others->value);
        if (std::fabs(off) < kCentral90 * others->sd) ++held;
    }
    // Three deviations of a count of 200 with 0.9 each: 4.2 apiece.
    EXPECT_NEAR(held, 0.9 * kStacks, 13);
}

// What simulate reads of a preset that nothing was fitted to is what validation knows: one home.
TEST(ShippedPresets, WithoutRunsOfTheirOwnHaveTheConstantsOfThePopulation) {
    const StackPopulation shipped(read(kLibrary + "/priors/stacks.json"));
    int pooled = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kLibrary + "/frameworks")) {
        const json preset = read(entry.path().string());
        const std::string generation = preset.at("generation");
        for (const auto& [name, flag] : preset.at("flags").items()) {
            SCOPED_TRACE(entry.path().stem().string() + " " + name);
            for (const json& on : flag.value("on", json::array()))
                for (const json& device : on.at("devices"))
                    if (on.value("pooled", false)) {
                        EXPECT_NEAR(on.at("value").get<double>(),
                                    shipped.pooled(name, generation, device, "")->value, 1e-9);
                    }
            if (!flag.value("pooled", false)) continue;
            const auto known = shipped.pooled(name, generation, "", "");
            ASSERT_TRUE(known);
            EXPECT_NEAR(flag.at("value").get<double>(), known->value, 1e-9 * known->value);
            ++pooled;
        }
    }
    EXPECT_GE(pooled, 20);
}

// Whose runs a preset was fitted to is said of each that was timed.
TEST(ShippedPresets, SayWhoseRunsTheyWereFittedTo) {
    for (const auto& entry : std::filesystem::directory_iterator(kLibrary + "/frameworks")) {
        const json preset = read(entry.path().string());
        for (const auto& [name, flag] : preset.at("flags").items())
            if (flag.at("source").get<std::string>().rfind("fitted", 0) == 0) {
                EXPECT_TRUE(preset.contains("fitted_to")) << entry.path() << name;
            }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
