// All-reduce between ranks that are threads of this process. Shape of the input: fp32, 4 B to 16
// MiB per rank, 2 and 4 ranks; bytes per second are those of nccl-tests' algorithm bandwidth
// (message ÷ time).
#include <algorithm>
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>

#include "runtime/comm/threads/thread_world.hpp"

namespace orrery::runtime {
namespace {

// Zeros, so that any number of sums in place stays what it is; first the ranks' numbers, to verify.
void all_reduce_over_and_over(benchmark::State& state, plan::Rank rank, std::int64_t elements,
                              Communicator& communicator) {
    std::vector<float> data(static_cast<std::size_t>(elements), static_cast<float>(rank + 1));
    const auto reduce = [&] {
        communicator.all_reduce(plan::GroupKind::world, plan::DType::fp32, data.data(), elements);
    };
    reduce();
    const std::int64_t ranks = communicator.mesh().ranks();
    const auto expected = static_cast<float>(ranks * (ranks + 1) / 2);
    const auto wrong =
        std::count_if(data.begin(), data.end(), [&](float element) { return element != expected; });
    if (wrong > 0) throw std::logic_error("a wrong sum");
    std::fill(data.begin(), data.end(), 0.0F);
    if (rank == 0) {
        for (auto _ : state)
            reduce();
    } else {
        for (benchmark::IterationCount i = 0; i < state.max_iterations; ++i)
            reduce();
    }
}

void all_reduce(benchmark::State& state) {
    plan::Mesh mesh;
    mesh.tensor = state.range(0);
    const std::int64_t bytes = state.range(1);
    ThreadWorldOptions options;
    options.threads_per_rank = 1;
    run_ranks(mesh, options, [&](plan::Rank rank, Communicator& communicator) {
        all_reduce_over_and_over(state, rank, bytes / 4, communicator);
    });
    state.SetBytesProcessed(state.iterations() * bytes);
}
BENCHMARK(all_reduce)
    ->ArgNames({"ranks", "bytes"})
    ->ArgsProduct({{2, 4}, benchmark::CreateRange(4, 16 << 20, 8)})
    ->UseRealTime();

}  // namespace
}  // namespace orrery::runtime
