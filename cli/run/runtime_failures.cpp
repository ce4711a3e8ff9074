#include "cli/run/runtime_failures.hpp"

#include <array>

#include "calib/fit/fit_error.hpp"
#include "cli/run/expected_step.hpp"
#include "plan/exit_code.hpp"
#include "runtime/comm/communication_error.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/executor/expert_room.hpp"
#include "runtime/launch/binding.hpp"
#include "runtime/launch/launch.hpp"
#include "runtime/storage_error.hpp"
#include "runtime/streams/stream_backend.hpp"
#include "runtime/train/health.hpp"
#include "runtime/train/replica_check.hpp"

namespace orrery::cli {

// A fit here is one of what was timed: where it fails, it is the device that was timed in vain.
std::span<const FailureRow> runtime_failures() {
    static const std::array rows = {
        row_of<runtime::CommunicationError>(kExitDevice),
        row_of<runtime::DeviceError>(kExitDevice),
        row_of<runtime::ReplicaError>(kExitDevice),
        row_of<fit::FitError>(kExitDevice),
        row_of<runtime::NotFiniteError>(kExitVerification),
        row_of<runtime::StorageError>(kExitStorage),
        row_of<runtime::PlacementError>(kExitInfeasible),
        row_of<runtime::BindingError>(kExitInfeasible),
        row_of<runtime::ExpertRoomError>(kExitInfeasible),
        row_of<runtime::DataError>(kExitUnreadable),
        row_of<runtime::LaunchError>(kExitUsage),
        row_of<ExpectedError>(kExitInvalidScenario),
    };
    return rows;
}

}  // namespace orrery::cli
