#include "calib/measure/cpu_timings.hpp"

#include <utility>

#include "runtime/comm/thread_world.hpp"
#include "runtime/cpu/cpu_backend.hpp"

namespace orrery::measure {

using plan::DType;

CalibrationOptions short_calibration() {
    CalibrationOptions options;
    options.sampling.samples = 5;
    options.kernels.gemm_shapes = 16;
    options.kernels.gemm_most_flops = 1e8;
    options.kernels.attention_most_flops = 5e7;
    options.kernels.memory_step = 4;
    options.steps.models = 4;
    return options;
}

CpuTimings time_cpu(const CalibrationOptions& options,
                    const std::function<void(const std::string&)>& progress) {
    CpuTimings timings;
    plan::Mesh mesh;
    mesh.data = options.ranks;
    runtime::ThreadWorldOptions world;
    world.threads_per_rank = options.threads_per_rank;
    runtime::run_ranks(mesh, world, [&](plan::Rank rank, runtime::Communicator& ranks) {
        runtime::Team team(options.threads_per_rank);
        const auto tell = [&](const char* what) {
            if (rank == 0) progress(what);
        };
        CpuTimings own;
        for (const DType dtype : {DType::fp32, DType::bf16}) {
            tell(dtype == DType::fp32 ? "matrix products, fp32" : "matrix products, bf16");
            own.gemm.emplace_back(dtype,
                                  time_gemm(ranks, team, options.sampling, options.kernels, dtype));
        }
        tell("attention");
        own.attention = time_attention(ranks, team, options.sampling, options.kernels);
        own.products = time_attention_products(ranks, team, options.sampling, options.kernels);
        tell("memory-bound kernels");
        own.memory = time_memory_bound(ranks, team, options.sampling, options.kernels);
        own.copy_bytes_per_s = time_copy(ranks, options.sampling, options.kernels);
        if (rank == 0) timings = std::move(own);
    });
    progress("whole steps");
    runtime::CpuOptions cpu;
    cpu.threads = options.threads_per_rank;
    runtime::CpuBackend backend(cpu);
    timings.steps =
        time_steps(options.ranks, backend, options.steps, options.scenarios_dir,
                   {options.device, options.version, "", 0, 1, 0, 0,
                    "threads of one process, in whole steps, from when the last one came"});
    return timings;
}

}  // namespace orrery::measure
