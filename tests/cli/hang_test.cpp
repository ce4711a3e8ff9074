// orrery hang as a user has it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;

// Of four ranks, after so many all-reduces; the last of two has not ended.
std::string dump(int rank, int calls) {
    json entries = json::array();
    for (int seq = 1; seq <= calls; ++seq)
        entries.push_back({{"process_group", {"0", "default_pg"}},
                           {"collective_seq_id", seq},
                           {"p2p_seq_id", 0},
                           {"is_p2p", false},
                           {"profiling_name", "nccl:all_reduce"},
                           {"input_sizes", {{1024}}},
                           {"input_dtypes", {"Float"}},
                           {"output_sizes", {{1024}}},
                           {"output_dtypes", {"Float"}},
                           {"state", seq == 2 ? "started" : "completed"}});
    const json whole = {
        {"version", "2.5"},
        {"pg_config", {{"0", {{"name", "0"}, {"desc", "default_pg"}, {"ranks", "[0, 1, 2, 3]"}}}}},
        {"entries", entries}};
    return written(fmt::format("nccl_trace_rank_{}.json", rank), whole.dump());
}

TEST(Hang, SaysWhoIsWaitedForAsThePageShows) {
    const std::vector<std::string> files = {dump(0, 2), dump(1, 2), dump(2, 1), dump(3, 2)};
    const Outcome told = run({"hang", files[0], files[1], files[2], files[3]});
    ASSERT_EQ(told.code, 0) << told.err;
    const std::string page = content_of(std::string(ORRERY_SOURCE_DIR) + "/docs/hang.md");
    std::string shown;
    std::istringstream lines(told.out);
    for (std::string line; std::getline(lines, line);)
        shown += line.empty() ? "\n" : "    " + line + '\n';
    EXPECT_THAT(page, HasSubstr(shown)) << told.out;

    const Outcome printed = run({"hang", files[0], files[1], files[2], files[3], "--json"});
    const json all = json::parse(printed.out);
    EXPECT_EQ(all.at("suspects"), json({2}));
    EXPECT_EQ(all.at("findings")[0].at("fault"), "missing");
    EXPECT_EQ(all.at("findings")[0].at("missing"), json({2}));
    EXPECT_EQ(all.at("findings")[0].at("members"), json({0, 1, 2, 3}));
    EXPECT_EQ(all.at("ranks")[3].at("waits_in").at("seq"), 2);
    EXPECT_EQ(all.at("ranks")[2].at("waits_in"), nullptr);
    EXPECT_EQ(all.at("ranks")[2].at("last").at("op"), "all_reduce");
}

TEST(Hang, AnswersForWhatIsNotThere) {
    const std::string first = dump(0, 2), other = dump(1, 2);
    const Outcome two = run({"hang", first, other});
    EXPECT_THAT(two.out, HasSubstr("ranks 2, 3 are waited for"));
    EXPECT_THAT(two.out, HasSubstr("2 of 4 ranks"));
    const Outcome done = run({"hang", dump(0, 1), dump(1, 1), dump(2, 1), dump(3, 1)});
    EXPECT_THAT(done.out, HasSubstr("no rank waits for another in any collective"));
    const Outcome all = run({"hang", dump(0, 2), dump(1, 2), dump(2, 2), dump(3, 2)});
    EXPECT_THAT(all.out, HasSubstr("none of them alone is at fault"));
}

TEST(Hang, RefusesWhatItCannotRead) {
    const Outcome pickle = run({"hang", written("nccl_trace_rank_0", "\x80\x02}.")});
    EXPECT_EQ(pickle.code, 5);
    EXPECT_THAT(pickle.err, HasSubstr("a pickle, which Python alone reads"));
    EXPECT_EQ(run({"hang", "/nonexistent_0.json"}).code, 5);
    EXPECT_EQ(run({"hang"}).code, 2);
    const std::string first = dump(0, 2);
    const Outcome twice = run({"hang", first, first});
    EXPECT_EQ(twice.code, 2);
    EXPECT_THAT(twice.err, HasSubstr("are both of rank 0"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
