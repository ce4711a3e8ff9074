#include "runtime/cuda/lt_gemm.hpp"

#include <bit>
#include <string>

#include "plan/check.hpp"
#include "runtime/cuda/cublas_lt.hpp"
#include "runtime/cuda/launches.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime::cuda {
namespace {

void check(cublasStatus_t answer, const std::string& what) {
    if (answer != CUBLAS_STATUS_SUCCESS)
        throw DeviceError("cuBLASLt " + what + ": " + cublas_lt().GetStatusString(answer));
}

cudaDataType_t type_of(plan::DType dtype) {
    switch (dtype) {
        case plan::DType::bf16:
            return CUDA_R_16BF;
        case plan::DType::fp16:
            return CUDA_R_16F;
        case plan::DType::fp32:
            return CUDA_R_32F;
        case plan::DType::fp8_e4m3:
            return CUDA_R_8F_E4M3;
        case plan::DType::fp8_e5m2:
            return CUDA_R_8F_E5M2;
        default:
            break;
    }
    ORRERY_CHECK(false, "products on CUDA are of fp32, bf16, fp16 or eight bits");
}

// cuBLASLt's heuristics ask for no more than 256.
std::int64_t alignment_of(const void* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const int zeros = address == 0 ? 8 : std::countr_zero(address);
    return std::int64_t{1} << (zeros < 8 ? zeros : 8);
}

std::string text_of(const Gemm& op) {
    return "product of " + std::string(plan::name(op.a.dtype)) + " to " +
           std::string(plan::name(op.c.dtype)) + ", m " + std::to_string(op.m) + ", n " +
           std::to_string(op.n) + ", k " + std::to_string(op.k);
}

// cuBLASLt's matrices are column-major, and a row-major matrix read so is its transpose. So it is
// asked for cᵀ[n,m] = op(b)·op(a): b comes first.
struct Sides {
    std::int64_t b_rows, b_columns, a_rows, a_columns;  // as they lie, column-major
    cublasOperation_t b, a;
};

Sides sides_of(const Gemm& op) {
    switch (op.form) {
        case GemmForm::forward:
            return {op.k, op.n, op.k, op.m, CUBLAS_OP_T, CUBLAS_OP_N};
        case GemmForm::input_gradient:
            return {op.n, op.k, op.k, op.m, CUBLAS_OP_N, CUBLAS_OP_N};
        case GemmForm::weight_gradient:
            break;
    }
    return {op.n, op.k, op.m, op.k, CUBLAS_OP_N, CUBLAS_OP_T};
}

struct Layout {
    cublasLtMatrixLayout_t handle = nullptr;

    Layout(plan::DType dtype, std::int64_t rows, std::int64_t columns) {
        check(cublas_lt().MatrixLayoutCreate(&handle, type_of(dtype),
                                             static_cast<std::uint64_t>(rows),
                                             static_cast<std::uint64_t>(columns), rows),
              "layout");
    }
    ~Layout() { cublas_lt().MatrixLayoutDestroy(handle); }
    Layout(const Layout&) = delete;
    Layout& operator=(const Layout&) = delete;
};

struct Description {
    cublasLtMatmulDesc_t handle = nullptr;

    explicit Description(const Sides& sides) {
        check(cublas_lt().MatmulDescCreate(&handle, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description");
        set(CUBLASLT_MATMUL_DESC_TRANSA, sides.b);
        set(CUBLASLT_MATMUL_DESC_TRANSB, sides.a);
    }
    ~Description() { cublas_lt().MatmulDescDestroy(handle); }
    Description(const Description&) = delete;
    Description& operator=(const Description&) = delete;

    template <typename T>
    void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
        check(cublas_lt().MatmulDescSetAttribute(handle, attribute, &value, sizeof value),
              "attribute of a product");
    }
};

struct Preference {
    cublasLtMatmulPreference_t handle = nullptr;

    Preference() { check(cublas_lt().MatmulPreferenceCreate(&handle), "preference"); }
    ~Preference() { cublas_lt().MatmulPreferenceDestroy(handle); }
    Preference(const Preference&) = delete;
    Preference& operator=(const Preference&) = delete;

    template <typename T>
    void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
        check(cublas_lt().MatmulPreferenceSetAttribute(handle, attribute, &value, sizeof value),
              "attribute of a preference");
    }
};

bool is_scaled(const Gemm& op) {
    return plan::is_eight_bit(op.a.dtype);
}

// One scale for each row of both operands, as they lie; else one for each operand.
bool has_scales_of_rows(const Gemm& op) {
    if (!is_scaled(op)) return false;
    const auto one_for = [](const Scales& scales, std::int64_t rows, std::int64_t columns) {
        return scales.rows == rows && scales.columns == columns;
    };
    const bool by_rows = one_for(op.a_scales, 1, op.k) && one_for(op.b_scales, 1, op.k);
    ORRERY_CHECK(by_rows || (one_for(op.a_scales, op.a_scales.rows, op.a_scales.columns) &&
                             op.a_scales.stride == 1 && op.b_scales.stride == 1),
                 "eight bits on CUDA have a scale for a tensor, or for a row");
    return by_rows;
}

// b comes first, as above.
void set_scales(const Gemm& op, bool by_rows, Description& description) {
    const auto first = [by_rows](const Scales& scales) -> const void* {
        return static_cast<const float*>(scales.values.data) + (by_rows ? scales.first_row : 0);
    };
    description.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, first(op.b_scales));
    description.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, first(op.a_scales));
    if (!by_rows) return;
    const std::int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    description.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
    description.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
}

}  // namespace

