#include "cli/run/train_backend.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/run/for_backends.hpp"
#include "cli/run/interrupt.hpp"
#include "cli/run/train_ranks.hpp"
#include "cli/subcommand.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/exit_code.hpp"
#include "runtime/backends/registry.hpp"
#include "runtime/launch/spawn_ranks.hpp"
#include "runtime/streams/expected_timeouts.hpp"
#include "trace/formats/trace_file.hpp"

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

runtime::Carrier carrier_of(const BackendOptions& options) {
    if (options.transport == "tcp") return runtime::Carrier::tcp;
    return options.transport == "mpi" ? runtime::Carrier::mpi : runtime::Carrier::best;
}

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

// Empty where they are what the backend captures, or none.
std::string why_no_graphs(const plan::Scenario& scenario, const runtime::BackendRow& backend) {
    const plan::CudaGraphs scope = scenario.training.cuda_graphs.scope;
    if (scope == plan::CudaGraphs::none) return "";
    if (!backend.keeps_layers)
        return fmt::format("a {} issues nothing that CUDA graphs could hold", backend.rank_name);
    if (scope == plan::CudaGraphs::full_iteration)
        return "no backend captures a whole step; \"per_layer\" is what is captured";
    if (scenario.model.has_experts())
        return "how many rows come to experts decides what is launched, and how much memory "
               "kernels use beside what is captured";
    return "";
}

plan::Diagnostic captures_no_graphs(const std::string& file, std::string why) {
    plan::Diagnostic reason;
    reason.code = "T107";
    reason.file = file;
    reason.pointer = "/training/cuda_graphs";
    reason.message = std::move(why);
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

plan::Diagnostic keeps_no_such_states(const std::string& file) {
    plan::Diagnostic reason;
    reason.code = "T108";
    reason.file = file;
    reason.pointer = "/training/optimizer";
    reason.message = "no backend keeps states in fp16 or eight bits, which have scales";
    reason.help = {
        "exp_avg_dtype and exp_avg_sq_dtype \"bf16\" or \"fp32\", main_params_dtype "
        "\"none\" or \"fp32\""};
    return reason;
}

}  // namespace

std::string is_number(const std::string& text) {
    return text.find_first_of("nN") == std::string::npos ? "" : "not a number";
}

void declare_ranks(CLI::App& app, BackendOptions& options) {
    app.add_option("--ranks-per-gpu", options.ranks_per_gpu,
                   "Start so many ranks on each GPU, as processes (default: 1); with more than 1, "
                   "to see that results are right, not how fast")
        ->type_name("N")
        ->check(CLI::Range(1, 64));
    app.add_option("--timeout", options.timeout_s,
                   "A call that waits so long for other ranks ends the run (default: 600)")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.1, 1e6))
        ->check(is_number);
    app.add_option("--launcher", options.launcher,
                   "What has started this process as one rank of many: auto (by its variables), "
                   "torchrun, open-mpi, slurm; none: all ranks are in this process")
        ->type_name("NAME")
        ->check(CLI::IsMember(
            std::vector<std::string>{"auto", "torchrun", "open-mpi", "slurm", "none"}));
    app.add_option("--transport", options.transport,
                   "What carries messages between CPU ranks that are processes: auto (MPI under "
                   "mpirun where it is built in, else TCP), tcp, mpi")
        ->type_name("NAME")
        ->check(CLI::IsMember(std::vector<std::string>{"auto", "tcp", "mpi"}));
}

void require_shared_devices(const BackendOptions& options) {
    const auto shares = [](const runtime::BackendRow& row) { return row.shares_devices; };
    if (options.ranks_per_gpu > 0 && !shares(runtime::backend_named(options.backend)))
        throw UsageError(for_backends("--ranks-per-gpu", shares));
}

std::optional<runtime::Launch> launched_rank(const BackendOptions& options) {
    if (options.launcher == "none") return std::nullopt;
    std::optional<runtime::Launcher> only;
    if (options.launcher == "torchrun") only = runtime::Launcher::torchrun;
    if (options.launcher == "open-mpi") only = runtime::Launcher::open_mpi;
    if (options.launcher == "slurm") only = runtime::Launcher::slurm;
    return runtime::launch_of_environment(runtime::process_environment(), only);
}

bool starts_ranks(const BackendOptions& options, const plan::Scenario& scenario) {
    if (launched_rank(options)) return false;
    if (options.ranks_per_gpu > 0) return true;
    return options.launcher == "auto" && scenario.layout.ranks() > 1 &&
           runtime::backend_named(options.backend).shares_devices;
}

int start_ranks(const BackendOptions& options, const plan::Scenario& scenario) {
    return runtime::spawn_ranks(
        scenario.layout.ranks(), runtime::own_arguments(), [&](std::int64_t rank) {
            return runtime::variables_of_shared_gpu(rank, options.ranks_per_gpu);
        });
}

std::vector<plan::Diagnostic> reasons_not_on_backend(const BackendOptions& options,
                                                     const plan::Scenario& scenario,
                                                     const std::string& file) {
    const auto& framework = scenario.training.framework;
    if (framework.loss_logits == plan::LossLogits::gathered && scenario.layout.tensor_parallel > 1)
        return {joins_no_logits(file)};
    const runtime::BackendRow& backend = runtime::backend_named(options.backend);
    if (std::string why = why_no_graphs(scenario, backend); !why.empty())
        return {captures_no_graphs(file, std::move(why))};
    if (keeps_scaled_states(scenario.training.optimizer)) return {keeps_no_such_states(file)};
    return backend.reasons_not(plan::build_plan(scenario), file);
}

std::unique_ptr<runtime::Backend> make_backend(const BackendOptions& options, TrainRun& run,
                                               Console& console, runtime::FlightRecords* records) {
    runtime::BackendRequest request;
    request.launch = launched_rank(options);
    request.threads_per_rank = run.threads_per_rank;
    request.ranks_per_device = options.ranks_per_gpu;
    request.ranks_here = run.ranks_here;
    request.bind = run.scenario.run.bind;
    request.time_ops = options.time_ops;
    request.check_memory = options.check_memory;
    request.keep_layers = run.scenario.training.cuda_graphs.scope == plan::CudaGraphs::per_layer;
    request.timeouts = timeouts_of(options);
    request.carrier = carrier_of(options);
    request.nccl = run.scenario.run.nccl;
    request.cuda = {run.scenario.run.product_choices, run.scenario.run.cudnn};
    request.records = records;
    request.settings = [&console](const std::string& line) { console.err << line << '\n'; };
    request.bound = [&run](const runtime::Binding& binding) { run.binding = binding; };
    const SayOfRun say = say_of_run(options);
    request.waiting = say;
    request.failed = say;
    if (const auto& launch = request.launch) {
        request.connected = [launch = *launch, &console, command = options.command,
                             timeouts = request.timeouts](const runtime::ProcessWorld& world) {
            InterruptWatch::ranks_have_met();
            if (launch.rank == 0)
                console.err << "orrery " << command << ": " << ranks_line(launch, world, timeouts)
                            << std::endl;
        };
        request.overdue = [rank = launch->rank, records, say](const std::string& reason) {
            end_process(rank, records, say, reason);
        };
    }
    return runtime::backend_named(options.backend).make(request);
}

}  // namespace orrery::cli
