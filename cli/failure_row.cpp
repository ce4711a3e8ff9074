#include "cli/failure_row.hpp"

#include <array>

#include "calib/compare/trace_join.hpp"
#include "calib/compare/validate.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/import_collectives.hpp"
#include "cli/machine_failure.hpp"
#include "cli/routing_counts.hpp"
#include "plan/exit_code.hpp"
#include "plan/text/plan_file.hpp"
#include "sim/cost/profile.hpp"
#include "sim/replay/measured.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::cli {
namespace {

bool is_unwritten_trace(const std::exception& error) {
    const auto* file = dynamic_cast<const trace::TraceFileError*>(&error);
    return file != nullptr && file->fault() == trace::TraceFault::storage;
}

// Whatever the program, what could not be written is no other fault of its class.
std::span<const FailureRow> unwritten() {
    static const std::array rows = {row_of<fit::FitStorageError>(kExitStorage),
                                    FailureRow{is_unwritten_trace, kExitStorage}};
    return rows;
}

std::span<const FailureRow> of_both_programs() {
    static const std::array rows = {
        row_of<trace::TraceFileError>(kExitUnreadable),
        row_of<plan::PlanFileError>(kExitUnreadable),
        row_of<sim::ProfileError>(kExitUnreadable),
        row_of<plan::PlanFileError>(kExitUnreadable),
        row_of<compare::RecordsError>(kExitUnreadable),
        row_of<RoutingCountsError>(kExitUnreadable),
        row_of<fit::ImportError>(kExitUnreadable),
        row_of<fit::FitError>(kExitUnreadable),
        row_of<compare::PlansDiffer>(kExitInvalidScenario),
        row_of<sim::CostsError>(kExitInvalidScenario),
    };
    return rows;
}

}  // namespace

int exit_code_of(const std::exception& error, std::span<const FailureRow> more) {
    if (const auto refused = machine_failure(error)) return refused->exit_code;
    for (const auto& rows : {unwritten(), more, of_both_programs()})
        for (const FailureRow& row : rows)
            if (row.is(error)) return row.exit_code;
    return kExitInternal;
}

}  // namespace orrery::cli
