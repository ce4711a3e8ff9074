#include "runtime/mpi/mpi_functions.hpp"

#include <dlfcn.h>

namespace orrery::runtime {
namespace {

struct Opened {
    const MpiFunctions* functions = nullptr;
    std::string problem;
};

// Open MPI opens parts of itself, which look for its names among those that all can see.
Opened open_module() {
    void* const module = dlopen("liborrery_mpi.so", RTLD_LAZY | RTLD_GLOBAL);
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
