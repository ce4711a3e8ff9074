// add, cast, fill, dropout, dropout_backward, add_bias: a thread per element, or
// per eight.
#include "runtime/cuda/at_once.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/dropout_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// Sums of the gradient norm are fp64, and nothing else is.
__device__ double* wide(const Buffer& buffer) {
    return static_cast<double*>(buffer.data);
}

__global__ void add_wide_kernel(Add op) {
    for (std::int64_t i = first_of_thread(); i < op.elements; i += threads_of_grid())
        wide(op.y)[i] = wide(op.a)[i] + wide(op.b)[i];
}
__global__ void cast_wide_kernel(Cast op) {
    for (std::int64_t i = first_of_thread(); i < op.elements; i += threads_of_grid())
        wide(op.y)[i] = wide(op.x)[i];
}

template <int kAtOnce>
__global__ void add_kernel(Add op) {
    for (std::int64_t i = first_of_thread() * kAtOnce; i < op.elements;
         i += threads_of_grid() * kAtOnce) {
        Elements<kAtOnce> sum = load_at_once<kAtOnce>(op.a, i);
        const Elements<kAtOnce> more = load_at_once<kAtOnce>(op.b, i);
        ORRERY_UNROLLED
        for (int j = 0; j < kAtOnce; ++j)
            sum.of[j] += more.of[j];
        store_at_once<kAtOnce>(op.y, i, sum);
    }
}

template <int kAtOnce>
__global__ void cast_kernel(Cast op) {
    for (std::int64_t i = first_of_thread() * kAtOnce; i < op.elements;
         i += threads_of_grid() * kAtOnce)
        store_at_once<kAtOnce>(op.y, i, load_at_once<kAtOnce>(op.x, i));
}

__global__ void fill_kernel(Fill op) {
    const auto value = static_cast<float>(op.value);
    for (std::int64_t i = first_of_thread(); i < op.elements; i += threads_of_grid())
        if (op.x.dtype == plan::DType::fp64)
            wide(op.x)[i] = op.value;
        else
            store(op.x, i, value);
}

__global__ void dropout_kernel(Dropout op) {
    auto* const mask = static_cast<std::uint8_t*>(op.mask.data);
    for (std::int64_t i = first_of_thread(); i < op.elements; i += threads_of_grid()) {
        const float factor = dropout_factor(op.key, global_index(op.index, i));
        if (mask != nullptr) mask[i] = factor != 0 ? 1 : 0;
        store(op.y, i, load(op.x, i) * factor);
    }
}

__global__ void dropout_backward_kernel(DropoutBackward op) {
    const auto* const mask = static_cast<const std::uint8_t*>(op.mask.data);
    const float kept = kept_factor(op.key);
    for (std::int64_t i = first_of_thread(); i < op.elements; i += threads_of_grid()) {
        const float by_mask = mask != nullptr && mask[i] != 0 ? kept : 0.0F;
        const float factor =
            mask != nullptr ? by_mask : dropout_factor(op.key, global_index(op.index, i));
        store(op.dx, i, load(op.dy, i) * factor);
    }
}

__global__ void rearrange_kernel(Rearrange op) {
    const std::int64_t elements = op.counts[0] * op.counts[1] * op.run;
    for (std::int64_t e = first_of_thread(); e < elements; e += threads_of_grid()) {
        const std::int64_t piece = e / op.run, of_run = e % op.run;
        const std::int64_t i = piece / op.counts[1], j = piece % op.counts[1];
        store(op.to, op.to_first + i * op.to_strides[0] + j * op.to_strides[1] + of_run,
              load(op.from,
                   op.from_first + i * op.from_strides[0] + j * op.from_strides[1] + of_run));
    }
}

__global__ void add_bias_kernel(Gemm op) {
    for (std::int64_t row = blockIdx.x; row < op.m; row += gridDim.x)
        for (std::int64_t column = threadIdx.x; column < op.n; column += blockDim.x) {
            const std::int64_t at = row * op.n + column;
            store(op.c, at, load(op.c, at) + load(op.bias, column));
        }
}

}  // namespace

void add(const Add& op, cudaStream_t stream) {
    if (!all_wide({op.a, op.b, op.y})) check_types({op.a, op.b, op.y});
    if (op.y.dtype == plan::DType::fp64)
        return launch("add", add_wide_kernel, {blocks_of_threads(op.elements)}, stream, op);
    with_at_once(op.elements, {op.a, op.b, op.y}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("add", add_kernel<kAtOnce>, {blocks_of_threads(op.elements / kAtOnce)}, stream, op);
    });
}

void cast(const Cast& op, cudaStream_t stream) {
    const bool packs = op.y.dtype == plan::DType::fp8_e4m3;
    if (packs || op.x.dtype == plan::DType::fp8_e4m3) {
        check_types({packs ? op.x : op.y});
        return packs ? pack(op, stream) : unpack(op, stream);
    }
    if (!all_wide({op.x, op.y})) check_types({op.x, op.y});
    if (op.y.dtype == plan::DType::fp64)
        return launch("cast", cast_wide_kernel, {blocks_of_threads(op.elements)}, stream, op);
    with_at_once(op.elements, {op.x, op.y}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("cast", cast_kernel<kAtOnce>, {blocks_of_threads(op.elements / kAtOnce)}, stream,
               op);
    });
}

void rearrange(const Rearrange& op, cudaStream_t stream) {
    check_types({op.from, op.to});
    launch("rearrange", rearrange_kernel, {blocks_of_threads(op.counts[0] * op.counts[1] * op.run)},
           stream, op);
}

void fill(const Fill& op, cudaStream_t stream) {
    if (!all_wide({op.x})) check_types({op.x});
    launch("fill", fill_kernel, {blocks_of_threads(op.elements)}, stream, op);
}

void dropout(const Dropout& op, cudaStream_t stream) {
    check_types({op.x, op.y});
    launch("dropout", dropout_kernel, {blocks_of_threads(op.elements)}, stream, op);
}

void dropout_backward(const DropoutBackward& op, cudaStream_t stream) {
    check_types({op.dy, op.dx});
    launch("dropout_backward", dropout_backward_kernel, {blocks_of_threads(op.elements)}, stream,
           op);
}

void add_bias(const Gemm& op, cudaStream_t stream) {
    launch("add_bias", add_bias_kernel, {blocks_for(op.m)}, stream, op);
}

}  // namespace orrery::runtime::cuda
