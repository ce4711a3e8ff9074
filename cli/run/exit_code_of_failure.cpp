#include "cli/run/exit_code_of_failure.hpp"

#include "calib/fit/fit_error.hpp"
#include "calib/fit/import_collectives.hpp"
#include "cli/exit_code.hpp"
#include "cli/machine_failure.hpp"
#include "cli/run/expected_step.hpp"
#include "runtime/comm/communication_error.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/streams/disk_tier.hpp"
#include "runtime/launch/launch.hpp"
#include "runtime/streams/stream_backend.hpp"
#include "runtime/train/health.hpp"
#include "runtime/train/replica_check.hpp"
#include "sim/cost/profile.hpp"
#include "trace/formats/native.hpp"

namespace orrery::cli {
namespace {

template <typename... Errors>
bool is_any(const std::exception& error) {
    return (... || (dynamic_cast<const Errors*>(&error) != nullptr));
}

}  // namespace

int exit_code_of_failure(const std::exception& error) {
    if (const auto refused = machine_failure(error)) return refused->exit_code;
    if (is_any<runtime::CommunicationError, runtime::DeviceError, runtime::ReplicaError,
               fit::FitError>(error))
        return kExitDevice;
    if (is_any<runtime::NotFiniteError>(error)) return kExitVerification;
    if (is_any<runtime::StorageError>(error)) return kExitStorage;
    if (is_any<runtime::PlacementError>(error)) return kExitInfeasible;
    if (is_any<runtime::DataError, sim::ProfileError, fit::ImportError>(error))
        return kExitUnreadable;
    if (const auto* file = dynamic_cast<const trace::TraceFileError*>(&error))
        return file->fault() == trace::TraceFault::storage ? kExitStorage : kExitUnreadable;
    if (is_any<runtime::LaunchError>(error)) return kExitUsage;
    if (is_any<ExpectedError>(error)) return kExitInvalidScenario;
    return kExitInternal;
}

}  // namespace orrery::cli
