// What a person sees, to the byte: help, the report, the timeline.
#include <algorithm>

#include "cli/text_table.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

void expect_at_most_100_columns(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        EXPECT_LE(width_of(line), 100u) << line;
}

TEST(Golden, Help) {
    std::string all;
    for (const std::vector<std::string>& args :
         std::vector<std::vector<std::string>>{{"--help"},
                                               {"simulate", "--help"},
                                               {"explain", "--help"},
                                               {"diff", "--help"},
                                               {"plan", "-h"},
                                               {"schedule", "--help"},
                                               {"fit", "--help"},
                                               {"convert", "--help"}}) {
        const Outcome outcome = run(args);
        EXPECT_EQ(outcome.code, 0);
        EXPECT_EQ(outcome.err, "");
        EXPECT_LT(outcome.out.find("Examples:"), outcome.out.find("Usage:"));
        all += outcome.out + '\n';
    }
    expect_at_most_100_columns(all);
    expect_golden("help.txt", all);
}

TEST(Golden, Report) {
    const Outcome outcome = run({"simulate", tiny()});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
    expect_at_most_100_columns(replaced(outcome.out, folder(), ""));
    expect_golden("report.txt", outcome.out);
}

TEST(Report, NamesWhatIsSharedOutAndKept) {
    const auto layout_of = [](std::vector<std::string> sets) {
        std::vector<std::string> args = {"simulate", tiny()};
        sets.insert(sets.end(),
                    {"layout.tensor_parallel=1", "layout.data_parallel=4", "layout.zero_stage=3"});
        for (const std::string& set : sets)
            args.insert(args.end(), {"--set", set});
        const std::string text = run(args).out;
        const std::size_t at = text.find("ZeRO");
        return at == std::string::npos ? text : text.substr(at, text.find(",", at) - at);
    };
    EXPECT_EQ(layout_of({}), "ZeRO-3");
    EXPECT_EQ(layout_of({"layout.zero_group_size=4"}), "ZeRO-3");
    EXPECT_EQ(layout_of({"layout.zero_group_size=2"}), "ZeRO-3 within 2 of 4 data ranks");
    EXPECT_EQ(layout_of({"layout.reshard_after_forward=false"}),
              "ZeRO-3 without resharding after forward");
}

TEST(Golden, Timeline) {
    const Outcome outcome = run({"simulate", tiny(), "--timeline"});
    EXPECT_EQ(outcome.code, 0);
    expect_at_most_100_columns(outcome.out);
    expect_golden("timeline.txt", outcome.out);
}

// Colours add escape sequences and nothing else.
TEST(Colours, ChangeNoText) {
    for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
             {"simulate", tiny()}, {"simulate", tiny(), "--timeline"}}) {
        std::ostringstream out;
        std::ostringstream err;
        EXPECT_EQ(run_cli(args, {out, err, true}), 0);
        std::string text = out.str();
        ASSERT_NE(text.find('\x1b'), std::string::npos);
        for (std::size_t at = 0; (at = text.find('\x1b', at)) != std::string::npos;)
            text.erase(at, text.find('m', at) - at + 1);
        EXPECT_EQ(text, run(args).out);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
