// The libraries that a run on GPUs, or over several machines, takes: whether they are found, and
// which version they say they are.
#include <cstdlib>

#include "runtime/machine/find_library.hpp"
#include "runtime/machine/inspect.hpp"

namespace orrery::runtime {

std::vector<Library> inspect_libraries(LibraryLoader& loader) {
    const std::vector<std::string> folders = python_package_folders(std::getenv);
    std::vector<Library> libraries;
    for (const std::string& name : names_of_libraries())
        libraries.push_back(find_library(loader, name, folders).facts);
    return libraries;
}

}  // namespace orrery::runtime
