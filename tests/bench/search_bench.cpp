// How many layouts a second a search prices, over the whole usual space of a shipped run: every
// combination is looked at, those that break no rule are priced. Once with everything to be made
// first, and once over what is made already.
#include <benchmark/benchmark.h>

#include "cli/layout_search.hpp"

namespace orrery::sim {
namespace {

struct World {
    explicit World(const std::string& run) {
        input.file = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/" + run + ".json";
        search = cli::layout_search(input, none);
    }
    const SearchBase& base() const { return search.bases.front(); }

    cli::ScenarioInput input;
    std::vector<cli::Vary> none;
    cli::LayoutSearch search;
};

// Prices every n-th combination; how many were looked at and how many priced.
std::pair<double, double> price(const World& world, const LayoutPricer& pricer,
                                std::uint64_t every) {
    plan::RuleCheck rules(world.base().read.given);
    double looked_at = 0, priced = 0;
    for (std::uint64_t number = 0; number < world.base().space.size(); number += every) {
        ++looked_at;
        std::string broken;
        const auto scenario = scenario_of(world.base(), number, rules, broken);
        if (!scenario) continue;
        benchmark::DoNotOptimize(pricer.price(*scenario));
        ++priced;
    }
    return {looked_at, priced};
}

void priced_afresh(benchmark::State& state, const char* run) {
    const World world(run);
    double priced = 0, looked_at = 0;
    for (auto _ : state) {
        SharedStageCosts costs(world.base().read.scenario->cluster.nodes);
        const LayoutPricer pricer(*world.base().read.scenario, *world.base().profile, costs);
        const auto [all, some] = price(world, pricer, 7);
        looked_at += all;
        priced += some;
    }
    state.counters["looked at"] = benchmark::Counter(looked_at, benchmark::Counter::kIsRate);
    state.counters["priced"] = benchmark::Counter(priced, benchmark::Counter::kIsRate);
}

void priced_again(benchmark::State& state, const char* run) {
    const World world(run);
    SharedStageCosts costs(world.base().read.scenario->cluster.nodes);
    const LayoutPricer pricer(*world.base().read.scenario, *world.base().profile, costs);
    price(world, pricer, 7);
    double priced = 0;
    for (auto _ : state)
        priced += price(world, pricer, 7).second;
    state.counters["priced"] = benchmark::Counter(priced, benchmark::Counter::kIsRate);
}

// Every combination of the whole space, with everything to be made first, and none simulated: what
// one core prices where there is one.
void priced_whole(benchmark::State& state, const char* run, std::int64_t nodes) {
    World world(run);
    if (nodes > 0) {
        world.input.sets = {"cluster.nodes=" + std::to_string(nodes)};
        world.search = cli::layout_search(world.input, world.none);
    }
    SearchOptions options;
    options.top = 0;
    double priced = 0, looked_at = 0;
    for (auto _ : state) {
        const SearchResult result = search(world.search.bases, options);
        priced += static_cast<double>(result.priced);
        looked_at += static_cast<double>(result.evaluated);
    }
    state.counters["looked at"] = benchmark::Counter(looked_at, benchmark::Counter::kIsRate);
    state.counters["priced"] = benchmark::Counter(priced, benchmark::Counter::kIsRate);
}

// The command's own way, with the best simulated, on all cores.
void searched(benchmark::State& state, const char* run) {
    const World world(run);
    double looked_at = 0;
    for (auto _ : state)
        looked_at += static_cast<double>(search(world.search.bases, {}).evaluated);
    state.counters["looked at"] = benchmark::Counter(looked_at, benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(priced_afresh, gpt3_175b, "gpt3-175b-a100x1024")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(priced_afresh, llama3_405b, "llama3.1-405b-h100x16384")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(priced_again, gpt3_175b, "gpt3-175b-a100x1024")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(priced_again, llama3_405b, "llama3.1-405b-h100x16384")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(priced_whole, llama3_405b, "llama3.1-405b-h100x16384", 0)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(priced_whole, gpt3_175b_on_4096, "gpt3-175b-a100x1024", 512)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(searched, llama3_405b, "llama3.1-405b-h100x16384")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace orrery::sim
