#include "runtime/mpi/mpi_functions.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "liborrery_mpi.so";

struct Opened {
    const MpiFunctions* functions = nullptr;
    std::string problem;
};

// Beside the program, or where an installation has it.
std::string module_path() {
    std::error_code ignored;
    const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    for (const char* place : {"", "../lib/orrery/"})
        if (fs::path path = folder / place / kModule; fs::exists(path, ignored))
            return path.string();
    return "";
}

// Open MPI opens parts of itself, which look for its names among those that all can see.
Opened open_module() {
    const std::string path = module_path();
    if (path.empty()) return {nullptr, std::string(kModule) + " is not there"};
    void* const module = dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL);
    if (module == nullptr) return {nullptr, dlerror()};
    auto* const table = dlsym(module, "orrery_mpi_functions");
    if (table == nullptr) return {nullptr, dlerror()};
    return {static_cast<const MpiFunctions*>(table), ""};
}

const Opened& opened() {
    static const Opened once = open_module();
    return once;
}

}  // namespace

const MpiFunctions* mpi() {
    return opened().functions;
}

std::string why_no_mpi() {
    return opened().problem;
}

}  // namespace orrery::runtime
