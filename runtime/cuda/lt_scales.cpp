#include "runtime/cuda/lt_scales.hpp"

#include "plan/ops/eight_bit.hpp"
#include "runtime/cuda/cublas_lt.hpp"
#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/launches.hpp"

namespace orrery::runtime::cuda {
namespace {

constexpr std::int64_t kBlock = plan::kScaleBlock;
constexpr int kHopper = 90;
constexpr std::size_t kFirstWithBlocks = 120900;
constexpr std::int64_t kAtOnce = 16 / static_cast<std::int64_t>(sizeof(float));

// As a matrix lies.
struct Extent {
    std::int64_t rows, columns;
};

Extent extent_of_a(const Gemm& op) {
    if (op.form == GemmForm::weight_gradient) return {op.k, op.m};
    return {op.m, op.k};
}
Extent extent_of_b(const Gemm& op) {
    if (op.form == GemmForm::forward) return {op.n, op.k};
    return {op.k, op.n};
}

bool is_one(const Scales& scales, const Extent& matrix) {
    return scales.first_row % scales.rows + matrix.rows <= scales.rows &&
           matrix.columns <= scales.columns;
}
bool are_of_rows(const Scales& scales, const Extent& matrix) {
    return scales.rows == 1 && scales.columns == matrix.columns && scales.stride == 1;
}
bool are_of_runs(const Scales& scales) {
    return scales.rows == 1 && scales.columns == kBlock;
}
bool are_of_squares(const Scales& scales) {
    return scales.rows == kBlock && scales.columns == kBlock && scales.first_row % kBlock == 0;
}

std::int64_t blocks_of(std::int64_t n) {
    return (n + kBlock - 1) / kBlock;
}
std::int64_t padded(std::int64_t n) {
    return (n + kAtOnce - 1) / kAtOnce * kAtOnce;
}

// Of 1 × 128, or of 128 × 128; what of k has no whole block has one all the same.
LaidScales laid(const Scales& from, const Extent& matrix, float* to) {
    const std::int64_t across = blocks_of(matrix.columns);
    if (are_of_runs(from)) return {from, matrix.rows, across, true, matrix.rows, to};
    return {from, blocks_of(matrix.rows), across, false, padded(across), to};
}
std::int64_t elements_of(const LaidScales& scales) {
    return (scales.by_columns ? scales.across : scales.down) * scales.stride;
}

const void* first_of(const Scales& scales) {
    return static_cast<const float*>(scales.values.data) + scales.index(0, 0);
}

}  // namespace

LtVersion lt_version() {
    int device = 0, major = 0, minor = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "capability");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "capability");
    return {10 * major + minor, cublas_lt().GetVersion()};
}

std::optional<Scaling> lt_scaling(const Gemm& op, const LtVersion& version) {
    const Scales &a = op.a_scales, &b = op.b_scales;
    if (a.values.dtype != plan::DType::fp32 || b.values.dtype != plan::DType::fp32)
        return std::nullopt;
    if (is_one(a, extent_of_a(op)) && is_one(b, extent_of_b(op))) return Scaling::tensors;
    if (op.form != GemmForm::forward) return std::nullopt;
    if (are_of_rows(a, extent_of_a(op)) && are_of_rows(b, extent_of_b(op))) return Scaling::rows;
    const bool there = version.compute_capability == kHopper && version.library >= kFirstWithBlocks;
    const bool aligned = op.m % kAtOnce == 0 && op.n % kAtOnce == 0;
    if (!there || !aligned || !are_of_runs(a)) return std::nullopt;
    if (are_of_runs(b)) return Scaling::runs;
    if (are_of_squares(b)) return Scaling::runs_and_squares;
    return std::nullopt;
}

std::int32_t LtScales::mode_of_a() const {
    switch (scaling) {
        case Scaling::rows:
            return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
        case Scaling::runs:
        case Scaling::runs_and_squares:
            return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
        case Scaling::none:
        case Scaling::tensors:
            break;
    }
    return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

std::int32_t LtScales::mode_of_b() const {
    return scaling == Scaling::runs_and_squares ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                                                : mode_of_a();
}

LtScales lay_scales(const Gemm& op, Scaling scaling, ScratchMemory& scratch, cudaStream_t stream) {
    if (scaling == Scaling::none) return {};
    if (scaling == Scaling::tensors || scaling == Scaling::rows)
        return {scaling, first_of(op.a_scales), first_of(op.b_scales)};
    LaidScales a = laid(op.a_scales, extent_of_a(op), nullptr);
    LaidScales b = laid(op.b_scales, extent_of_b(op), nullptr);
    a.to = scratch.numbers<float>(padded(elements_of(a)) + elements_of(b));
    b.to = a.to + padded(elements_of(a));
    lay_scales(a, stream);
    lay_scales(b, stream);
    return {scaling, a.to, b.to};
}

}  // namespace orrery::runtime::cuda
