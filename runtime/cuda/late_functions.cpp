#include "runtime/cuda/late_functions.hpp"

#include <cstdlib>

#include "runtime/machine/find_library.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime::cuda {

std::unique_ptr<LoadedLibrary> open_library(std::string_view name) {
    SystemLoader loader;
    FoundLibrary found = find_library(loader, name, python_package_folders(std::getenv));
    if (!found.library) throw DeviceError(why_missing(found.facts) + "; " + found.facts.remedy);
    return std::move(found.library);
}

void lacks(const LoadedLibrary& library, const std::string& function) {
    throw DeviceError(library.path() + " has no function " + function);
}

}  // namespace orrery::runtime::cuda
