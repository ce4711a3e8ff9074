#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/kernels/eight_bit.hpp"
#include "runtime/kernels/elements.hpp"
#include "tests/gpu/emulation/cublasLt.h"

struct EmulatedLt {};
struct EmulatedPreference {};
struct EmulatedLayout {
    cudaDataType_t type;
    std::int64_t rows, columns, leading;
};
struct EmulatedDescription {
    cublasOperation_t of_a = CUBLAS_OP_N, of_b = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t bias_type = CUDA_R_32F;
    void* bias = nullptr;
    void* aux = nullptr;
    std::int64_t aux_leading = 0;
    const float *a_scale = nullptr, *b_scale = nullptr;
    std::int32_t a_mode = 0, b_mode = 0;
};

namespace {

using orrery::plan::DType;
using orrery::runtime::Buffer;

Buffer buffer(const void* data, cudaDataType_t type) {
    DType dtype = DType::fp32;
    if (type == CUDA_R_16BF) dtype = DType::bf16;
    if (type == CUDA_R_16F) dtype = DType::fp16;
    if (type == CUDA_R_8F_E4M3) dtype = DType::fp8_e4m3;
    if (type == CUDA_R_8F_E5M2) dtype = DType::fp8_e5m2;
    return {const_cast<void*>(data), dtype};
}

float number(const Buffer& from, std::int64_t index) {
    const auto* const bytes = static_cast<const std::uint8_t*>(from.data);
    if (from.dtype == DType::fp8_e4m3) return orrery::runtime::E4M3::value(bytes[index]);
    if (from.dtype == DType::fp8_e5m2) return orrery::runtime::E5M2::value(bytes[index]);
    return load(from, index);
}

// Element [row, column] of the matrix after its operation.
struct Operand {
    Buffer data;
    EmulatedLayout layout;
    cublasOperation_t operation;

    std::int64_t rows() const { return operation == CUBLAS_OP_N ? layout.rows : layout.columns; }
    std::int64_t columns() const { return operation == CUBLAS_OP_N ? layout.columns : layout.rows; }
    float at(std::int64_t row, std::int64_t column) const {
        if (operation == CUBLAS_OP_T) return number(data, column + row * layout.leading);
        return number(data, row + column * layout.leading);
    }
};

// Of an operand of which an outer row has so many numbers of k, in what is summed; as cublasLt.h
// says that they lie. Row by row the blocks of 128 × 128 begin at whole 16 bytes.
struct OperandScales {
    const float* values;
    std::int32_t mode;
    std::int64_t outer, k;

