#include "runtime/cuda/cuda_kernels.hpp"

#include <algorithm>
#include <initializer_list>

#include "plan/check.hpp"
#include "runtime/cuda/cuda_error.hpp"

namespace orrery::runtime::cuda {
namespace {

// runtime/kernels/cuda_capability.hpp refuses everything else before a run begins.
void check_types(std::initializer_list<Buffer> buffers) {
    for (const Buffer& buffer : buffers)
        ORRERY_CHECK(!buffer || buffer.dtype == plan::DType::fp32 ||
                         buffer.dtype == plan::DType::bf16 || buffer.dtype == plan::DType::fp16,
                     "CUDA kernels compute with fp32, bf16 and fp16");
}

// Statistics of gradients, which are summed, and copied, as they are.
bool all_wide(std::initializer_list<Buffer> buffers) {
    return std::all_of(buffers.begin(), buffers.end(),
                       [](const Buffer& buffer) { return buffer.dtype == plan::DType::fp64; });
}

}  // namespace

void MemoryDeleter::operator()(void* memory) const {
    cudaFree(memory);
}

DeviceMemory allocate(std::int64_t bytes) {
    void* memory = nullptr;
    const auto size = static_cast<std::size_t>(bytes);
    const cudaError_t answer = cudaMalloc(&memory, size);
    if (answer == cudaErrorMemoryAllocation) {
        std::size_t free = 0, total = 0;
        cudaGetLastError();
        check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        throw DeviceError("cudaMalloc of " + std::to_string(bytes) + " bytes: the device has " +
                          std::to_string(free) + " free of " + std::to_string(total));
    }
    check(answer, "cudaMalloc of " + std::to_string(bytes) + " bytes");
    DeviceMemory owned(memory);
    check(cudaMemset(memory, 0, size), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return owned;
}

// cudaMemcpy from pageable memory may return while the last of it is on its way, and the backend's
// streams do not wait for the default one.
void copy_to_device(void* to, const void* from, std::size_t bytes) {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
    check(cudaStreamSynchronize(nullptr), "copy to the device");
}

CudaKernels::CudaKernels(cudaStream_t stream, Workspace workspace)
    : stream_(stream), workspace_(workspace) {}

void CudaKernels::gemm(const Gemm& op) {
    check_types({op.a, op.b, op.bias, op.c});
    if (!products_) products_ = std::make_unique<LtGemm>(workspace_);
    products_->perform(op, stream_);
}

void CudaKernels::attention(const Attention& op) {
    check_types({op.qkv, op.context, op.lse});
    cuda::attention(op, stream_);
}

void CudaKernels::attention_backward(const AttentionBackward& op) {
    check_types({op.dcontext, op.qkv, op.context, op.lse, op.dqkv});
    cuda::attention_backward(op, stream_);
}

void CudaKernels::attention_product(const AttentionProduct& op) {
    check_types({op.qkv, op.maps, op.context, op.dqkv});
    cuda::attention_product(op, stream_);
}

void CudaKernels::softmax(const Softmax& op) {
    check_types({op.scores, op.probabilities});
    cuda::softmax(op, stream_);
}

void CudaKernels::softmax_backward(const SoftmaxBackward& op) {
    check_types({op.dprobabilities, op.probabilities, op.dscores});
    cuda::softmax_backward(op, stream_);
}

void CudaKernels::dropout(const Dropout& op) {
    check_types({op.x, op.y});
    cuda::dropout(op, stream_);
}

void CudaKernels::dropout_backward(const DropoutBackward& op) {
    check_types({op.dy, op.dx});
    cuda::dropout_backward(op, stream_);
}

void CudaKernels::norm(const Norm& op) {
    check_types({op.x, op.weight, op.bias, op.y, op.stats});
    cuda::norm(op, stream_);
}

void CudaKernels::norm_backward(const NormBackward& op) {
    check_types({op.dy, op.x, op.weight, op.stats, op.residual, op.dx, op.dweight, op.dbias});
    cuda::norm_backward(op, stream_);
}

void CudaKernels::activation(const Activation& op) {
    check_types({op.x, op.y});
    cuda::activation(op, stream_);
}

void CudaKernels::activation_backward(const ActivationBackward& op) {
    check_types({op.dy, op.told_by, op.dx});
    cuda::activation_backward(op, stream_);
}

void CudaKernels::rope(const Rope& op) {
    check_types({op.qkv});
    cuda::rope(op, stream_);
}

void CudaKernels::rope_backward(const Rope& op) {
    check_types({op.qkv});
    cuda::rope_backward(op, stream_);
}

void CudaKernels::residual_add(const ResidualAdd& op) {
    check_types({op.branch, op.x, op.positions, op.biases[0], op.biases[1], op.y});
    cuda::residual_add(op, stream_);
}

void CudaKernels::add(const Add& op) {
    if (!all_wide({op.a, op.b, op.y})) check_types({op.a, op.b, op.y});
    cuda::add(op, stream_);
}

void CudaKernels::bias_gradient(const BiasGradient& op) {
    check_types({op.dy, op.dbias});
    cuda::bias_gradient(op, stream_);
}

void CudaKernels::embedding(const Embedding& op) {
    check_types({op.table, op.y});
    cuda::embedding(op, stream_);
}

void CudaKernels::embedding_backward(const EmbeddingBackward& op) {
    check_types({op.dy, op.dtable});
    cuda::embedding_backward(op, stream_);
}

void CudaKernels::cross_entropy_max(const CrossEntropyMax& op) {
    check_types({op.logits, op.largest});
    cuda::cross_entropy_max(op, stream_);
}

void CudaKernels::cross_entropy_sum(const CrossEntropySum& op) {
    check_types({op.logits, op.largest, op.sums});
    cuda::cross_entropy_sum(op, stream_);
}

void CudaKernels::cross_entropy(const CrossEntropy& op) {
    check_types({op.sums, op.loss});
    cuda::cross_entropy(op, stream_);
}

void CudaKernels::cross_entropy_backward(const CrossEntropyBackward& op) {
    check_types({op.largest, op.sums, op.logits});
    cuda::cross_entropy_backward(op, stream_);
}

void CudaKernels::gradient_norm(const GradientNorm& op) {
    check_types({op.gradients});
    cuda::gradient_norm(op, stream_);
}

void CudaKernels::unscale(const Unscale& op) {
    check_types({op.gradients});
    cuda::unscale(op, stream_);
}

void CudaKernels::update_loss_scale(const UpdateLossScale& op) {
    cuda::update_loss_scale(op, stream_);
}

void CudaKernels::loss_share(const LossShare& op) {
    check_types({op.loss});
    cuda::loss_share(op, stream_);
}

void CudaKernels::judge_loss(const JudgeLoss& op) {
    cuda::judge_loss(op, stream_);
}

void CudaKernels::adamw(const AdamW& op) {
    check_types({op.gradients, op.m, op.v, op.master, op.parameters});
    cuda::adamw(op, stream_);
}

void CudaKernels::cast(const Cast& op) {
    if (!all_wide({op.x, op.y})) check_types({op.x, op.y});
    cuda::cast(op, stream_);
}

void CudaKernels::rearrange(const Rearrange& op) {
    check_types({op.from, op.to});
    cuda::rearrange(op, stream_);
}

void CudaKernels::fill(const Fill& op) {
    if (!all_wide({op.x})) check_types({op.x});
    cuda::fill(op, stream_);
}

void CudaKernels::bring(std::span<const std::int32_t> from, void* to) {
    check(cudaMemcpyAsync(to, from.data(), from.size_bytes(), cudaMemcpyHostToDevice, stream_),
          "copy of tokens to the device");
}

const double* CudaKernels::keep(std::span<const double> values) {
    DeviceMemory memory = allocate(static_cast<std::int64_t>(values.size_bytes()));
    copy_to_device(memory.get(), values.data(), values.size_bytes());
    kept_.push_back(std::move(memory));
    return static_cast<const double*>(kept_.back().get());
}

}  // namespace orrery::runtime::cuda