struct LtGemm::Choice {
    Description description;
    Layout a, b, c;
    cublasLtMatmulAlgo_t algorithm{};

    explicit Choice(const Gemm& op, const Sides& sides)
        : description(sides),
          a(op.a.dtype, sides.a_rows, sides.a_columns),
          b(op.b.dtype, sides.b_rows, sides.b_columns),
          c(op.c.dtype, op.n, op.m) {}
};

LtGemm::LtGemm(Workspace workspace) : workspace_(workspace) {
    check(cublas_lt().Create(&handle_), "start");
}

LtGemm::~LtGemm() {
    choices_.clear();
    cublas_lt().Destroy(handle_);
}

LtGemm::Choice& LtGemm::choice_for(const Gemm& op, bool with_bias) {
    const Key key{op.form,
                  op.m,
                  op.n,
                  op.k,
                  op.a.dtype,
                  op.b.dtype,
                  op.c.dtype,
                  has_scales_of_rows(op),
                  with_bias,
                  op.accumulate,
                  alignment_of(op.a.data),
                  alignment_of(op.b.data),
                  alignment_of(op.c.data)};
    std::unique_ptr<Choice>& choice = choices_[key];
    if (choice) return *choice;
    auto made = std::make_unique<Choice>(op, sides_of(op));
    if (with_bias) {
        made->description.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        made->description.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(op.bias.dtype));
        made->description.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, op.bias.data);
    }
    if (is_scaled(op)) set_scales(op, key.by_rows, made->description);
    Preference preference;
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                   static_cast<std::uint64_t>(workspace_.bytes));
    // Where k is shared out, partial sums are kept in fp32 and added in one order.
    preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                   static_cast<std::uint32_t>(key.alignment_b));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                   static_cast<std::uint32_t>(key.alignment_a));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                   static_cast<std::uint32_t>(key.alignment_c));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                   static_cast<std::uint32_t>(key.alignment_c));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    check(cublas_lt().MatmulAlgoGetHeuristic(handle_, made->description.handle, made->b.handle,
                                             made->a.handle, made->c.handle, made->c.handle,
                                             preference.handle, 1, &found, &count),
          text_of(op));
    if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS)
        throw DeviceError("cuBLASLt has no algorithm for a " + text_of(op) + " in " +
                          std::to_string(workspace_.bytes) + " bytes of workspace");
    made->algorithm = found.algo;
    choice = std::move(made);
    return *choice;
}

void LtGemm::perform(const Gemm& op, cudaStream_t stream) {
    if (op.m == 0 || op.n == 0) return;
    ORRERY_CHECK(op.k > 0, "a product sums over something");
    ORRERY_CHECK(op.a_stride == 0 && op.b_stride == 0, "rows that follow one another");
    // cuBLASLt adds a bias of the result's type; one of another is added behind, before which an
    // fp32 result has not been rounded.
    const bool with_bias = op.bias && op.bias.dtype == op.c.dtype;
    ORRERY_CHECK(!op.bias || with_bias || op.c.dtype == plan::DType::fp32,
                 "a bias of another type than a 16-bit result");
    Choice& choice = choice_for(op, with_bias);
    if (with_bias)
        choice.description.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                               static_cast<const void*>(op.bias.data));
    if (is_scaled(op)) set_scales(op, has_scales_of_rows(op), choice.description);
    const float factor = static_cast<float>(op.factor), kept = op.accumulate ? 1.0F : 0.0F;
    check(cublas_lt().Matmul(handle_, choice.description.handle, &factor, op.b.data,
                             choice.b.handle, op.a.data, choice.a.handle, &kept, op.c.data,
                             choice.c.handle, op.c.data, choice.c.handle, &choice.algorithm,
                             workspace_.memory, static_cast<std::size_t>(workspace_.bytes), stream),
          text_of(op));
    if (op.bias && !with_bias) add_bias(op, stream);
}

void LtGemm::perform_rows(const Gemm& op, cudaStream_t stream) {
    if (op.m == 0 || op.n == 0) return;
    constexpr std::int64_t kTile = 128;
    Gemm tiles = op;
    std::int64_t& rows = op.form == GemmForm::weight_gradient ? tiles.k : tiles.m;
    rows = (rows + kTile - 1) / kTile * kTile;
    const Choice& choice = choice_for(tiles, false);
    const Sides sides = sides_of(op);
    const Layout a(op.a.dtype, sides.a_rows, sides.a_columns);
    const Layout b(op.b.dtype, sides.b_rows, sides.b_columns);
    const Layout c(op.c.dtype, op.n, op.m);
    const float factor = static_cast<float>(op.factor), kept = op.accumulate ? 1.0F : 0.0F;
    const cublasStatus_t answer = cublas_lt().Matmul(
        handle_, choice.description.handle, &factor, op.b.data, b.handle, op.a.data, a.handle,
        &kept, op.c.data, c.handle, op.c.data, c.handle, &choice.algorithm, workspace_.memory,
        static_cast<std::size_t>(workspace_.bytes), stream);
    if (answer == CUBLAS_STATUS_NOT_SUPPORTED || answer == CUBLAS_STATUS_INVALID_VALUE)
        return perform(op, stream);  // an algorithm that is for whole tiles alone
    check(answer, text_of(op));
}

}  // namespace orrery::runtime::cuda
