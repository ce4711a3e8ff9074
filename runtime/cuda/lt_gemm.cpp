#include "runtime/cuda/lt_gemm.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "plan/check.hpp"
#include "runtime/cuda/cublas_lt.hpp"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/product_timing.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime::cuda {
namespace {

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

std::string text_of(const Gemm& op, Epilogue epilogue = Epilogue::none) {
    const char* const along = epilogue == Epilogue::none            ? ""
                              : epilogue == Epilogue::bias_gradient ? " that sums a bias's gradient"
                                                                    : " that takes GELU along";
    return "product of " + std::string(plan::name(op.a.dtype)) + " to " +
           std::string(plan::name(op.c.dtype)) + along + ", m " + std::to_string(op.m) + ", n " +
           std::to_string(op.n) + ", k " + std::to_string(op.k);
}

Epilogue epilogue_of(const ActivatedGemm& op) {
    ORRERY_CHECK(op.form == ActivationForm::gelu_tanh,
                 "cuBLASLt has epilogues for GELU by its tanh");
    if (op.product.form != GemmForm::forward) return Epilogue::gelu_slope;
    return op.before ? Epilogue::gelu_kept : Epilogue::gelu;
}

cublasLtEpilogue_t lt_epilogue(Epilogue epilogue, bool with_bias) {
    switch (epilogue) {
        case Epilogue::none:
            return with_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
        case Epilogue::gelu:
            return with_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
        case Epilogue::gelu_kept:
            return with_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
        case Epilogue::gelu_slope:
            return CUBLASLT_EPILOGUE_DGELU;
        case Epilogue::bias_gradient:
            break;
    }
    return CUBLASLT_EPILOGUE_BGRADB;  // a comes second, as below
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

bool is_refusal(cublasStatus_t answer) {
    return answer == CUBLAS_STATUS_NOT_SUPPORTED || answer == CUBLAS_STATUS_INVALID_VALUE;
}

// cuBLASLt adds a bias of the result's type; one of another is added behind, before which an fp32
// result has not been rounded.
bool is_added_within(const Gemm& op) {
    const bool within = op.bias && op.bias.dtype == op.c.dtype;
    ORRERY_CHECK(!op.bias || within || op.c.dtype == plan::DType::fp32,
                 "a bias of another type than a 16-bit result");
    return within;
}

std::size_t bytes_of(const Buffer& matrix, std::int64_t rows, std::int64_t columns) {
    return static_cast<std::size_t>(rows * columns * plan::size_bytes(matrix.dtype));
}

// What the product is added to, in c's type; null: nothing.
Buffer addend_of(const Gemm& op) {
    ORRERY_CHECK(!op.residual || (!op.accumulate && op.residual.dtype == op.c.dtype),
                 "a residual of the result's type, and nothing else there");
    return op.accumulate ? op.c : op.residual;
}

// The epilogue overwrites: sums that are to be added to others stand apart first.
Buffer sums_of(const BiasGradientGemm& op, ScratchMemory& scratch) {
    if (!op.product.accumulate) return op.dbias;
    const std::int64_t bytes = op.product.m * plan::size_bytes(op.dbias.dtype);
    return {scratch.numbers<std::byte>(bytes), op.dbias.dtype};
}

}  // namespace

void check(cublasStatus_t answer, const std::string& what) {
    if (answer != CUBLAS_STATUS_SUCCESS)
        throw DeviceError("cuBLASLt " + what + ": " + cublas_lt().GetStatusString(answer));
}

// A product and what its kernel does of it.
struct LtGemm::Asked {
    Gemm op;
    Epilogue epilogue = Epilogue::none;
    Buffer beside{};  // of c's type; null: nothing
    LtScales scales{};

