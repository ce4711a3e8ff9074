// Functions of a library of the machine that this runs on, opened when they are first asked for: a
// program with CUDA starts on a machine without it, and says what is missing. Headers give the
// functions' types; nothing is linked.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/machine/library_loader.hpp"

namespace orrery::runtime::cuda {

// As find_library.hpp names and finds it; throws DeviceError where there is none that will do.
std::unique_ptr<LoadedLibrary> open_library(std::string_view name);

[[noreturn]] void lacks(const LoadedLibrary& library, const std::string& function);

template <typename Function>
void take(const LoadedLibrary& library, const std::string& name, Function*& function) {
    function = library.function<Function>(name.c_str());
    if (function == nullptr) lacks(library, name);
}

}  // namespace orrery::runtime::cuda
