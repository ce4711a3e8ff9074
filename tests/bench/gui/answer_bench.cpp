// From a text in the editor to what the views show of it: read, planned, simulated, laid out in
// rows. Shape of the input: runs of scenarios/runs.
#include <fstream>
#include <sstream>

#include <benchmark/benchmark.h>

#include "gui/scenario/answer.hpp"

namespace orrery::gui {
namespace {

void answer_an_edit(benchmark::State& state, const char* run) {
    const std::string path = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/" + run + ".json";
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    const std::atomic<bool> stop{false};
    for (auto _ : state)
        if (!answer_of({text.str(), path}, stop)->predicted()) state.SkipWithError("no prediction");
}
BENCHMARK_CAPTURE(answer_an_edit, tiny_gpt, "tiny-gpt")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(answer_an_edit, gpt3_175b_1024, "gpt3-175b-a100x1024")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(answer_an_edit, llama3_70b_256, "llama3-70b-h100x256")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(answer_an_edit, llama31_405b_16384, "llama3.1-405b-h100x16384")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(answer_an_edit, megatron_1t_3072, "megatron-1t-a100x3072")
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery::gui
