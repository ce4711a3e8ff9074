// orrery schedule: the picture, the file, and the file that is read again.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "plan/schedule/csv.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using Sets = std::vector<std::string>;

Outcome schedule(const Sets& sets, std::vector<std::string> options = {}) {
    std::vector<std::string> args = {"schedule", tiny()};
    for (const std::string& set :
         Sets{"layout.tensor_parallel=1", "layout.data_parallel=1", "layout.pipeline_parallel=2",
              "layout.virtual_pipeline=1", "layout.global_batch_size=3",
              "layout.micro_batch_size=1", "layout.sequence_parallel=false"})
        args.insert(args.end(), {"--set", set});
    for (const std::string& set : sets)
        args.insert(args.end(), {"--set", set});
    args.insert(args.end(), options.begin(), options.end());
    return run(args);
}

TEST(Schedule, IsDrawn) {
    const Outcome outcome = schedule({"layout.schedule=1f1b"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    // Forward 1, backward 2: the bubble is (p−1)·3 units on each rank, of 3·3 + 3.
    EXPECT_EQ(outcome.out,
              "1f1b: 2 ranks, 2 stages, 3 micro-batches, 12 units of time\n"
              "F, I and W take one unit each, B two, transfers none; a dot is an idle unit\n"
              "\n"
              "rank 0 0F0 0F1 .   .   0B0 --- 0F2 0B1 --- .   0B2 ---\n"
              "rank 1 .   1F0 1B0 --- 1F1 1B1 --- 1F2 1B2 --- .   .\n"
              "\n"
              "          idle   bubble  in flight  stages\n"
              "rank 0       3   25.0 %          2  0\n"
              "rank 1       3   25.0 %          1  1\n"
              "all          6   25.0 %\n");
}

// Passes over a vocabulary's pieces are no units, and only those over layers are in flight: two
// micro-batches more.
TEST(Schedule, LeavesPassesOverASharedVocabularyOut) {
    const Sets sets = {"layout.schedule=1f1b", "layout.global_batch_size=8",
                       "layout.vocabulary_parallel=vocab-1"};
    const Outcome outcome = schedule(sets);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, testing::HasSubstr("passes over the vocabulary, stages 2 to 5, take"));
    EXPECT_EQ(outcome.out.find("2F0"), std::string::npos) << outcome.out;
    const nlohmann::json said = nlohmann::json::parse(schedule(sets, {"--json"}).out);
    for (std::size_t rank = 0; rank < 2; ++rank)
        EXPECT_EQ(said.at("ranks").at(rank).at("in_flight"), 2 - rank + 2) << rank;
}

// Of 200 micro-batches on 2 ranks: 603 units of 5 columns with the blank before them, 18 to a line
// of 100 after the label, so 34 parts, of which the first two and the last are drawn.
TEST(Schedule, ALongOneIsDrawnInPartsThatFitTheScreen) {
    const Sets sets = {"layout.schedule=1f1b", "layout.global_batch_size=200"};
    const std::string some = schedule(sets).out, all = schedule(sets, {"--whole"}).out;
    const auto longest = [](const std::string& text) {
        std::size_t most = 0, at = 0;
        for (std::size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
            most = std::max(most, end - at);
        return most;
    };
    EXPECT_LE(longest(all), 100U);
    EXPECT_LE(longest(some), 100U);
    const std::size_t room =
        (100 - std::string("rank 0").size()) / (std::string("1F199").size() + 1);
    const std::size_t units = 200 * 3 + 3, parts = (units + room - 1) / room;
    const auto parts_of = [](const std::string& text) {
        std::size_t count = 0;
        for (std::size_t at = text.find("\nunits "); at != std::string::npos;
             at = text.find("\nunits ", at + 1))
            ++count;
        return count;
    };
    EXPECT_EQ(parts_of(all), parts);
    EXPECT_EQ(parts_of(some), 3U);
    EXPECT_NE(some.find("… " + std::to_string((parts - 3) * room) + " units more"),
              std::string::npos);
    EXPECT_NE(some.find("0B199"), std::string::npos);
    EXPECT_NE(all.find("1B100"), std::string::npos);
}

TEST(Schedule, IsWrittenAsCsvThatIsReadAgain) {
    const Outcome csv = schedule({"layout.schedule=1f1b"}, {"--csv"});
    EXPECT_EQ(csv.code, 0) << csv.err;
    EXPECT_EQ(csv.out, "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
    const std::string path = written("mine.csv", csv.out);
    const Outcome again = schedule({"layout.schedule=" + path}, {"--csv"});
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(again.err, "");
    EXPECT_EQ(again.out, csv.out);
}

TEST(Schedule, IsWrittenWithTransfersThatAreReadAgain) {
    const Outcome csv = schedule({"layout.schedule=gpipe"}, {"--csv", "--comms"});
    EXPECT_EQ(csv.code, 0) << csv.err;
    EXPECT_EQ(csv.out.substr(0, csv.out.find(",0F2")), "0F0,0SEND_F0,0F1,0SEND_F1");
    const std::string path = written("comms.csv", csv.out);
    const Outcome again = schedule({"layout.schedule=" + path}, {"--csv"});
    EXPECT_EQ(again.out, schedule({"layout.schedule=gpipe"}, {"--csv"}).out);
    EXPECT_EQ(again.err, "orrery schedule: " + path +
                             ": 12 sends and receives were checked and left out: lowering makes "
                             "its own\n");
    EXPECT_EQ(schedule({"layout.schedule=" + path}, {"--csv", "--comms"}).out, csv.out);
}

TEST(Schedule, AsJson) {
    const Outcome outcome = schedule({"layout.schedule=gpipe"}, {"--json"});
    const auto json = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(json["total_units"], 12);
    EXPECT_EQ(json["bubble_fraction"], 0.25);
    EXPECT_EQ(json["ranks"][0]["in_flight"], 3);
    EXPECT_EQ(json["ranks"][1]["actions"][0]["action"], "1F0");
    EXPECT_EQ(json["ranks"][1]["actions"][0]["begin"], 1);
    EXPECT_EQ(json["ranks"][1]["stages"], nlohmann::json({1}));
}

// A schedule that no name stands for runs like any other, and its scenario needs no other file.
TEST(Schedule, OfAFileIsSimulated) {
    // Both chunks of a rank next to each other, first and last stage on different ranks.
    const std::string path = written("own.csv",
                                     "0F0,1F0,0F1,1F1,1B0,0B0,1B1,0B1\n"
                                     "2F0,3F0,3B0,2B0,2F1,3F1,3B1,2B1\n");
    std::vector<std::string> args = {"simulate", tiny(), "--json"};
    for (const std::string& set :
         Sets{"layout.tensor_parallel=1", "layout.data_parallel=1", "layout.pipeline_parallel=2",
              "layout.virtual_pipeline=2", "model.n_layer=4", "layout.global_batch_size=2",
              "layout.micro_batch_size=1", "layout.sequence_parallel=false",
              "cluster.profile=" + folder() + "tiny-profile.json", "layout.schedule=" + path})
        args.insert(args.end(), {"--set", set});
    const Outcome outcome = run(args);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto resolved = nlohmann::json::parse(outcome.out)["scenario"];
    EXPECT_EQ(resolved["layout"]["schedule"]["rows"][1], "2F0,3F0,3B0,2B0,2F1,3F1,3B1,2B1");
    const Outcome again =
        run({"schedule", written("resolved_schedule.json", resolved.dump()), "--csv"});
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(again.out, content_of(path));
}

TEST(Schedule, ThatIsWrongIs3AndOneThatIsNowhere5) {
    const std::string path = written("wrong.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n");
    const Outcome wrong = schedule({"layout.schedule=" + path});
    EXPECT_EQ(wrong.code, 3);
    EXPECT_EQ(wrong.out, "");
    EXPECT_NE(wrong.err.find("wrong.csv:2:9"), std::string::npos) << wrong.err;
    EXPECT_NE(wrong.err.find("rank 1 ends without 1B1"), std::string::npos) << wrong.err;
    EXPECT_EQ(schedule({"layout.schedule=nowhere.csv"}).code, 5);
    EXPECT_EQ(schedule({}, {"--comms"}).code, 2);
    EXPECT_EQ(schedule({}, {"--csv", "--json"}).code, 2);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