    explicit Asked(const Gemm& gemm) : op(gemm) {}
    Asked(const Gemm& gemm, const LtScales& of_eight_bits) : op(gemm), scales(of_eight_bits) {}
    Asked(const ActivatedGemm& activated)
        : op(activated.product), epilogue(epilogue_of(activated)), beside(activated.before) {
        ORRERY_CHECK(!op.bias || op.bias.dtype == op.c.dtype,
                     "a bias of the type of what a function is taken of");
    }
    Asked(const BiasGradientGemm& gradients, const Buffer& sums)
        : op(gradients.product), epilogue(Epilogue::bias_gradient), beside(sums) {
        ORRERY_CHECK(
            op.form == GemmForm::weight_gradient && op.factor == 1 && beside.dtype == op.c.dtype,
            "a bias's gradient of the rows and of the type of its weight's");
    }

    std::size_t bytes_beside() const {
        const std::int64_t elements = epilogue == Epilogue::bias_gradient ? op.m : op.m * op.n;
        return static_cast<std::size_t>(elements * plan::size_bytes(beside.dtype));
    }
};

struct LtGemm::Choice {
    Description description;
    Layout a, b, c;
    cublasLtMatmulAlgo_t algorithm{};

    explicit Choice(const Asked& asked, const Product& product)
        : Choice(asked, product, sides_of(asked.op)) {}

    // Of one more product of the kind.
    void point_at(const Asked& asked, const Product& product) {
        const Gemm& op = asked.op;
        if (product.with_bias)
            description.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                            static_cast<const void*>(op.bias.data));
        if (asked.beside)
            description.set(asked.epilogue == Epilogue::bias_gradient
                                ? CUBLASLT_MATMUL_DESC_BIAS_POINTER
                                : CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                            static_cast<const void*>(asked.beside.data));
        if (asked.scales.scaling == Scaling::none) return;
        // b comes first, as above.
        description.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, asked.scales.b);
        description.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, asked.scales.a);
    }

  private:
    Choice(const Asked& asked, const Product& product, const Sides& sides)
        : description(sides),
          a(asked.op.a.dtype, sides.a_rows, sides.a_columns),
          b(asked.op.b.dtype, sides.b_rows, sides.b_columns),
          c(asked.op.c.dtype, asked.op.n, asked.op.m) {
        const cublasLtEpilogue_t epilogue = lt_epilogue(asked.epilogue, product.with_bias);
        if (epilogue != CUBLASLT_EPILOGUE_DEFAULT)
            description.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
        if (product.with_bias)
            description.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(asked.op.bias.dtype));
        if (asked.epilogue == Epilogue::bias_gradient)
            description.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(asked.beside.dtype));
        else if (asked.beside)
            description.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, asked.op.n);
        if (asked.scales.mode_of_a() != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) {
            description.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, asked.scales.mode_of_b());
            description.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, asked.scales.mode_of_a());
        }
        point_at(asked, product);
    }
};

LtGemm::LtGemm(Workspace workspace, ProductChoices* file) : workspace_(workspace), file_(file) {
    check(cublas_lt().Create(&handle_), "start");
    version_ = lt_version();
}

LtGemm::~LtGemm() {
    choices_.clear();
    cublas_lt().Destroy(handle_);
}

Product LtGemm::product_of(const Asked& asked) const {
    const Gemm& op = asked.op;
    return {op.form,
            op.m,
            op.n,
            op.k,
            op.a.dtype,
            op.b.dtype,
            op.c.dtype,
            asked.scales.scaling,
            is_added_within(op),
            static_cast<bool>(addend_of(op)),
            alignment_of(op.a.data),
            alignment_of(op.b.data),
            std::min(alignment_of(op.c.data), alignment_of(op.residual.data)),
            workspace_.bytes,
            asked.epilogue,
            asked.beside ? alignment_of(asked.beside.data) : 0};
}

