// orrery-run, the program that performs plans: what needs the runtime, and later GPUs and MPI,
// which the program orrery does without.
#include <new>

#include "calib/fit/fit_error.hpp"
#include "calib/fit/import_collectives.hpp"
#include "cli/exit_code.hpp"
#include "cli/process.hpp"
#include "cli/program.hpp"
#include "cli/run/subcommands.hpp"
#include "runtime/comm/communication_error.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/executor/disk_tier.hpp"
#include "runtime/launch/launch.hpp"
#include "runtime/streams/stream_backend.hpp"
#include "runtime/train/health.hpp"
#include "runtime/train/replica_check.hpp"
#include "sim/cost/profile.hpp"
#include "trace/native.hpp"

namespace {

using namespace orrery;

template <typename... Errors>
bool is_any(const std::exception& error) {
    return (... || (dynamic_cast<const Errors*>(&error) != nullptr));
}

int exit_code_of_error(const std::exception& error) {
    if (is_any<runtime::CommunicationError, runtime::DeviceError, runtime::ReplicaError,
               fit::FitError, std::bad_alloc>(error))
        return cli::kExitDevice;
    if (is_any<runtime::NotFiniteError>(error)) return cli::kExitVerification;
    if (is_any<runtime::StorageError>(error)) return cli::kExitStorage;
    if (is_any<runtime::PlacementError>(error)) return cli::kExitInfeasible;
    if (is_any<runtime::DataError, sim::ProfileError, fit::ImportError>(error))
        return cli::kExitUnreadable;
    if (const auto* file = dynamic_cast<const trace::TraceFileError*>(&error))
        return file->fault() == trace::TraceFault::storage ? cli::kExitStorage
                                                           : cli::kExitUnreadable;
    if (is_any<runtime::LaunchError>(error)) return cli::kExitUsage;
    return cli::kExitInternal;
}

int run(const std::vector<std::string>& args, cli::Console console) {
    cli::Program program;
    program.description = "The part of Orrery that trains and measures; ./orrery starts it.";
    program.exit_code_of = exit_code_of_error;
    program.subcommands.push_back(cli::train_command());
    program.subcommands.push_back(cli::export_command());
    program.subcommands.push_back(cli::calibrate_command());
    program.subcommands.push_back(cli::doctor_command());
    return cli::run_program(program, args, console);
}

}  // namespace

int main(int argc, char** argv) {
    return cli::run_process(argc, argv, run);
}
