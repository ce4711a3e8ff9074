// What performs plans, as a row of facts and functions (registry.hpp has all rows): so that
// commands ask what a backend can do, and none asks which one it is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/scenario/diagnostic.hpp"
#include "runtime/backends/cuda_settings.hpp"
#include "runtime/comm/call_timeouts.hpp"
#include "runtime/cpu/process_backend.hpp"
#include "runtime/flight/flight_records.hpp"
#include "runtime/launch/binding.hpp"
#include "runtime/launch/launch.hpp"
#include "runtime/launch/nccl_variables.hpp"
#include "runtime/machine/requirements.hpp"
#include "runtime/streams/stream_driver.hpp"
#include "runtime/train/backend.hpp"

namespace orrery::runtime {

// What a run asks of its backend. What is referred to must outlive the backend.
struct BackendRequest {
    std::optional<Launch> launch;  // the rank that a launcher made this process; none: all are here
    int threads_per_rank = 1;      // of the host
    int ranks_per_device = 0;      // 0: not asked for
    std::int64_t ranks_here = 1;   // on this machine
    plan::BindTo bind = plan::BindTo::none;
    bool time_ops = false;      // a trace is wanted
    bool keep_layers = false;   // by backends that can (training.cuda_graphs)
    bool check_memory = false;  // memory is poisoned; where it can be, ops are held to tensors
    CallTimeouts timeouts;
    Carrier carrier = Carrier::best;  // between ranks of the host that are processes
    plan::NcclSettings nccl;
    CudaSettings cuda;
    FlightRecords* records = nullptr;  // null: none are written

    // What is heard, of all empty: nobody listens.
    std::function<void(const std::string& line)> settings;  // of libraries, by the first rank
    std::function<void(const Binding&)> bound;     // to which cores ranks of this machine are
    std::function<void(ProcessWorld&)> connected;  // as ProcessBackendOptions has them
    std::function<void(const std::string& message)> failed;
    std::function<void(const std::string& reason)> overdue;
    std::function<void(const std::string& line)> waiting;
};

struct BackendRow {
    std::string_view name;       // as it is asked for: "cuda"
    std::string_view rank_name;  // what its ranks are called: "CUDA rank"

    // Ranks compute on the host's cores, with their arenas in the host's memory.
    bool on_host = false;
    // Ranks that are processes meet by themselves, and say by themselves why a run has ended.
    bool processes_speak = false;
    // Ranks may share a device.
    bool shares_devices = false;
    // What a pass of a layer repeats in each step is captured, and launched at once.
    bool keeps_layers = false;

    // Why this program has no such backend, and how to get one that has; empty: it has.
    std::string (*lacks)() = nullptr;
    // What must be there before a run begins, and is not; empty: the backend is ready.
    std::vector<Finding> (*missing)(const Machine& machine) = nullptr;
    // Why it cannot perform this plan, of a scenario read from `file`; empty where it can.
    std::vector<plan::Diagnostic> (*reasons_not)(const plan::Plan& plan,
                                                 const std::string& file) = nullptr;
    // Throws DeviceError where a device is missing, BindingError. Where the process is one rank of
    // a launch, the calling thread is bound.
    std::unique_ptr<Backend> (*make)(const BackendRequest& request) = nullptr;
    // A driver of the first device, whose kernels can be timed one by one; null: kernels are timed
    // on ranks of the host.
    std::unique_ptr<StreamDriver> (*make_driver)() = nullptr;
};

}  // namespace orrery::runtime
