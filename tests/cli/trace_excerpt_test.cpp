// Excerpts of traces for viewers: what is chosen is there as it was, what was left out is counted.
#include <filesystem>
#include <map>
#include <set>

#include "tests/cli/world.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

const std::string kTiny = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json";

// All eight ranks: tensor 2, data 2, pipeline 2.
const std::string& whole_file() {
    static const std::string path = [] {
        const std::string file = testing::TempDir() + "whole.orrery";
        EXPECT_EQ(run({"simulate", kTiny, "--unfolded", "--trace", file}).code, 0);
        return file;
    }();
    return path;
}

trace::Trace converted(const std::vector<std::string>& options, std::string* said = nullptr) {
    const std::string out = testing::TempDir() + "part.pftrace";
    std::vector<std::string> args = {"convert", whole_file(), out};
    args.insert(args.end(), options.begin(), options.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    if (said != nullptr) *said = outcome.err;
    return trace::read_trace(out);
}

TEST(TraceExcerpt, HasTheRanksThatAreChosenAsTheyWere) {
    const trace::Trace whole = trace::read_trace(whole_file());
    ASSERT_EQ(whole.tracks.size(), 8U);
    std::string said;
    const trace::Trace part = converted({"--ranks", "1,4-5"}, &said);
    ASSERT_EQ(part.tracks.size(), 3U);
    const std::size_t kept[] = {1, 4, 5};
    for (std::size_t t = 0; t < 3; ++t) {
        EXPECT_EQ(part.tracks[t].rank, whole.tracks[kept[t]].rank);
        ASSERT_EQ(part.tracks[t].events.size(), whole.tracks[kept[t]].events.size());
        for (std::size_t i = 0; i < part.tracks[t].events.size(); ++i)
            EXPECT_EQ(part.tracks[t].events[i].end, whole.tracks[kept[t]].events[i].end);
    }
    EXPECT_NE(said.find("left out 5 of 8 ranks, "), std::string::npos) << said;
}

TEST(TraceExcerpt, OfAFoldedTrackTheRanksThatItStandsForAreChosen) {
    const std::string folded = testing::TempDir() + "folded.orrery";
    ASSERT_EQ(run({"simulate", kTiny, "--trace", folded}).code, 0);
    const std::string out = testing::TempDir() + "folded_part.json";
    ASSERT_EQ(run({"convert", folded, out, "--ranks", "2-3"}).code, 0);
    std::int64_t ranks = 0;
    for (const trace::Track& track : trace::read_trace(out).tracks) {
        ranks += track.represents();
        EXPECT_GE(track.rank, 2);
        EXPECT_LE(track.rank, 3);
    }
    EXPECT_EQ(ranks, 2);
}

TEST(TraceExcerpt, HasTheKindsAndStepsThatAreChosen) {
    const trace::Trace whole = trace::read_trace(whole_file());
    const trace::Trace kinds = converted({"--kinds", "gemm,attention"});
    std::set<plan::OpKind> found;
    for (const trace::Track& track : kinds.tracks)
        for (std::size_t i = 0; i < track.events.size(); ++i)
            found.insert(kinds.op_of(track, i).kind);
    EXPECT_EQ(found, (std::set<plan::OpKind>{plan::OpKind::gemm, plan::OpKind::attention}));
    std::map<plan::OpKind, std::size_t> count;
    for (std::size_t i = 0; i < whole.tracks[0].events.size(); ++i)
        ++count[whole.op_of(whole.tracks[0], i).kind];
    EXPECT_EQ(kinds.tracks[0].events.size(),
              count[plan::OpKind::gemm] + count[plan::OpKind::attention]);

    const trace::Trace steps = converted({"--steps", "2-3"});
    for (const trace::Track& track : steps.tracks)
        for (const std::uint32_t step :
             steps.programs[static_cast<std::size_t>(track.program)].step)
            EXPECT_TRUE(step == 2 || step == 3);
}

TEST(TraceExcerpt, IsNoLargerThanAsked) {
    const std::string all = testing::TempDir() + "all.pftrace";
    ASSERT_EQ(run({"convert", whole_file(), all}).code, 0);
    const std::string out = testing::TempDir() + "small.pftrace";
    const auto whole = std::filesystem::file_size(all);
    const std::string most = std::to_string(whole / 2);
    const Outcome outcome = run({"convert", whole_file(), out, "--max-size", most});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_LE(std::filesystem::file_size(out), whole / 2);
    const trace::Trace part = trace::read_trace(out);
    EXPECT_GE(part.tracks.size(), 2U);
    std::set<std::int32_t> programs;  // of each pipeline rank one, before there are two of one
    for (const trace::Track& track : part.tracks)
        programs.insert(track.program);
    EXPECT_EQ(programs.size(), 2U);
    const Outcome none = run({"convert", whole_file(), out, "--max-size", "1K"});
    EXPECT_EQ(none.code, 2);
    const std::string said = "--max-size 1K: one track alone takes ";
    const std::size_t at = none.err.find(said);
    ASSERT_NE(at, std::string::npos) << none.err;
    // What it takes can be asked for as it is said.
    const std::string enough =
        none.err.substr(at + said.size(), none.err.find(';', at) - at - said.size());
    EXPECT_EQ(run({"convert", whole_file(), out, "--force", "--max-size", enough}).code, 0)
        << enough;
}

TEST(TraceExcerpt, WhatCannotBeChosenIsRefused) {
    const std::string out = testing::TempDir() + "refused.pftrace";
    for (const auto& [option, value, said] :
         {std::tuple{"--ranks", "8-3", "numbers and ranges"},
          std::tuple{"--ranks", "900", "nothing of the trace is chosen"},
          std::tuple{"--kinds", "gem", "did you mean gemm?"},
          std::tuple{"--max-size", "many", "a size is expected"}}) {
        const Outcome outcome = run({"convert", whole_file(), out, option, value});
        EXPECT_EQ(outcome.code, 2) << option << ' ' << value;
        EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
    }
    const Outcome native =
        run({"convert", whole_file(), testing::TempDir() + "part.orrery", "--ranks", "0"});
    EXPECT_EQ(native.code, 2);
    EXPECT_EQ(run({"simulate", kTiny, "--ranks", "0"}).code, 2);  // of which trace?
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
