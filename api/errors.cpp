#include "api/content.hpp"
#include "cli/failure_row.hpp"
#include "cli/machine_failure.hpp"
#include "cli/subcommand.hpp"
#include "plan/exit_code.hpp"
#include "sim/engine/engine.hpp"

namespace orrery {
inline namespace v1 {

Error::Error(Fault fault, const std::string& message)
    : std::runtime_error(message), fault_(fault) {}
Error::~Error() = default;

InvalidScenario::InvalidScenario(Fault fault, const std::string& message,
                                 std::vector<Diagnostic> diagnostics)
    : Error(fault, message),
      diagnostics_(std::make_shared<const std::vector<Diagnostic>>(std::move(diagnostics))) {}
InvalidScenario::~InvalidScenario() = default;

static_assert(static_cast<int>(Fault::internal) == kExitInternal &&
              static_cast<int>(Fault::usage) == kExitUsage &&
              static_cast<int>(Fault::invalid_scenario) == kExitInvalidScenario &&
              static_cast<int>(Fault::unreadable) == kExitUnreadable &&
              static_cast<int>(Fault::device) == kExitDevice &&
              static_cast<int>(Fault::storage) == kExitStorage &&
              static_cast<int>(Fault::stopped) == kExitInterrupted);

std::vector<Diagnostic> typed(const std::vector<plan::Diagnostic>& diagnostics) {
    std::vector<Diagnostic> all;
    for (const plan::Diagnostic& one : diagnostics)
        all.push_back({one.code, one.file, one.pointer, one.value, one.origin, one.message,
                       one.arithmetic, one.note, one.help, one.line, one.column});
    return all;
}

void throw_invalid(bool unreadable, const std::vector<plan::Diagnostic>& errors) {
    throw InvalidScenario(unreadable ? Fault::unreadable : Fault::invalid_scenario,
                          plan::format_text(errors), typed(errors));
}

void rethrow_as_error() {
    try {
        throw;
    } catch (const Error&) {
        throw;
    } catch (const cli::UsageError& error) {
        throw Error(Fault::usage, error.what());
    } catch (const plan::ScenarioError& error) {
        throw_invalid(false, {error.diagnostic()});
    } catch (const sim::Stopped& error) {
        throw Error(Fault::stopped, error.what());
    } catch (const std::exception& error) {
        const auto refused = cli::machine_failure(error);
        throw Error(static_cast<Fault>(cli::exit_code_of(error, {})),
                    refused ? refused->message : error.what());
    }
}

}  // namespace v1
}  // namespace orrery
