// Ranks on the host's cores: threads of this process, or a process each that a launcher started.
#include "runtime/backends/bound_ranks.hpp"
#include "runtime/backends/rows.hpp"
#include "runtime/cpu/cpu_backend.hpp"
#include "runtime/kernels/eight_bit_capability.hpp"
#include "runtime/launch/bind_thread.hpp"

namespace orrery::runtime {
namespace {

std::vector<plan::Diagnostic> reasons_not_on_cpu(const plan::Plan& plan, const std::string& file) {
    return reasons_not_in_eight_bits(plan, file, {.code = "T104", .who = "CPU ranks"});
}

std::unique_ptr<Backend> make_unbound(const BackendRequest& request) {
    CpuOptions cpu;
    cpu.threads = request.threads_per_rank;
    cpu.poison = request.check_memory;
    cpu.guard = request.check_memory;
    if (!request.launch)
        return std::make_unique<CpuBackend>(cpu, request.timeouts.usual, request.records);
    ProcessBackendOptions process;
    process.cpu = cpu;
    process.cpu.alone = true;
    process.timeouts = request.timeouts;
    process.carrier = request.carrier;
    process.records = request.records;
    process.connected = request.connected;
    process.waiting = request.waiting;
    process.failed = request.failed;
    process.overdue = request.overdue;
    return std::make_unique<ProcessBackend>(*request.launch, process);
}

std::unique_ptr<Backend> make_cpu(const BackendRequest& request) {
    return with_bound_ranks(make_unbound(request), request,
                            share_nodes(request.bind, processors_of_process(), request.ranks_here));
}

}  // namespace

BackendRow cpu_row() {
    BackendRow row;
    row.name = "cpu";
    row.rank_name = "CPU rank";
    row.on_host = true;
    row.processes_speak = true;
    row.lacks = [] { return std::string(); };
    row.missing = [](const Machine&) { return std::vector<Finding>(); };  // any x86-64 will do
    row.reasons_not = reasons_not_on_cpu;
    row.make = make_cpu;
    return row;
}

}  // namespace orrery::runtime
