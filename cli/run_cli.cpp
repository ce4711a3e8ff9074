#include "cli/run_cli.hpp"

#include "calib/compare/trace_join.hpp"
#include "calib/compare/validate.hpp"
#include "calib/fit/fit_error.hpp"
#include "cli/exit_code.hpp"
#include "cli/run_subcommands.hpp"
#include "cli/subcommand.hpp"
#include "plan/text/plan_file.hpp"
#include "sim/cost/profile.hpp"
#include "sim/replay/measured.hpp"
#include "trace/formats/native.hpp"

namespace orrery::cli {
namespace {

template <typename... Errors>
bool is_any(const std::exception& error) {
    return (... || (dynamic_cast<const Errors*>(&error) != nullptr));
}

int exit_code_of_error(const std::exception& error) {
    if (is_any<sim::ProfileError, compare::RecordsError, fit::FitError, plan::PlanFileError>(error))
        return kExitUnreadable;
    if (is_any<compare::PlansDiffer, sim::CostsError>(error)) return kExitInvalidScenario;
    if (const auto* file = dynamic_cast<const trace::TraceFileError*>(&error))
        return file->fault() == trace::TraceFault::storage ? kExitStorage : kExitUnreadable;
    return kExitInternal;
}

}  // namespace

Program predicting_program() {
    Program program;
    program.description =
        "Orrery predicts what every GPU of a cluster does in a training step, and trains.";
    program.exit_code_of = exit_code_of_error;
#define ORRERY_ADD(name) program.subcommands.push_back(name##_command());
    ORRERY_SUBCOMMANDS(ORRERY_ADD)
#undef ORRERY_ADD
    for (const RunSubcommand& other : kRunSubcommands)
        program.elsewhere.push_back({other.name, other.summary, other.example, "orrery-run"});
    return program;
}

int run_cli(const std::vector<std::string>& args, Console console) {
    return run_program(predicting_program(), args, console);
}

}  // namespace orrery::cli
