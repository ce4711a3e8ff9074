// The functions of cuBLASLt that are called; see late_functions.hpp.
#pragma once

#include <cublasLt.h>

#include <string>

namespace orrery::runtime::cuda {

// Less the "cublasLt" that all their names begin with.
#define ORRERY_CUBLAS_LT_FUNCTIONS(EACH) \
    EACH(Create)                         \
    EACH(Destroy)                        \
    EACH(GetStatusString)                \
    EACH(GetVersion)                     \
    EACH(Matmul)                         \
    EACH(MatmulAlgoCheck)                \
    EACH(MatmulAlgoGetHeuristic)         \
    EACH(MatmulDescCreate)               \
    EACH(MatmulDescDestroy)              \
    EACH(MatmulDescSetAttribute)         \
    EACH(MatmulPreferenceCreate)         \
    EACH(MatmulPreferenceDestroy)        \
    EACH(MatmulPreferenceSetAttribute)   \
    EACH(MatrixLayoutCreate)             \
    EACH(MatrixLayoutDestroy)

struct CublasLt {
#define ORRERY_MEMBER(name) decltype(&cublasLt##name) name = nullptr;
    ORRERY_CUBLAS_LT_FUNCTIONS(ORRERY_MEMBER)
#undef ORRERY_MEMBER
};

// Throws DeviceError where cuBLASLt is not there or does not do.
const CublasLt& cublas_lt();

// Throws DeviceError unless it is success.
void check(cublasStatus_t answer, const std::string& what);

}  // namespace orrery::runtime::cuda
