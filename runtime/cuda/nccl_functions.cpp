#include "runtime/cuda/nccl_functions.hpp"

#include <type_traits>

#include "runtime/cuda/late_functions.hpp"

namespace orrery::runtime::cuda {

const Nccl& nccl() {
    static const Nccl functions = [] {
        const auto library = open_library("NCCL");
        Nccl taken;
#define ORRERY_TAKE(name) take(*library, "nccl" #name, taken.name);
        ORRERY_NCCL_FUNCTIONS(ORRERY_TAKE)
#undef ORRERY_TAKE
#define ORRERY_TAKE(name) \
    taken.name = library->function<std::remove_pointer_t<decltype(taken.name)>>("nccl" #name);
        ORRERY_LATER_NCCL_FUNCTIONS(ORRERY_TAKE)
#undef ORRERY_TAKE
        return taken;
    }();
    return functions;
}

}  // namespace orrery::runtime::cuda
