// What computes on a device: one method per request, each performed after those called before it.
// Where a device has a queue of its own, a call returns before it is performed.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

class Kernels {
  public:
    Kernels() = default;
    virtual ~Kernels() = default;
    Kernels(const Kernels&) = delete;
    Kernels& operator=(const Kernels&) = delete;

    virtual void gemm(const Gemm&) = 0;
    virtual void attention(const Attention&) = 0;
    virtual void attention_backward(const AttentionBackward&) = 0;
    virtual void attention_product(const AttentionProduct&) = 0;
    virtual void softmax(const Softmax&) = 0;
    virtual void softmax_backward(const SoftmaxBackward&) = 0;
    virtual void dropout(const Dropout&) = 0;
    virtual void dropout_backward(const DropoutBackward&) = 0;
    virtual void norm(const Norm&) = 0;
    virtual void norm_backward(const NormBackward&) = 0;
    // A backend without these says so of their ops, and is not asked.
    virtual void qk_norm(const QkNorm&);
    virtual void qk_norm_sums(const QkNormSums&);
    virtual void qk_norm_backward(const QkNormBackward&);
    virtual void activation(const Activation&) = 0;
    virtual void activation_backward(const ActivationBackward&) = 0;
    virtual void rope(const Rope&) = 0;
    virtual void rope_backward(const Rope&) = 0;
    virtual void residual_add(const ResidualAdd&) = 0;
    virtual void add(const Add&) = 0;
    virtual void bias_gradient(const BiasGradient&) = 0;
    virtual void embedding(const Embedding&) = 0;
    virtual void embedding_backward(const EmbeddingBackward&) = 0;
    virtual void cross_entropy_max(const CrossEntropyMax&) = 0;
    virtual void cross_entropy_sum(const CrossEntropySum&) = 0;
    virtual void cross_entropy(const CrossEntropy&) = 0;
    virtual void cross_entropy_backward(const CrossEntropyBackward&) = 0;
    virtual void gradient_norm(const GradientNorm&) = 0;
    virtual void unscale(const Unscale&) = 0;
    virtual void update_loss_scale(const UpdateLossScale&) = 0;
    virtual void loss_share(const LossShare&) = 0;
    virtual void judge_loss(const JudgeLoss&) = 0;
    virtual void adamw(const AdamW&) = 0;
    virtual void cast(const Cast&) = 0;
    virtual void rearrange(const Rearrange&) = 0;
    virtual void fill(const Fill&) = 0;

    // From the host's memory, which stays as it is until the step has ended, to the device's.
    virtual void bring(std::span<const std::int32_t> from, void* to) = 0;

    // The values where kernels can read them, for as long as this object lives. At any time before
    // the first request that names them.
    virtual const double* keep(std::span<const double> values) = 0;
};

}  // namespace orrery::runtime