    bool are_of_blocks() const {
        return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F ||
               mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    }
    bool are_aligned() const { return reinterpret_cast<std::uintptr_t>(values) % 16 == 0; }
    float at(std::int64_t i, std::int64_t in) const {
        if (values == nullptr) return 1;
        switch (mode) {
            case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F:
                return values[i];
            case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
                return values[in / 128 * outer + i];
            case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
                return values[i / 128 * (((k + 127) / 128 + 3) / 4 * 4) + in / 128];
            default:
                return values[0];
        }
    }
};

// What Hopper multiplies of eight bits.
bool multiplies_eight_bits(const EmulatedDescription& asked, const EmulatedLayout& a,
                           const EmulatedLayout& b) {
    if (asked.of_a != CUBLAS_OP_T || asked.of_b != CUBLAS_OP_N) return false;
    if (a.rows % 16 != 0 || a.columns % 16 != 0 || b.columns % 16 != 0) return false;
    if (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2) return false;
    const OperandScales of_a{asked.a_scale, asked.a_mode, a.columns, a.rows};
    const OperandScales of_b{asked.b_scale, asked.b_mode, b.columns, b.rows};
    if (!of_a.are_of_blocks() && !of_b.are_of_blocks()) return true;
    const bool squares = asked.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F &&
                         asked.b_mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    return of_a.are_of_blocks() && of_b.are_of_blocks() && !squares && of_a.are_aligned() &&
           of_b.are_aligned() && emulation::compute_capability == 90 &&
           emulation::products().version >= 120900;
}

bool is_of_eight_bits(cudaDataType_t type) {
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

bool adds_bias(cublasLtEpilogue_t epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

bool has_aux(cublasLtEpilogue_t epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_DGELU;
}

// GELU by its tanh, and its slope (Hendrycks and Gimpel 2016, arXiv 1606.08415).
struct GeluPoint {
    double value, slope;
};

GeluPoint gelu_at(double x) {
    const double c = std::sqrt(2 / 3.14159265358979323846);
    const double t = std::tanh(c * (x + 0.044715 * x * x * x));
    return {x / 2 * (1 + t), (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)};
}

// More than any plan has room for.
constexpr std::size_t kTooMuchWorkspace = std::size_t{1} << 40;

cublasLtMatmulHeuristicResult_t found_as(std::uint64_t algorithm) {
    cublasLtMatmulHeuristicResult_t found{};
    found.algo.data[0] = algorithm;
    if (algorithm == emulation::kWithMoreWorkspace) found.workspaceSize = kTooMuchWorkspace;
    if (algorithm == emulation::kNotFound) found.state = CUBLAS_STATUS_NOT_SUPPORTED;
    return found;
}

}  // namespace

namespace emulation {

Products& products() {
    thread_local Products of_thread;
    return of_thread;
}

}  // namespace emulation

std::size_t cublasLtGetVersion() {
    return emulation::products().version;
}

const char* cublasLtGetStatusString(cublasStatus_t) {
    return "emulated";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    *handle = new EmulatedLt;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading_dimension) {
    if (rows == 0 || columns == 0 || leading_dimension < static_cast<std::int64_t>(rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    *layout = new EmulatedLayout{type, static_cast<std::int64_t>(rows),
                                 static_cast<std::int64_t>(columns), leading_dimension};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t,
                                        cudaDataType_t) {
    *description = new EmulatedDescription;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
    delete description;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
    const auto set = [&](auto& field) {
        if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
        std::memcpy(&field, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    };
    switch (attribute) {
        case CUBLASLT_MATMUL_DESC_TRANSA:
            return set(description->of_a);
        case CUBLASLT_MATMUL_DESC_TRANSB:
            return set(description->of_b);
        case CUBLASLT_MATMUL_DESC_EPILOGUE:
            return set(description->epilogue);
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
            return set(description->bias_type);
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
            return set(description->bias);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
            return set(description->aux);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
            return set(description->aux_leading);
        case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
            return set(description->a_scale);
        case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
            return set(description->b_scale);
        case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
            return set(description->a_mode);
        case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
            break;
    }
    return set(description->b_mode);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
    *preference = new EmulatedPreference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void*, std::size_t bytes) {
    const std::size_t expected = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4;
    return bytes == expected ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int requested,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
    ++emulation::products().searches;
    if (requested > 1) ++emulation::products().several_searched;
    *count = 0;
    if (is_of_eight_bits(a->type) && !multiplies_eight_bits(*description, *a, *b))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *count = std::min(requested, static_cast<int>(emulation::kAlgorithms));
    for (int i = 0; i < *count; ++i)
        found[i] = found_as(static_cast<std::uint64_t>(i));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* needs) {
    if (algorithm->data[0] >= emulation::kAlgorithms) return CUBLAS_STATUS_INVALID_VALUE;
    *needs = found_as(algorithm->data[0]);
    return needs->state;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t bytes,
                              cudaStream_t) {
    const std::uint64_t which = algorithm->data[0];
    if (which == emulation::kNotLaunched) return CUBLAS_STATUS_NOT_SUPPORTED;
    emulation::Products& of_thread = emulation::products();
    const cublasLtMatmulHeuristicResult_t needs = found_as(which);
    if (needs.state != CUBLAS_STATUS_SUCCESS || needs.workspaceSize > bytes)
        ++of_thread.wrong_launches;
    emulation::clock_ms += of_thread.ms(which, of_thread.launches.at(which)++);
    const Operand left{buffer(a, layout_a->type), *layout_a, description->of_a};
    const Operand right{buffer(b, layout_b->type), *layout_b, description->of_b};
    const Operand before{buffer(c, layout_c->type), *layout_c, CUBLAS_OP_N};
    if (left.rows() != layout_d->rows || right.columns() != layout_d->columns ||
        left.columns() != right.rows())
        return CUBLAS_STATUS_INVALID_VALUE;
    const bool eight = orrery::plan::is_eight_bit(left.data.dtype);
    if (eight && !multiplies_eight_bits(*description, *layout_a, *layout_b))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (has_aux(description->epilogue) &&
        (description->aux == nullptr || description->aux_leading % 8 != 0 ||
         description->aux_leading < layout_d->rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    // Gradients of biases are of the result's type.
    const bool sums_columns = description->epilogue == CUBLASLT_EPILOGUE_BGRADB;
    if (sums_columns &&
        (description->bias == nullptr || eight || description->bias_type != layout_d->type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const OperandScales a_scales{description->a_scale, description->a_mode, layout_a->columns,
                                 layout_a->rows};
    const OperandScales b_scales{description->b_scale, description->b_mode, layout_b->columns,
                                 layout_b->rows};
    if (eight) ++of_thread.of_eight_bits;
    const float scale = *static_cast<const float*>(alpha);
    const float kept = *static_cast<const float*>(beta);
    emulation::put([=, asked = *description, out = *layout_d] {
        for (std::int64_t column = 0; sums_columns && column < out.columns; ++column) {
            float sum = 0;
            for (std::int64_t k = 0; k < right.rows(); ++k)
                sum += right.at(k, column);
            store(buffer(asked.bias, asked.bias_type), column, sum);
        }
        for (std::int64_t column = 0; column < out.columns; ++column)
            for (std::int64_t row = 0; row < out.rows; ++row) {
                float sum = 0;
                for (std::int64_t i = 0; i < left.columns(); ++i) {
                    const std::int64_t k = which == emulation::kFaster ? left.columns() - 1 - i : i;
                    sum = std::fma(left.at(row, k) * a_scales.at(row, k),
                                   right.at(k, column) * b_scales.at(column, k), sum);
                }
                sum *= scale;
                if (kept != 0) sum += kept * before.at(row, column);
                if (adds_bias(asked.epilogue))
                    sum += load(buffer(asked.bias, asked.bias_type), row);
                const Buffer aux = buffer(asked.aux, out.type);
                const std::int64_t beside = row + column * asked.aux_leading;
                if (asked.epilogue == CUBLASLT_EPILOGUE_DGELU) {
                    sum *= static_cast<float>(gelu_at(load(aux, beside)).slope);
                } else if (asked.epilogue >= CUBLASLT_EPILOGUE_GELU) {
                    if (has_aux(asked.epilogue)) store(aux, beside, sum);
                    sum = static_cast<float>(gelu_at(sum).value);
                }
                store(buffer(d, out.type), row + column * out.leading, sum);
            }
        return cudaSuccess;
    });
    return CUBLAS_STATUS_SUCCESS;
}
