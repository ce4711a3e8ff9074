// Writing and reading traces in each format. Shape of the input: a 1F1B step of 64 stages with a
// track each, 48 micro-batches, 41 layers of 4 ops: 1 M events (tests/trace/pipeline_trace.hpp).
#include <benchmark/benchmark.h>

#include "tests/trace/native_container.hpp"
#include "tests/trace/pipeline_trace.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::trace {
namespace {

// 64 stages × 2 × 48 passes × 41 layers × 4 ops = 1 007 616 events, and 6 048 transfers.
constexpr PipelineShape kShape{64, 48, 41};
constexpr std::size_t kEvents = 64 * 2 * 48 * 41 * 4 + 63 * 2 * 48;

const Trace& million() {
    static const Trace trace = pipeline_trace(kShape);
    return trace;
}

void count(benchmark::State& state, const std::string& path) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kEvents));
    state.counters["events"] = static_cast<double>(kEvents);
    state.counters["bytes_per_event"] =
        static_cast<double>(std::filesystem::file_size(path)) / static_cast<double>(kEvents);
}

// With the disk's fsync.
void write_million_events(benchmark::State& state, const char* name) {
    const TestFolder folder;
    const std::string path = folder.file(name);
    million();
    for (auto _ : state)
        write_trace(million(), path);
    if (!(read_trace(path) == million())) state.SkipWithError("read another trace than written");
    count(state, path);
}
BENCHMARK_CAPTURE(write_million_events, native, "t.orrery")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(write_million_events, perfetto, "t.pftrace")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(write_million_events, chrome, "t.json")->Unit(benchmark::kMillisecond);

void read_million_events(benchmark::State& state, const char* name) {
    const TestFolder folder;
    const std::string path = folder.file(name);
    write_trace(million(), path);
    Trace trace;
    for (auto _ : state) {
        trace = read_trace(path);
        benchmark::DoNotOptimize(trace.tracks.data());
    }
    if (events_of(trace) != kEvents || !(trace == million()))
        state.SkipWithError("read another trace than written");
    count(state, path);
}
BENCHMARK_CAPTURE(read_million_events, native, "t.orrery")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_million_events, perfetto, "t.pftrace")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_million_events, chrome, "t.json")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery::trace
