#include "calib/measure/cpu_timings.hpp"

#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "runtime/comm/threads/thread_world.hpp"
#include "runtime/cpu/cpu_backend.hpp"

namespace orrery::measure {

using plan::DType;

constexpr std::array kGemmTypes = {DType::fp32, DType::bf16, DType::fp8_e4m3};

CalibrationOptions short_calibration() {
    CalibrationOptions options;
    options.sampling.samples = 5;
    options.kernels.gemm_shapes = 16;
    options.kernels.gemm_most_flops = 1e8;
    options.kernels.attention_most_flops = 5e7;
    options.kernels.memory_step = 4;
    options.steps.models = 4;
    options.rounds = 2;
    return options;
}

namespace {

template <typename T>
void append(std::vector<T>& to, std::vector<T> more) {
    to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Those whose turn it is, by all ranks at once.
void time_kernels(const CalibrationOptions& options, CpuTimings& timings) {
    plan::Mesh mesh;
    mesh.data = options.ranks;
    runtime::ThreadWorldOptions world;
    world.threads_per_rank = options.threads_per_rank;
    runtime::run_ranks(mesh, world, [&](plan::Rank rank, runtime::Communicator& ranks) {
        runtime::Team team(options.threads_per_rank);
        const Sampling& sampling = options.sampling;
        CpuTimings nobodys;
        CpuTimings& to = rank == 0 ? timings : nobodys;
        to.gemm.resize(kGemmTypes.size());
        for (std::size_t i = 0; i < kGemmTypes.size(); ++i) {
            to.gemm[i].first = kGemmTypes[i];
            append(to.gemm[i].second,
                   time_gemm(ranks, team, sampling, options.kernels, kGemmTypes[i]));
        }
        AttentionTimings attention = time_attention(ranks, team, sampling, options.kernels);
        append(to.attention.forward, std::move(attention.forward));
        append(to.attention.backward_us, std::move(attention.backward_us));
        append(to.products, time_attention_products(ranks, team, sampling, options.kernels));
        append(to.memory, time_memory_bound(ranks, team, sampling, options.kernels));
        if (options.kernels.round == 0)
            to.copy_bytes_per_s = time_copy(ranks, sampling, options.kernels);
    });
}

void append(StepTimings& to, StepTimings more) {
    append(to.memory, std::move(more.memory));
    append(to.gemm, std::move(more.gemm));
    append(to.attention, std::move(more.attention));
    append(to.attention_backward, std::move(more.attention_backward));
    append(to.collectives, std::move(more.collectives));
    append(to.sharing, std::move(more.sharing));
}

}  // namespace

CpuTimings time_cpu(const CalibrationOptions& asked,
                    const std::function<void(const std::string&)>& progress) {
    CpuTimings timings;
    CalibrationOptions options = asked;
    options.sampling.count = &timings.samples;
    options.steps.count = &timings.performed;
    if (options.steps.head_dims.empty()) options.steps.head_dims = options.kernels.head_dims;
    options.kernels.rounds = options.steps.rounds = options.rounds;
    runtime::CpuOptions cpu;
    cpu.threads = options.threads_per_rank;
    runtime::CpuBackend backend(cpu);
    const OtherWork others;
    for (int round = 0; round < options.rounds; ++round) {
        options.kernels.round = options.steps.round = round;
        const std::string which = fmt::format(", round {} of {}", round + 1, options.rounds);
        progress("kernels" + which);
        time_kernels(options, timings);
        progress("whole steps" + which);
        append(timings.steps,
               time_steps(options.ranks, backend, options.steps, options.scenarios_dir,
                          {options.device, options.version, "", 0, 1, 0, 0,
                           "threads of one process, in whole steps, from when the last one was "
                           "ready to when the one that waits goes on"}));
    }
    timings.others_cores = others.cores();
    return timings;
}

}  // namespace orrery::measure
