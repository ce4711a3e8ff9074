// Every target on its seeds, on nothing, on seeds that were changed blindly (the fuzzers, which see
// what an input reaches, run at night), and on every input that once broke it:
// regressions/TARGET/SITUATION, each a file as the fuzzer left it, made small.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int kChanged = 1000;
const fs::path kRegressions = fs::path(ORRERY_SOURCE_DIR) / "tests/fuzz/regressions";

class Fuzz : public testing::TestWithParam<Target> {};

// An input that a stranger's or a damaged file might be: some of what libFuzzer does, without its
// eyes.
class Changes {
  public:
    explicit Changes(std::vector<std::string> seeds)
        : seeds_(std::move(seeds)), words_(dictionary()) {}

    std::string next() {
        std::string input = any_of(seeds_);
        for (std::size_t left = 1 + below(4); left > 0; --left)
            change(input);
        return input;
    }

  private:
    std::size_t below(std::size_t end) {
        return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
    }
    const std::string& any_of(const std::vector<std::string>& list) {
        return list[below(list.size())];
    }

    void change(std::string& input) {
        const std::size_t at = below(input.size() + 1);
        const std::size_t length = std::min(input.size() - at, below(64) + 1);
        switch (below(6)) {
            case 0:  // a bit
                if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
                return;
            case 1:  // a byte, with those at the ends of types more often
                if (at < input.size())
                    input[at] =
                        static_cast<char>(below(2) == 0 ? below(256) : 0x7f + below(3) * 0x40);
                return;
            case 2:
                input.erase(at, length);
                return;
            case 3:
                input.insert(at, input.substr(at, length));
                return;
            case 4:
                input.replace(at, std::min<std::size_t>(length, 8), any_of(words_));
                return;
            case 5: {  // the end of another one
                const std::string& other = any_of(seeds_);
                input.replace(at, std::string::npos, other, below(other.size() + 1));
                return;
            }
        }
    }

    std::vector<std::string> seeds_;
    std::vector<std::string> words_;
    std::mt19937_64 random_{1};  // a change is judged by what it does, not by the luck of the day
};

TEST_P(Fuzz, HoldsForItsSeeds) {
    const std::vector<std::string> seeds = GetParam().seeds();
    EXPECT_FALSE(seeds.empty());
    for (const std::string& seed : seeds) {
        EXPECT_LE(seed.size(), GetParam().longest_input);  // else the fuzzer never sees it
        GetParam().run(seed);
    }
    GetParam().run("");
}

TEST_P(Fuzz, HoldsForItsSeedsChangedBlindly) {
    Changes changes(GetParam().seeds());
    int run = 0;
    for (int left = kChanged; left > 0; --left) {
        const std::string input = changes.next();
        if (input.size() > GetParam().longest_input) continue;
        GetParam().run(input);
        ++run;
    }
    EXPECT_GT(run, kChanged / 2) << "too long for the target";
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
