// As much of cuBLASLt as runtime/cuda asks for, by plain loops over column-major matrices: what its
// documentation says a call computes, sums in fp32. Tests that the backend asks for what it means.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/gpu/emulation/cuda_runtime.h"

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS,
    CUBLAS_STATUS_INVALID_VALUE,
    CUBLAS_STATUS_NOT_SUPPORTED
};
enum cudaDataType_t { CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F, CUDA_R_8F_E4M3, CUDA_R_8F_E5M2 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F };
enum cublasLtEpilogue_t {
    CUBLASLT_EPILOGUE_DEFAULT,
    CUBLASLT_EPILOGUE_BIAS,
    CUBLASLT_EPILOGUE_BGRADB,
    CUBLASLT_EPILOGUE_GELU,
    CUBLASLT_EPILOGUE_GELU_BIAS,
    CUBLASLT_EPILOGUE_GELU_AUX,
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
    CUBLASLT_EPILOGUE_DGELU
};
enum cublasLtMatmulDescAttributes_t {
    CUBLASLT_MATMUL_DESC_TRANSA,
    CUBLASLT_MATMUL_DESC_TRANSB,
    CUBLASLT_MATMUL_DESC_EPILOGUE,
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
    CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
    CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
    CUBLASLT_MATMUL_DESC_B_SCALE_MODE
};
enum cublasLtMatmulMatrixScale_t {
    CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F = 0,
    CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F = 3,
    CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F = 4,
    CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F = 5
};
enum cublasLtMatmulPreferenceAttributes_t {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
};
enum cublasLtReductionScheme_t { CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };

using cublasLtHandle_t = struct EmulatedLt*;
using cublasLtMatrixLayout_t = struct EmulatedLayout*;
using cublasLtMatmulDesc_t = struct EmulatedDescription*;
using cublasLtMatmulPreference_t = struct EmulatedPreference*;
struct cublasLtMatmulAlgo_t {
    std::uint64_t data[8];  // the first says which
};
struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    std::size_t workspaceSize = 0;
    cublasStatus_t state = CUBLAS_STATUS_SUCCESS;
};

// In the order in which they are found. Those that a backend must not choose claim to be fastest.
namespace emulation {

enum Algorithm : std::uint64_t {
    kFirst,
    kWithMoreWorkspace,  // than there may be
    kNotLaunched,        // what asks for it is told that it is not supported
    kNotFound,           // found with another status than success
    kFaster,             // sums from the other end: other bits
    kSlowest,
    kAlgorithms
};

// What the caller's thread has asked for, and how long what it asks for takes: a product by an
// algorithm that has been launched so many times before on this thread.
struct Products {
    std::int64_t searches = 0, several_searched = 0;  // of them those for more than one algorithm
    std::array<std::int64_t, kAlgorithms> launches{};
    std::int64_t wrong_launches = 0;  // of what the search said was none
    std::int64_t of_eight_bits = 0;   // launches
    std::function<double(std::uint64_t algorithm, std::int64_t before)> ms =
        [](std::uint64_t algorithm, std::int64_t) {
            return std::array{8.0, 1.0, 1.0, 1.0, 4.0, 9.0}[algorithm];
        };
    std::size_t version = 130100;
};
Products& products();

}  // namespace emulation

const char* cublasLtGetStatusString(cublasStatus_t status);
std::size_t cublasLtGetVersion();
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading_dimension);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t,
                                        cudaDataType_t);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* found, int* count);
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* needs);
// d = alpha·op(a)·op(b) + beta·c, + bias over the rows of d. Numbers of eight bits as on Hopper:
// rows of a by columns of b alone, in whole 16 bytes; scales of blocks there alone, and from 12.9
// on, not of 128 × 128 on both sides. What is not multiplied has no algorithm either.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t layout_a,
                              const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t bytes, cudaStream_t stream);
