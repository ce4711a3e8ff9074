// From a text in the editor to what the views show of it: read, planned, simulated, laid out in
// rows. Shape of the input: runs of scenarios/runs.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <benchmark/benchmark.h>

#include "gui/scenario/answer.hpp"

namespace orrery::gui {
namespace {

void answer_an_edit(benchmark::State& state, const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    const std::atomic<bool> stop{false};
    for (auto _ : state)
        if (!answer_of({text.str(), path}, stop)->predicted()) state.SkipWithError("no prediction");
}

// Until something is seen of it: what `orrery search` estimates of its layout.
void estimate_an_edit(benchmark::State& state, const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    for (auto _ : state) {
        std::atomic<bool> stop{false};
        try {
            answer_of({text.str(), path}, stop, [&](const Estimate&) { stop = true; });
            state.SkipWithError("no estimate");
        } catch (const sim::Stopped&) {
        }
    }
}

const bool kOfEachRun = [] {
    std::vector<std::filesystem::path> runs;
    for (const auto& entry :
         std::filesystem::directory_iterator(ORRERY_SOURCE_DIR "/scenarios/runs"))
        runs.push_back(entry.path());
    std::sort(runs.begin(), runs.end());
    const auto add = [&](const char* name, auto* function) {
        for (const std::filesystem::path& run : runs)
            benchmark::RegisterBenchmark((name + run.stem().string()).c_str(), function,
                                         run.string())
                ->Unit(benchmark::kMillisecond);
    };
    add("answer_an_edit/", answer_an_edit);
    add("estimate_an_edit/", estimate_an_edit);
    return true;
}();

}  // namespace
}  // namespace orrery::gui
