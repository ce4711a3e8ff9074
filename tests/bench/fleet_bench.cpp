// Runs of weeks: a thousand runs of 60 days on 16,384 GPUs, a failure every three hours.
#include <benchmark/benchmark.h>

#include "sim/fleet/run_outcome.hpp"

namespace orrery::sim {
namespace {

void thousand_runs(benchmark::State& state) {
    RunModel model;
    model.work_s = 60.0 * 86400;
    model.causes = {{"any", 419.0 / (54 * 86400), 120, true, false, true}};
    model.rate_log_sd = 0.5;
    model.early = 0.1;
    model.late = 0.15;
    model.diagnosis_s = model.restart_s = 300;
    model.interval_s = 300;
    model.stall_s = 5;
    model.write_s = 30;
    model.spare_nodes = 40;
    model.repair_s = 86400;
    for (auto _ : state)
        for (std::uint64_t i = 0; i < 1000; ++i)
            benchmark::DoNotOptimize(draw_run(model, 1, i));
}
BENCHMARK(thousand_runs)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery::sim
