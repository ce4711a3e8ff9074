#include "runtime/cuda/nccl_functions.hpp"

#include "runtime/cuda/late_functions.hpp"

namespace orrery::runtime::cuda {

const Nccl& nccl() {
    static const Nccl functions = [] {
        const auto library = open_library("NCCL");
        Nccl taken;
#define ORRERY_TAKE(name) take(*library, "nccl" #name, taken.name);
        ORRERY_NCCL_FUNCTIONS(ORRERY_TAKE)
#undef ORRERY_TAKE
        return taken;
    }();
    return functions;
}

}  // namespace orrery::runtime::cuda
