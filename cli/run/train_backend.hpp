// Which backend performs a run, and where its ranks are: from the command line and from what
// started this process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/run/train_run.hpp"
#include "cli/run_subcommands.hpp"
#include "plan/scenario/diagnostic.hpp"
#include "runtime/backends/registry.hpp"
#include "runtime/flight/flight_records.hpp"
#include "runtime/launch/launch.hpp"

namespace CLI {
class App;
}

namespace orrery::cli {

struct BackendOptions {
    std::string command{kTrain.name};  // whose run it is: "orrery train: …"
    std::string backend{runtime::backends().front().name};
    int ranks_per_gpu = 0;    // 0: not asked for
    std::string expect_file;  // a trace that says how long calls take; empty: none
    double timeout_s = 0;     // of calls that it does not have; 0: not said
    std::string launcher = "auto";
    std::string transport = "auto";  // of messages between CPU ranks that are processes
    std::string flight_record;       // a folder; empty: not said
    bool check_memory = false;
    bool time_ops = false;  // a trace is wanted
};

// A check of CLI11, in each of whose ranges NaN is: "" or what is wrong.
std::string is_number(const std::string& text);

// Adds what says where ranks are and how they meet: --ranks-per-gpu, --timeout, --launcher,
// --transport.
void declare_ranks(CLI::App& app, BackendOptions& options);
// Throws UsageError for --ranks-per-gpu of ranks on the host.
void require_shared_devices(const BackendOptions& options);

// A rank of a run that a launcher started; none where this process has all of them. Throws
// runtime::LaunchError.
std::optional<runtime::Launch> launched_rank(const BackendOptions& options);

// Whether this process is to start the ranks, and nothing else (runtime/launch/spawn_ranks.hpp):
// where it is asked to, and for several ranks on devices unless --launcher none has them here. A
// device's launch blocks once its queue is full, and threads of one process may then wait for one
// another's launches.
bool starts_ranks(const BackendOptions& options, const plan::Scenario& scenario);
int start_ranks(const BackendOptions& options, const plan::Scenario& scenario);

// Why the backend cannot perform the run; empty where it can.
std::vector<plan::Diagnostic> reasons_not_on_backend(const BackendOptions& options,
                                                     const plan::Scenario& scenario,
                                                     const std::string& file);

// NCCL's settings are exported here, and told on console.err; ranks are bound to cores, which the
// run then says. Throws runtime::BindingError, runtime::DeviceError where a
// device is missing, trace::TraceError for the trace of `expect_file`. The console and `records`
// (null: none are written) must outlive the backend.
std::unique_ptr<runtime::Backend> make_backend(const BackendOptions& options, TrainRun& run,
                                               Console& console, runtime::FlightRecords* records);

}  // namespace orrery::cli
