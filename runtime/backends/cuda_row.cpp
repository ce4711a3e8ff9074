// Ranks on CUDA devices, one each. The row is there in every build; its drivers are where CUDA is
// (runtime/cuda/cuda_devices.cpp).
#include <algorithm>
#include <cstdlib>

#include "runtime/backends/bound_ranks.hpp"
#include "runtime/backends/cuda_devices.hpp"
#include "runtime/backends/nccl_groups.hpp"
#include "runtime/backends/rank_devices.hpp"
#include "runtime/backends/rows.hpp"
#include "runtime/kernels/cuda_capability.hpp"
#include "runtime/launch/bind_thread.hpp"
#include "runtime/launch/nccl_variables.hpp"
#include "runtime/launch/spawn_ranks.hpp"
#include "runtime/machine/find_library.hpp"
#include "runtime/streams/stream_backend.hpp"

namespace orrery::runtime {
namespace {

// Before the first call of CUDA. A kernel that is loaded when it is first launched waits for
// kernels that run, and one of NCCL may run until another rank has launched its own: all are loaded
// at the start (CUDA C++ Programming Guide, "Lazy Loading": concurrent execution). Streams with
// queues of their own do not wait for one another: there are up to twelve, and NCCL's.
void export_cuda_settings() {
    const VariableLookup environment = process_environment();
    for (const Variable& setting :
         {Variable{"CUDA_MODULE_LOADING", "EAGER"}, Variable{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}})
        if (!environment(setting.name)) export_variables({setting});
}

void say(const BackendRequest& request, const std::vector<std::string>& lines) {
    if (!request.settings || (request.launch && request.launch->rank > 0)) return;
    for (const std::string& line : lines)
        request.settings(line);
}

// What communicators are made with; the rest NCCL reads in its variables. Ranks that share a device
// were started with settings of their own.
CommunicatorOptions settle_nccl(const BackendRequest& request) {
    if (request.ranks_per_device > 1) return {};
    const VariableLookup environment = process_environment();
    CommunicatorOptions options = communicator_options(request.nccl, environment);
    const std::int64_t ranks = request.launch ? request.launch->size : request.ranks_here;
    options.registers_memory = request.nccl.registered_buffers && ranks > 1;
    if (options.registers_memory)
        say(request, {"memory of a step: NCCL's, registered with each communicator "
                      "(run.nccl.registered_buffers)"});
    const NcclVariables nccl = nccl_variables(request.nccl, environment);
    export_variables(nccl.exported);
    remove_variables(nccl.removed);
    say(request, nccl.lines);
    return options;
}

// Another kernel is another rounding: a run says whose attention it has.
std::string attention_line(const CudaSettings& settings) {
    if (!settings.cudnn) return "attention: Orrery's own kernels (run.cudnn is false)";
    SystemLoader loader;
    const Library cudnn = find_library(loader, "cuDNN", python_package_folders(std::getenv)).facts;
    if (!cudnn.found()) return "attention: Orrery's own kernels (" + why_missing(cudnn) + ")";
    return "attention: cuDNN " + cudnn.version + " where it has a kernel, else Orrery's own";
}

// Ops that are timed, or looked at one by one, are launched so.
std::vector<std::string> graphs_lines(const BackendRequest& request) {
    if (!request.keep_layers) return {};
    if (request.time_ops) return {"CUDA graphs: none, since each op is timed (--trace)"};
    if (request.check_memory)
        return {"CUDA graphs: none, since memory is poisoned (--check-memory)"};
    return {"CUDA graphs: of what a pass of a layer repeats in each step"};
}

Binding binding_of(const BackendRequest& request, int devices) {
    SystemLoader loader;
    RanksOfMachine machine{.ranks = request.ranks_here, .devices = devices};
    machine.ranks_per_device = std::max(1, request.ranks_per_device);
    if (request.launch) {
        machine.launched = true;
        machine.local_rank = request.launch->local_rank;
    }
    return bind_to_gpus(request.bind, processors_of_process(), rank_devices(loader, machine));
}

std::unique_ptr<Backend> make_cuda(const BackendRequest& request) {
    export_cuda_settings();
    StreamBackendOptions options;
    options.communicators = settle_nccl(request);
    options.streams.time_ops = request.time_ops;
    options.streams.keep_layers = request.keep_layers;
    options.streams.poison = request.check_memory;
    options.timeouts = request.timeouts;
    options.ranks_per_device = std::max(1, request.ranks_per_device);
    options.threads_per_rank = request.threads_per_rank;
    options.watching.overdue = request.overdue;
    options.records = request.records;
    CudaSettings settings = request.cuda;
    settings.registered_buffers = options.communicators.registers_memory;
    const DriverSource devices = cuda_devices_of_process(settings);
    say(request, {attention_line(request.cuda)});
    say(request, graphs_lines(request));
    return with_bound_ranks(std::make_unique<StreamBackend>(devices, request.launch, options),
                            request, binding_of(request, devices.devices));
}

// Parameters of 16 bits have masters beside them, and no state fewer than 32 bits.
bool keeps_wide_states(const plan::Bucket& bucket) {
    for (const plan::BucketState& state : bucket.states)
        if (plan::is_optimizer_state(state.kind) && plan::size_bytes(state.dtype) < 4) return false;
    const plan::BucketState* parameters = bucket.state(plan::StateKind::parameters);
    return parameters == nullptr || plan::size_bytes(parameters->dtype) >= 4 ||
           bucket.state(plan::StateKind::masters) != nullptr;
}

std::vector<plan::Diagnostic> reasons_not_on_row(const plan::Plan& plan, const std::string& file) {
    for (const plan::Program& program : plan.programs)
        for (const plan::Bucket& bucket : program.buckets) {
            if (keeps_wide_states(bucket)) continue;
            plan::Diagnostic reason;
            reason.code = "T108";
            reason.file = file;
            reason.pointer = "/training/optimizer";
            reason.message = "CUDA's AdamW keeps its states in fp32";
            reason.help = {"leave the types of the states out, or train on CPU ranks"};
            return {reason};
        }
    return reasons_not_on_cuda(plan, file);
}

}  // namespace

BackendRow cuda_row() {
    BackendRow row;
    row.name = "cuda";
    row.rank_name = "CUDA rank";
    row.shares_devices = true;
    row.keeps_layers = true;
    row.lacks = [] {
        return std::string(
            built_with_cuda() ? "" : "this program was built without CUDA: ./orrery build cuda");
    };
    row.missing = missing_for_cuda;
    row.reasons_not = reasons_not_on_row;
    row.make = make_cuda;
    row.make_driver = [] { return cuda_devices_of_process().driver(0); };
    return row;
}

}  // namespace orrery::runtime
