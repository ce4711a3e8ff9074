// What the machine refused while a command ran: memory, a thread, a folder. The standard library
// says these in words that name neither what was wanted nor where to look.
#pragma once

#include <exception>
#include <optional>
#include <string>

namespace orrery::cli {

struct MachineFailure {
    int exit_code = 0;
    std::string message;  // without a full stop
};

// Nothing where the error is not the machine's.
std::optional<MachineFailure> machine_failure(const std::exception& error);

}  // namespace orrery::cli
