// The emulated cuBLASLt's functions, as the backend asks for them.
#include "runtime/cuda/cublas_lt.hpp"

namespace orrery::runtime::cuda {

const CublasLt& cublas_lt() {
#define ORRERY_TAKE(name) &cublasLt##name,
    static const CublasLt functions = {ORRERY_CUBLAS_LT_FUNCTIONS(ORRERY_TAKE)};
#undef ORRERY_TAKE
    return functions;
}

}  // namespace orrery::runtime::cuda
