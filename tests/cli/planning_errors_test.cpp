// What search, sweep, size and report say to bad input, to the byte; and that nothing is written.
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using Words = std::vector<std::string>;

struct Asked {
    Words words;  // after the file
    int code = 0;
};

class PlanningErrors : public testing::Test {
  protected:
    PlanningErrors() { std::filesystem::create_directories(folder_); }
    ~PlanningErrors() override { std::filesystem::remove_all(folder_); }

    void ask(const std::string& command, const Asked& asked) {
        Words words = {command, file_};
        words.insert(words.end(), asked.words.begin(), asked.words.end());
        const Outcome outcome = run(words);
        EXPECT_EQ(outcome.code, asked.code) << outcome.err;
        said_ += "$ orrery " + command + " run.json";
        for (const std::string& word : asked.words)
            said_ += ' ' + word;
        said_ += "\nexit code " + std::to_string(outcome.code) + '\n' + outcome.err + '\n';
        EXPECT_TRUE(std::filesystem::is_empty(folder_)) << command;
    }
    std::string output(const char* name) const { return folder_ + name; }

    // Few layouts, in a moment.
    const std::string file_ =
        std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/llama2-7b-a100x8.json";
    const std::string folder_ = testing::TempDir() + "planned/";
    std::string said_;
};

TEST_F(PlanningErrors, AreClearAndWriteNothing) {
    const Words unknown_gpu = {"--set", "cluster.device=h900"};
    const std::vector<Asked> searches = {
        {{"--vary", "layout.tensor_parallel=3,5", "--write", output("best.json")}, 4},  // empty
        {{"--vary", "layout.zero_stage="}, 2},
        {{"--vary", "layout.zero_stage=3..1"}, 2},
        {{"--vary", "layout.zero_stage=1", "--vary", "layout.zero_stage=2"}, 2},
        {{"--vary", "layout.zero_stage=7,8"}, 3},
        {{"--vary", "layout.colour=1,2"}, 3},
        {{"--memory-margin", "120"}, 2},
        {{"--objective", "speed"}, 2},
        {unknown_gpu, 3}};
    for (const Asked& asked : searches)
        ask("search", asked);
    const std::vector<Asked> sweeps = {
        {{}, 2},
        {{"--vary", "layout.zero_stage=1,1"}, 2},
        {{"--vary", "cluster.device=h900,b900", "--csv", output("points.csv")}, 3},
        {{"--vary", "layout.zero_stage=1", "--metric", "joy"}, 2}};
    for (const Asked& asked : sweeps)
        ask("sweep", asked);
    const Words small = {"--set", "layout.tensor_parallel=auto", "--gpus", "8"};
    const auto sized = [&](Words words, int code) {
        words.insert(words.begin(), small.begin(), small.end());
        words.insert(words.end(), {"--tokens", "1e12"});
        ask("size", {words, code});
    };
    sized({"--deadline", "1h"}, 4);
    sized({"--budget", "0"}, 4);
    sized({"--budget", "-5"}, 2);
    sized({"--deadline", "soon"}, 2);
    ask("size", {{"--tokens", "-1"}, 2});
    ask("size", {{"--tokens", "1e12", "--gpus", "9"}, 2});
    ask("report", {{}, 2});
    ask("report", {{"-o", "page.txt"}, 2});
    Words report = unknown_gpu;
    report.insert(report.end(), {"-o", output("page.html")});
    ask("report", {report, 3});
    expect_golden("planning_errors.txt", replaced(replaced(said_, file_, "run.json"), folder_, ""));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
