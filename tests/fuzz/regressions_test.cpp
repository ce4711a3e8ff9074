// Every target on its seeds, on nothing, and on every input that once broke it:
// regressions/TARGET/SITUATION, each a file as the fuzzer left it, made small.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

namespace fs = std::filesystem;

const fs::path kRegressions = fs::path(ORRERY_SOURCE_DIR) / "tests/fuzz/regressions";

class Fuzz : public testing::TestWithParam<Target> {};

TEST_P(Fuzz, HoldsForItsSeeds) {
    const std::vector<std::string> seeds = GetParam().seeds();
    EXPECT_FALSE(seeds.empty());
    for (const std::string& seed : seeds) {
        EXPECT_LE(seed.size(), GetParam().longest_input);  // else the fuzzer never sees it
        GetParam().run(seed);
    }
    GetParam().run("");
}

TEST_P(Fuzz, HoldsForWhatOnceBrokeIt) {
    if (!fs::exists(kRegressions / GetParam().name)) return;  // nothing has broken it yet
    for (const auto& entry : fs::directory_iterator(kRegressions / GetParam().name)) {
        SCOPED_TRACE(entry.path().filename().string());
        std::ifstream file(entry.path(), std::ios::binary);
        GetParam().run(std::string(std::istreambuf_iterator<char>(file), {}));
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(targets()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(FuzzRegressions, LieInFoldersOfTargets) {
    for (const auto& entry : fs::directory_iterator(kRegressions))
        EXPECT_NE(find_target(entry.path().filename().string()), nullptr) << entry.path();
}

}  // namespace
}  // namespace orrery::fuzz
