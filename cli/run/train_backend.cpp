#include "cli/run/train_backend.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "cli/exit_code.hpp"
#include "cli/run/interrupt.hpp"
#include "cli/run/train_ranks.hpp"
#include "plan/assemble/build_plan.hpp"
#include "runtime/cpu/cpu_backend.hpp"
#include "runtime/cpu/process_backend.hpp"
#include "runtime/kernels/cuda_capability.hpp"
#include "runtime/launch/nccl_variables.hpp"
#include "runtime/launch/spawn_ranks.hpp"
#include "runtime/streams/expected_timeouts.hpp"
#include "runtime/streams/stream_backend.hpp"
#include "trace/formats/trace_file.hpp"
#ifdef ORRERY_CUDA
#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/cuda/nccl_driver.hpp"
#endif

namespace orrery::cli {
namespace {

runtime::CallTimeouts timeouts_of(const BackendOptions& options) {
    runtime::CallTimeouts timeouts;
    if (!options.expect_file.empty())
        timeouts = runtime::expected_timeouts(trace::read_trace(options.expect_file));
    if (options.timeout_s > 0)
        timeouts.usual = std::chrono::ceil<std::chrono::milliseconds>(
            std::chrono::duration<double>(options.timeout_s));
    return timeouts;
}

// Busy with something that does not communicate, where the run has ended: nobody waits for it.
void end_process(const runtime::Launch& launch, const runtime::FlightRecords& records,
                 const std::string& reason) {
    const std::string busy = records.unfinished();
    say_of_run(fmt::format("rank {} was busy with {}: {}", launch.rank,
                           busy.empty() ? "no op" : busy, reason));
    _exit(kExitDevice);
}

std::unique_ptr<runtime::Backend> make_cpu_process(const BackendOptions& options,
                                                   const runtime::Launch& launch,
                                                   const runtime::CpuOptions& cpu, Console& console,
                                                   runtime::FlightRecords& records) {
    runtime::ProcessBackendOptions process;
    process.cpu = cpu;
    process.cpu.alone = true;
    process.timeouts = timeouts_of(options);
    process.carrier = options.transport == "tcp"   ? runtime::Carrier::tcp
                      : options.transport == "mpi" ? runtime::Carrier::mpi
                                                   : runtime::Carrier::best;
    process.records = &records;
    process.connected = [launch, &console,
                         timeouts = process.timeouts](const runtime::ProcessWorld& world) {
        InterruptWatch::ranks_have_met();
        if (launch.rank == 0)
            console.err << "orrery train: " << ranks_line(launch, world, timeouts) << std::endl;
    };
    process.waiting = say_of_run;
    process.failed = say_of_run;
    process.overdue = [launch, &records](const std::string& reason) {
        end_process(launch, records, reason);
    };
    return std::make_unique<runtime::ProcessBackend>(launch, process);
}

#ifdef ORRERY_CUDA
runtime::DriverSource cuda_devices() {
    return {runtime::cuda_devices(), runtime::make_cuda_driver, runtime::make_nccl_driver};
}

// Before the first call of CUDA. A kernel that is loaded when it is first launched waits for
// kernels that run, and one of NCCL may run until another rank has launched its own: all are loaded
// at the start (CUDA C++ Programming Guide, "Lazy Loading": concurrent execution). Streams with
// queues of their own do not wait for one another: there are up to seven, and NCCL's.
void export_cuda_settings() {
    const runtime::VariableLookup environment = runtime::process_environment();
    for (const runtime::Variable& setting :
         {runtime::Variable{"CUDA_MODULE_LOADING", "EAGER"},
          runtime::Variable{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}})
        if (!environment(setting.name)) runtime::export_variables({setting});
}

std::unique_ptr<runtime::Backend> make_cuda(const BackendOptions& options, const TrainRun& run,
                                            Console& console) {
    const auto launch = launched_rank(options);
    export_cuda_settings();
    if (options.ranks_per_gpu <= 1) {  // else the ranks were started with settings of their own
        const runtime::NcclVariables nccl =
            runtime::nccl_variables(run.scenario.run.nccl, runtime::process_environment());
        runtime::export_variables(nccl.exported);
        if (!launch || launch->rank == 0)
            for (const std::string& line : nccl.lines)
                console.err << line << '\n';
    }
    runtime::StreamBackendOptions streams;
    streams.streams.time_ops = options.time_ops;
    streams.streams.poison = options.check_memory;
    streams.timeouts = timeouts_of(options);
    streams.ranks_per_device = std::max(1, options.ranks_per_gpu);
    streams.threads_per_rank = run.threads_per_rank;
    return std::make_unique<runtime::StreamBackend>(cuda_devices(), launch, streams);
}
#endif

plan::Diagnostic joins_no_logits(const std::string& file) {
    plan::Diagnostic reason;
    reason.code = "T105";
    reason.file = file;
    reason.pointer = "/training/loss_logits";
    reason.value = "\"gathered\"";
    reason.message = "no backend computes a loss of the logits of several tensor ranks";
    reason.help = {"--set training.loss_logits=copied, whose loss is the same"};
    return reason;
}

plan::Diagnostic captures_no_graphs(const std::string& file) {
    plan::Diagnostic reason;
    reason.code = "T107";
    reason.file = file;
    reason.pointer = "/training/cuda_graphs";
    reason.message = "no backend captures its kernels in CUDA graphs";
    reason.help = {"--set training.cuda_graphs=none: what is computed is the same"};
    return reason;
}

// Transformer Engine scales states in fp16 and in eight bits, tensor by tensor; bf16 has the range
// of fp32.
bool keeps_scaled_states(const plan::Optimizer& optimizer) {
    for (const plan::StateType type :
         {optimizer.first_moment, optimizer.second_moment, optimizer.main_parameters})
        if (type == plan::StateType::fp16 || type == plan::StateType::fp8) return true;
    return false;
}

plan::Diagnostic keeps_no_such_states(bool scaled, const std::string& file) {
    plan::Diagnostic reason;
    reason.code = "T108";
    reason.file = file;
    reason.pointer = "/training/optimizer";
    reason.message = scaled ? "no backend keeps states in fp16 or eight bits, which have scales"
                            : "CUDA's AdamW keeps its states in fp32";
    reason.help = {scaled ? "exp_avg_dtype and exp_avg_sq_dtype \"bf16\" or \"fp32\", "
                            "main_params_dtype \"none\" or \"fp32\""
                          : "leave the types of the states out, or train on CPU ranks"};
    return reason;
}

std::vector<plan::Diagnostic> reasons_not_on_cpu(const plan::Scenario& scenario,
                                                 const std::string& file) {
    if (!scenario.training.fp8.on()) return {};
    plan::Diagnostic reason;
    reason.code = "T104";
    reason.file = file;
    reason.pointer = "/training/precision";
    reason.value = "\"fp8\"";
    reason.message = "CPU ranks have no kernels of eight-bit products";
    reason.help = {"--set training.precision=bf16, without keys that begin with fp8"};
    return {reason};
}

}  // namespace

std::vector<std::string> built_backends() {
#ifdef ORRERY_CUDA
    return {"cpu", "cuda"};
#else
    return {"cpu"};
#endif
}

std::optional<runtime::Launch> launched_rank(const BackendOptions& options) {
    if (options.launcher == "none") return std::nullopt;
    std::optional<runtime::Launcher> only;
    if (options.launcher == "torchrun") only = runtime::Launcher::torchrun;
    if (options.launcher == "open-mpi") only = runtime::Launcher::open_mpi;
    if (options.launcher == "slurm") only = runtime::Launcher::slurm;
    return runtime::launch_of_environment(runtime::process_environment(), only);
}

bool starts_ranks(const BackendOptions& options) {
    return options.ranks_per_gpu > 0 && !launched_rank(options);
}

int start_ranks(const plan::Scenario& scenario) {
    return runtime::spawn_ranks(scenario.layout.ranks(), runtime::own_arguments(),
                                runtime::variables_of_shared_gpu);
}

std::vector<plan::Diagnostic> reasons_not_on_backend(const BackendOptions& options,
                                                     const plan::Scenario& scenario,
                                                     const std::string& file) {
    const auto& framework = scenario.training.framework;
    if (framework.loss_logits == plan::LossLogits::gathered && scenario.layout.tensor_parallel > 1)
        return {joins_no_logits(file)};
    if (scenario.training.cuda_graphs.scope != plan::CudaGraphs::none)
        return {captures_no_graphs(file)};
    const plan::Optimizer& optimizer = scenario.training.optimizer;
    const bool all_wide = optimizer.first_moment == plan::StateType::same &&
                          optimizer.second_moment == plan::StateType::same &&
                          optimizer.main_parameters == plan::StateType::same;
    const bool scaled = keeps_scaled_states(optimizer);
    if (scaled || (options.backend == "cuda" && !all_wide))
        return {keeps_no_such_states(scaled, file)};
    if (options.backend != "cuda") return reasons_not_on_cpu(scenario, file);
    return runtime::reasons_not_on_cuda(plan::build_plan(scenario), scenario, file);
}

std::unique_ptr<runtime::Backend> make_backend(const BackendOptions& options, const TrainRun& run,
                                               Console& console, runtime::FlightRecords& records) {
#ifdef ORRERY_CUDA
    if (options.backend == "cuda") return make_cuda(options, run, console);
#endif
    runtime::CpuOptions cpu;
    cpu.threads = run.threads_per_rank;
    cpu.poison = options.check_memory;
    cpu.guard = options.check_memory;
    if (const auto launch = launched_rank(options))
        return make_cpu_process(options, *launch, cpu, console, records);
    return std::make_unique<runtime::CpuBackend>(cpu, timeouts_of(options).usual, &records);
}

}  // namespace orrery::cli
