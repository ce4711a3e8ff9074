// --chakra of plan and simulate as a user has them.
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

// Two stages, two copies: ranks 0 to 3.
const std::vector<std::string> kLayout = {"--set", "layout.tensor_parallel=1"};

Outcome with_layout(std::vector<std::string> words) {
    words.insert(words.end(), kLayout.begin(), kLayout.end());
    return run(words);
}

std::string folder_of(const std::string& name) {
    std::string path = testing::TempDir() + "chakra_cli_" + name;
    fs::remove_all(path);
    return path;
}

std::set<std::string> files_in(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
        names.insert(entry.path().filename());
    return names;
}

TEST(Chakra, IsWrittenAlikeByBothCommands) {
    const std::string simulated = folder_of("simulated"), planned = folder_of("planned");
    const std::string trace = testing::TempDir() + "chakra_cli.orrery";
    const Outcome first = with_layout(
        {"simulate", tiny(), "--chakra", simulated, "--trace", trace, "--force", "--json"});
    ASSERT_EQ(first.code, 0) << first.err;
    const Outcome second = with_layout({"plan", tiny(), "--chakra", planned, "--durations", trace});
    ASSERT_EQ(second.code, 0) << second.err;
    EXPECT_EQ(second.out, "");
    EXPECT_EQ(files_in(simulated), (std::set<std::string>{"comm_groups.json", "rank.0.et",
                                                          "rank.1.et", "rank.2.et", "rank.3.et"}));
    for (const std::string& name : files_in(simulated))
        EXPECT_EQ(content_of(simulated + "/" + name), content_of(planned + "/" + name)) << name;
    // Read back it takes what was predicted, and is the plan's.
    std::vector<std::string> words = {"import-trace", "--scenario", tiny(), "--json"};
    for (int rank = 0; rank < 4; ++rank)
        words.push_back(simulated + "/rank." + std::to_string(rank) + ".et");
    const Outcome read = with_layout(words);
    ASSERT_EQ(read.code, 0) << read.err;
    const json printed = json::parse(read.out);
    EXPECT_EQ(printed.at("unmatched"), 0);
    EXPECT_EQ(printed.at("world_size"), 4);
    for (const json& rank : printed.at("ranks")) {
        EXPECT_EQ(rank.at("matched_by_kind"), 0);
        for (const json& kind : rank.at("beside")) {
            EXPECT_EQ(kind.at("recorded"), kind.at("planned"));
            EXPECT_NEAR(kind.at("measured_s").get<double>(), kind.at("predicted_s").get<double>(),
                        1e-11)
                << kind;
        }
    }
}

TEST(Chakra, IsOfTheRanksThatAreAskedFor) {
    const std::string folder = folder_of("ranks");
    EXPECT_EQ(with_layout({"plan", tiny(), "--chakra", folder}).code, 0);
    EXPECT_EQ(files_in(folder).size(), 5U);
    EXPECT_EQ(with_layout({"plan", tiny(), "--chakra", folder, "--chakra-ranks", "3,0-1,1"}).code,
              0);
    EXPECT_EQ(files_in(folder),
              (std::set<std::string>{"comm_groups.json", "rank.0.et", "rank.1.et", "rank.3.et"}));
    EXPECT_EQ(with_layout({"plan", tiny(), "--chakra", folder, "--chakra-ranks", "folded"}).code,
              0);
    EXPECT_EQ(files_in(folder),
              (std::set<std::string>{"comm_groups.json", "rank.0.et", "rank.2.et"}))
        << "one of each pipeline rank";
    const Outcome unpriced = run({"import-trace", folder + "/rank.0.et"});
    EXPECT_EQ(unpriced.code, 5);
    EXPECT_THAT(unpriced.err, HasSubstr("neither priced nor measured"));
}

TEST(Chakra, RefusesWhatMakesNoSense) {
    const std::string folder = folder_of("refused");
    for (const char* list : {"4", "1-0", "0-", "x", "", "0,,1", "-1"}) {
        const Outcome outcome = with_layout(
            {"plan", tiny(), "--chakra", folder, std::string("--chakra-ranks=") + list});
        if (*list == '\0') continue;  // the parser's own words
        EXPECT_EQ(outcome.code, 2) << list;
        EXPECT_THAT(outcome.err, HasSubstr("this layout has ranks 0 to 3")) << list;
    }
    EXPECT_EQ(with_layout({"plan", tiny(), "--chakra-ranks", "0"}).code, 2);
    EXPECT_EQ(with_layout({"simulate", tiny(), "--chakra-ranks", "0"}).code, 2);
    EXPECT_EQ(with_layout({"plan", tiny(), "--chakra", folder, "--json"}).code, 2);
    EXPECT_EQ(with_layout({"plan", tiny(), "--durations", tiny()}).code, 2);
    EXPECT_FALSE(fs::exists(folder)) << "nothing was written";

    const std::string trace = testing::TempDir() + "chakra_other.orrery";
    ASSERT_EQ(run({"simulate", tiny(), "--trace", trace, "--force"}).code, 0);
    const Outcome other = with_layout({"plan", tiny(), "--chakra", folder, "--durations", trace});
    EXPECT_EQ(other.code, 2);
    EXPECT_THAT(other.err, HasSubstr("chakra_other.orrery: a trace of another plan: its ops are"));

    fs::create_directories(folder);
    std::ofstream(folder + "/notes.txt") << "mine";
    const Outcome foreign = with_layout({"plan", tiny(), "--chakra", folder});
    EXPECT_EQ(foreign.code, 2);
    EXPECT_THAT(foreign.err, HasSubstr("holds notes.txt, which is no Chakra trace of orrery"));
    EXPECT_EQ(with_layout({"plan", tiny(), "--chakra", folder, "--force"}).code, 0);
    EXPECT_EQ(content_of(folder + "/notes.txt"), "mine");
}

// Too much to write unasked.
TEST(Chakra, OfManyRanksAsksWhich) {
    const std::string big =
        std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/llama3.1-405b-h100x16384.json";
    const std::string folder = folder_of("big");
    const Outcome outcome = run({"plan", big, "--chakra", folder});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("--chakra: 16,384 files of together about"));
    EXPECT_FALSE(fs::exists(folder));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