// As the heuristics order them, by the time that they expect; at least one, but of eight bits.
std::vector<cublasLtMatmulAlgo_t> LtGemm::search(const Asked& asked, const Product& product,
                                                 const Choice& choice, int most) const {
    Preference preference;
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                   static_cast<std::uint64_t>(workspace_.bytes));
    // Where k is shared out, partial sums are kept in fp32 and added in one order.
    preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                   static_cast<std::uint32_t>(product.alignment_b));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                   static_cast<std::uint32_t>(product.alignment_a));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                   static_cast<std::uint32_t>(product.alignment_c));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                   static_cast<std::uint32_t>(product.alignment_c));
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t answer = cublas_lt().MatmulAlgoGetHeuristic(
        handle_, choice.description.handle, choice.b.handle, choice.a.handle, choice.c.handle,
        choice.c.handle, preference.handle, most, found.data(), &count);
    if (is_scaled(asked.op) && is_refusal(answer)) return {};
    check(answer, text_of(asked.op, asked.epilogue));
    found.resize(static_cast<std::size_t>(count));
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (const cublasLtMatmulHeuristicResult_t& result : found)
        if (result.state == CUBLAS_STATUS_SUCCESS &&
            result.workspaceSize <= static_cast<std::size_t>(workspace_.bytes))
            algorithms.push_back(result.algo);
    if (algorithms.empty() && !is_scaled(asked.op)) throw_without(asked);
    return algorithms;
}

void LtGemm::throw_without(const Asked& asked) const {
    const char* const without = asked.epilogue == Epilogue::none ? ""
                                : asked.epilogue == Epilogue::bias_gradient
                                    ? "; --set training.bias_gradient_kernel=own needs none"
                                    : "; --set training.activation_kernel=own needs none";
    throw DeviceError("cuBLASLt has no algorithm for a " + text_of(asked.op, asked.epilogue) +
                      " in " + std::to_string(workspace_.bytes) + " bytes of workspace" + without);
}

LtGemm::Choice* LtGemm::choice_for(const Asked& asked) {
    const Product product = product_of(asked);
    const auto known = choices_.find(product);
    if (known != choices_.end()) {
        if (known->second) known->second->point_at(asked, product);
        return known->second.get();
    }
    auto made = std::make_unique<Choice>(asked, product);
    const auto found = search(asked, product, *made, 1);
    return keep(product, std::move(made),
                found.empty() ? std::nullopt : std::optional(found.front()));
}

LtGemm::Choice* LtGemm::keep(const Product& product, std::unique_ptr<Choice> made,
                             const std::optional<cublasLtMatmulAlgo_t>& algorithm) {
    std::unique_ptr<Choice>& choice = choices_[product];
    if (!algorithm) return nullptr;
    choice = std::move(made);
    choice->algorithm = *algorithm;
    return choice.get();
}

std::optional<Scaling> LtGemm::scaling_of(const Gemm& op) const {
    if (!is_scaled(op)) return Scaling::none;
    if (op.k == 0 || op.a_stride > 0 || op.b_stride > 0) return std::nullopt;
    return lt_scaling(op, version_);
}

void LtGemm::prepare(const Gemm& op, ScratchMemory& scratch, cudaStream_t stream) {
    if (op.m == 0 || op.n == 0) return;
    if (const std::optional<Scaling> scaling = scaling_of(op))
        prepare(Asked(op, lay_scales(op, *scaling, scratch, stream)), stream);
}

void LtGemm::prepare(const ActivatedGemm& op, cudaStream_t stream) {
    prepare(Asked(op), stream);
}

void LtGemm::prepare(const BiasGradientGemm& op, ScratchMemory& scratch, cudaStream_t stream) {
    prepare(Asked(op, sums_of(op, scratch)), stream);
}

void LtGemm::prepare(const Asked& asked, cudaStream_t stream) {
    if (asked.op.m == 0 || asked.op.n == 0) return;
    const Product product = product_of(asked);
    if (file_ == nullptr) {
        choice_for(asked);
    } else if (!choices_.contains(product)) {
        auto made = std::make_unique<Choice>(asked, product);
        const auto algorithm = find_or_time(asked, product, *made, stream);
        keep(product, std::move(made), algorithm);
    }
}

