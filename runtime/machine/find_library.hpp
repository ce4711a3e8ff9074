// Libraries that a run on GPUs, or over several machines, takes from where it runs: the program
// names none of them when it is linked, so it starts without them and can say which is missing. The
// table of them, with the oldest version of each that will do, is in find_library.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/machine/library_loader.hpp"
#include "runtime/machine/machine.hpp"

namespace orrery::runtime {

struct FoundLibrary {
    std::unique_ptr<LoadedLibrary> library;  // null: none that would do
    Library facts;
};

// "cuBLASLt", "NCCL", "cuDNN" or "MPI": what the system's loader finds by name, else what packages
// of Python bring (`folders`), else what lies in CUDA's own folder; the first that loads and is new
// enough.
FoundLibrary find_library(LibraryLoader& loader, std::string_view name,
                          const std::vector<std::string>& folders);

// All of them, in the table's order.
std::vector<std::string> names_of_libraries();

// Folders of Python packages that exist: of each interpreter in PATH, of the user, of the system
// and those of PYTHONPATH; each once. `variable` answers as std::getenv.
std::vector<std::string> python_package_folders(
    const std::function<const char*(const char*)>& variable);

// What could be done about a library that is not there or does not do: one line.
std::string why_missing(const Library& library);

}  // namespace orrery::runtime
