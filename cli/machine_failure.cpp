#include "cli/machine_failure.hpp"

#include <filesystem>
#include <new>
#include <system_error>

#include <fmt/format.h>

#include "plan/exit_code.hpp"

namespace orrery::cli {

std::optional<MachineFailure> machine_failure(const std::exception& error) {
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
        return MachineFailure{kExitDevice,
                              "the machine gave no more memory: `ulimit -v`, the memory limit of "
                              "the control group and `free` say what there is"};
    if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
        const std::string path = file->path1().string();
        return MachineFailure{kExitStorage,
                              path.empty() ? fmt::format("the current folder cannot be had: {}",
                                                         file->code().message())
                                           : fmt::format("{}: {}", path, file->code().message())};
    }
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
        return MachineFailure{kExitDevice,
                              "the machine gave no further thread: `ulimit -u`, `ulimit -v` and "
                              "the limit of the control group say how many there may be"};
    return std::nullopt;
}

}  // namespace orrery::cli
