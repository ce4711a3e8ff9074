// The kernels of runtime/cuda on one stream. From one thread at a time, whose current device is the
// stream's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/lt_gemm.hpp"
#include "runtime/kernels/kernels.hpp"

namespace orrery::runtime::cuda {

struct MemoryDeleter {
    void operator()(void* memory) const;
};
using DeviceMemory = std::unique_ptr<void, MemoryDeleter>;

// Of cudaMalloc, zeroed.
DeviceMemory allocate(std::int64_t bytes);

// Returns once it is done: no stream can come before it.
void copy_to_device(void* to, const void* from, std::size_t bytes);

class CudaKernels final : public Kernels {
  public:
    // The workspace is for this stream alone.
    CudaKernels(cudaStream_t stream, Workspace workspace);

    void gemm(const Gemm&) override;
    void attention(const Attention&) override;
    void attention_backward(const AttentionBackward&) override;
    void attention_product(const AttentionProduct&) override;
    void softmax(const Softmax&) override;
    void softmax_backward(const SoftmaxBackward&) override;
    void dropout(const Dropout&) override;
    void dropout_backward(const DropoutBackward&) override;
    void norm(const Norm&) override;
    void norm_backward(const NormBackward&) override;
    void activation(const Activation&) override;
    void activation_backward(const ActivationBackward&) override;
    void rope(const Rope&) override;
    void rope_backward(const Rope&) override;
    void residual_add(const ResidualAdd&) override;
    void add(const Add&) override;
    void bias_gradient(const BiasGradient&) override;
    void embedding(const Embedding&) override;
    void embedding_backward(const EmbeddingBackward&) override;
    void cross_entropy_max(const CrossEntropyMax&) override;
    void cross_entropy_sum(const CrossEntropySum&) override;
    void cross_entropy(const CrossEntropy&) override;
    void cross_entropy_backward(const CrossEntropyBackward&) override;
    void gradient_norm(const GradientNorm&) override;
    void unscale(const Unscale&) override;
    void update_loss_scale(const UpdateLossScale&) override;
    void loss_share(const LossShare&) override;
    void judge_loss(const JudgeLoss&) override;
    void adamw(const AdamW&) override;
    void cast(const Cast&) override;
    void rearrange(const Rearrange&) override;
    void fill(const Fill&) override;

    void bring(std::span<const std::int32_t> from, void* to) override;
    const double* keep(std::span<const double> values) override;

  private:
    cudaStream_t stream_;
    Workspace workspace_;
    std::unique_ptr<LtGemm> products_;  // from the first one on: few streams have any
    std::vector<DeviceMemory> kept_;
};

}  // namespace orrery::runtime::cuda