std::optional<cublasLtMatmulAlgo_t> LtGemm::find_or_time(const Asked& asked, const Product& product,
                                                         const Choice& choice,
                                                         cudaStream_t stream) {
    const ProductChoice* known = file_->find(product);
    if (known == nullptr) {
        const std::optional<ProductChoice> timed = time(asked, product, choice, stream);
        if (!timed) return std::nullopt;
        known = &file_->settle(product, *timed);
    }
    static_assert(sizeof known->algorithm == sizeof(cublasLtMatmulAlgo_t));
    const auto algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(known->algorithm);
    require_sound(asked, choice, algorithm);
    return algorithm;
}

// What stands in a file may have been written by anybody.
void LtGemm::require_sound(const Asked& asked, const Choice& choice,
                           const cublasLtMatmulAlgo_t& algorithm) const {
    cublasLtMatmulHeuristicResult_t needs{};
    const cublasStatus_t answer = cublas_lt().MatmulAlgoCheck(
        handle_, choice.description.handle, choice.b.handle, choice.a.handle, choice.c.handle,
        choice.c.handle, &algorithm, &needs);
    const bool fits = needs.workspaceSize <= static_cast<std::size_t>(workspace_.bytes);
    if (answer == CUBLAS_STATUS_SUCCESS && fits) return;
    throw DeviceError(
        file_->path() + ": has an algorithm for a " + text_of(asked.op, asked.epilogue) + " that " +
        (answer == CUBLAS_STATUS_SUCCESS
             ? "needs more workspace than there is"
             : std::string("cuBLASLt refuses: ") + cublas_lt().GetStatusString(answer)));
}

// On the memory of the step, in which afterwards is what was there before. Null: there is none.
std::optional<ProductChoice> LtGemm::time(const Asked& asked, const Product& product,
                                          const Choice& choice, cudaStream_t stream) const {
    constexpr int kMost = 16;
    const Gemm& op = asked.op;
    const auto algorithms = search(asked, product, choice, kMost);
    if (algorithms.empty()) return std::nullopt;
    std::optional<BorrowedMemory> beside;
    if (asked.beside) beside.emplace(asked.beside.data, asked.bytes_beside(), stream);
    BorrowedMemory a(op.a.data, bytes_of(op.a, op.m, op.k), stream);
    BorrowedMemory b(op.b.data, bytes_of(op.b, op.n, op.k), stream);
    BorrowedMemory c(op.c.data, bytes_of(op.c, op.m, op.n), stream);
    a.fill(static_cast<std::size_t>(plan::size_bytes(op.a.dtype)));
    b.fill(static_cast<std::size_t>(plan::size_bytes(op.b.dtype)));
    const std::vector<double> us = time_in_turn(
        algorithms.size(),
        [&](std::size_t i) {
            if (launch(op, choice, algorithms[i], stream) == CUBLAS_STATUS_SUCCESS) return true;
            cudaGetLastError();  // so that the next call is not blamed for it
            return false;
        },
        stream);
    c.put_back();
    b.put_back();
    a.put_back();
    if (beside) beside->put_back();
    const auto fastest = std::min_element(us.begin(), us.end());
    if (!std::isfinite(*fastest)) {
        if (is_scaled(op)) return std::nullopt;
        throw_without(asked);
    }
    const auto first =
        std::find_if(us.begin(), us.end(), [](double t) { return std::isfinite(t); });
    return ProductChoice{std::bit_cast<std::array<std::byte, sizeof(cublasLtMatmulAlgo_t)>>(
                             algorithms[static_cast<std::size_t>(fastest - us.begin())]),
                         *fastest, *first};
}

