// Four jobs of 1,024 ranks on one fabric, placed by each policy: from their plans to what sharing
// costs each, all steps simulated. Compact jobs share no link; random ones share all, and their
// ranks fold least.
#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <vector>

#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/jobs/read_jobs.hpp"
#include "sim/jobs/placement.hpp"
#include "sim/jobs/run_jobs.hpp"

namespace orrery::sim {
namespace {

constexpr std::array kPolicies = {PlacementPolicy::compact, PlacementPolicy::scattered,
                                  PlacementPolicy::random};

void jobs_of_1024(benchmark::State& state) {
    const std::string scenarios = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
    const plan::JobsReadResult read =
        plan::read_jobs(scenarios + "/jobs/four-1024-on-fat-tree.json", scenarios);
    const plan::Cluster& cluster = read.shared->cluster;
    const PlacementPolicy policy = kPolicies[static_cast<std::size_t>(state.range(0))];
    FreeNodes free(cluster);
    std::vector<Job> jobs;
    std::vector<NodeList> nodes;
    for (const plan::SharedJob& job : read.shared->jobs) {
        jobs.push_back({job.name, job.scenario, plan::build_plan(job.scenario),
                        load_profiles(job.scenario.cluster), job.start_s});
        nodes.push_back(*free.place(policy, job.nodes, 0, jobs.size()));
    }
    std::uint64_t events = 0;
    for (auto _ : state) {
        const JobsOutcome outcome = run_jobs(cluster, jobs, nodes, {});
        if (!outcome.stuck.empty() || outcome.jobs.back().slowdown() < 1)
            state.SkipWithError("no step beside the others");
        events = outcome.op_events;
    }
    state.SetLabel(std::string(plan::spelling(policy)));
    state.counters["op events"] = static_cast<double>(events);
}
BENCHMARK(jobs_of_1024)
    ->DenseRange(0, static_cast<int>(kPolicies.size()) - 1)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace orrery::sim
