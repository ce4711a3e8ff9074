#include "runtime/cuda/cublas_lt.hpp"

#include "runtime/cuda/late_functions.hpp"

namespace orrery::runtime::cuda {

const CublasLt& cublas_lt() {
    static const CublasLt functions = [] {
        const auto library = open_library("cuBLASLt");
        CublasLt taken;
#define ORRERY_TAKE(name) take(*library, "cublasLt" #name, taken.name);
        ORRERY_CUBLAS_LT_FUNCTIONS(ORRERY_TAKE)
#undef ORRERY_TAKE
        return taken;
    }();
    return functions;
}

}  // namespace orrery::runtime::cuda