cublasStatus_t LtGemm::launch(const Gemm& op, const Choice& choice,
                              const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) const {
    const Buffer addend = addend_of(op);
    const float factor = static_cast<float>(op.factor), kept = addend ? 1.0F : 0.0F;
    return cublas_lt().Matmul(handle_, choice.description.handle, &factor, op.b.data,
                              choice.b.handle, op.a.data, choice.a.handle, &kept,
                              addend ? addend.data : op.c.data, choice.c.handle, op.c.data,
                              choice.c.handle, &algorithm, workspace_.memory,
                              static_cast<std::size_t>(workspace_.bytes), stream);
}

void LtGemm::perform(const Gemm& op, ScratchMemory& scratch, cudaStream_t stream) {
    if (op.m == 0 || op.n == 0) return;
    ORRERY_CHECK(is_scaled(op) || (op.k > 0 && op.a_stride == 0 && op.b_stride == 0),
                 "a product that sums over something, of rows that follow one another");
    const std::optional<Scaling> scaling = scaling_of(op);
    if (!scaling) return multiply_eight_bits(op, stream);
    const Choice* const choice = choice_for(Asked(op, lay_scales(op, *scaling, scratch, stream)));
    if (choice == nullptr) return multiply_eight_bits(op, stream);
    check(launch(op, *choice, choice->algorithm, stream), text_of(op));
    if (op.bias && !is_added_within(op)) add_bias(op, stream);
}

void LtGemm::perform(const ActivatedGemm& op, cudaStream_t stream) {
    const Asked asked(op);
    if (asked.op.m == 0 || asked.op.n == 0) return;
    const Choice& choice = *choice_for(asked);
    check(launch(asked.op, choice, choice.algorithm, stream), text_of(asked.op, asked.epilogue));
}

void LtGemm::perform(const BiasGradientGemm& op, ScratchMemory& scratch, cudaStream_t stream) {
    const Gemm& product = op.product;
    if (product.m == 0 || product.n == 0) return;
    const Asked asked(op, sums_of(op, scratch));
    const Choice& choice = *choice_for(asked);
    check(launch(product, choice, choice.algorithm, stream), text_of(product, asked.epilogue));
    if (product.accumulate) add({product.m, op.dbias, asked.beside, op.dbias}, stream);
}

void LtGemm::perform_rows(const Gemm& op, ScratchMemory& scratch, cudaStream_t stream) {
    if (op.m == 0 || op.n == 0) return;
    const std::optional<Scaling> scaling = scaling_of(op);
    if (!scaling) return multiply_eight_bits(op, stream);
    constexpr std::int64_t kTile = 128;
    Gemm tiles = op;
    std::int64_t& rows = op.form == GemmForm::weight_gradient ? tiles.k : tiles.m;
    rows = (rows + kTile - 1) / kTile * kTile;
    const Choice* const choice =
        choice_for(Asked(tiles, lay_scales(op, *scaling, scratch, stream)));
    if (choice == nullptr) return multiply_eight_bits(op, stream);
    const Sides sides = sides_of(op);
    const Layout a(op.a.dtype, sides.a_rows, sides.a_columns);
    const Layout b(op.b.dtype, sides.b_rows, sides.b_columns);
    const Layout c(op.c.dtype, op.n, op.m);
    const float factor = static_cast<float>(op.factor), kept = op.accumulate ? 1.0F : 0.0F;
    const cublasStatus_t answer = cublas_lt().Matmul(
        handle_, choice->description.handle, &factor, op.b.data, b.handle, op.a.data, a.handle,
        &kept, op.c.data, c.handle, op.c.data, c.handle, &choice->algorithm, workspace_.memory,
        static_cast<std::size_t>(workspace_.bytes), stream);
    if (is_refusal(answer))  // an algorithm that is for whole tiles alone
        return is_scaled(op) ? multiply_eight_bits(op, stream) : perform(op, scratch, stream);
    check(answer, text_of(op));
}

}  // namespace orrery::runtime::cuda
