// Layouts that nobody thought of: keys are drawn at random, those that a rule refuses beside others
// are left out, and what remains trains the model of one rank, in the memory that the plan says:
// with memory that changes hands full of NaN, and ops late by chance.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/random_draw.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

struct Family {
    const char* name;
    const char* text;
    Sets model;
    bool experts = false;
};
void PrintTo(const Family& family, std::ostream* os) {
    *os << family.name;
}

std::vector<Family> families() {
    Sets further = deepseek_model();
    further.emplace_back("model.num_nextn_predict_layers=1");
    return {{"gpt", kGpt, {}},
            {"llama", kLlama, {}},
            {"mixtral", kMixtral, {}, true},
            {"gpt_oss", kMixtral, gpt_oss_model(), true},
            {"biased_router", kMixtral, biased_router_model(), true},
            {"deepseek_v3", kMixtral, further, true}};
}

class RandomLayouts : public testing::TestWithParam<Family> {};

TEST_P(RandomLayouts, TrainTheModelOfOneRank) {
    const Family& family = GetParam();
    const std::size_t draws = sanitized()                                  ? 4
                              : std::getenv("ORRERY_EVERY_RUN") != nullptr ? 400
                                                                           : 24;
    RunOptions two;
    two.steps = 2;
    const Sets always = {
        "training.precision=fp64",
        R"(cluster.host_memory={"capacity_GB": 1, "bandwidth_GBps": 10, "latency_us": 1})",
        R"(cluster.storage={"capacity_GB": 1, "read_GBps": 1, "write_GBps": 1, "latency_us": 10})"};
    std::map<bool, Trained> alone;  // by whether it is adapters that are trained
    std::size_t trained = 0;
    for (std::size_t seed = 1; seed <= draws; ++seed) {
        Draw draw(seed);
        Sets fixed = always;
        for (const std::string& degree : draw.degrees(family.experts))
            fixed.push_back(degree);
        const std::optional<Sets> sets = accepted(family.text, family.model, fixed, draw.others());
        if (!sets) continue;
        SCOPED_TRACE(fmt::format("{}", fmt::join(*sets, " ")));
        const plan::Scenario asked = scenario(family.text, *sets);
        const bool adapters = asked.training.lora.on();
        if (alone.count(adapters) == 0) {
            Sets one = family.model;
            one.insert(one.end(), always.begin(), always.end());
            for (const std::string& set : *sets)
                if (set.starts_with("training.lora")) one.push_back(set);
            alone[adapters] = train(scenario(family.text, one), two);
        }
        const Trained& expected = alone[adapters];
        RunOptions delayed = two;
        delayed.cpu.poison = true;
        delayed.cpu.delay_seed = seed;
        const Trained run = train(asked, delayed);
        ++trained;
        ASSERT_EQ(run.losses.size(), expected.losses.size());
        for (std::size_t step = 0; step < run.losses.size(); ++step)
            EXPECT_NEAR(run.losses[step], expected.losses[step], 1e-12 * expected.losses[step]);
        const Difference worst = difference(run.gradients, expected.gradients);
        EXPECT_LE(worst.relative, kFp64.gradient) << worst.name;
        EXPECT_EQ(run.gradients.size(), expected.gradients.size());
        EXPECT_EQ(run.disagreement, "");
        for (const runtime::RankMemory& memory : run.result.memory)
            EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
    }
    EXPECT_GE(2 * trained, draws) << "most draws are refused";
}

INSTANTIATE_TEST_SUITE_P(Families, RandomLayouts, testing::ValuesIn(families()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
