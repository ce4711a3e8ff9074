// The kernels, one function per request of runtime/kernels/requests.hpp: each puts the request into
// the stream and returns. Products are in lt_gemm.hpp.
#pragma once

#include <cuda_runtime.h>

#include "runtime/kernels/requests.hpp"

namespace orrery::runtime::cuda {

void attention(const Attention&, cudaStream_t);
void attention_backward(const AttentionBackward&, cudaStream_t);
void attention_product(const AttentionProduct&, cudaStream_t);
void softmax(const Softmax&, cudaStream_t);
void softmax_backward(const SoftmaxBackward&, cudaStream_t);
void dropout(const Dropout&, cudaStream_t);
void dropout_backward(const DropoutBackward&, cudaStream_t);
void norm(const Norm&, cudaStream_t);
void norm_backward(const NormBackward&, cudaStream_t);
void activation(const Activation&, cudaStream_t);
void activation_backward(const ActivationBackward&, cudaStream_t);
void rope(const Rope&, cudaStream_t);
void rope_backward(const Rope&, cudaStream_t);
void residual_add(const ResidualAdd&, cudaStream_t);
void add(const Add&, cudaStream_t);
void bias_gradient(const BiasGradient&, cudaStream_t);
void embedding(const Embedding&, cudaStream_t);
void embedding_backward(const EmbeddingBackward&, cudaStream_t);
void cross_entropy_max(const CrossEntropyMax&, cudaStream_t);
void cross_entropy_sum(const CrossEntropySum&, cudaStream_t);
void cross_entropy(const CrossEntropy&, cudaStream_t);
void cross_entropy_backward(const CrossEntropyBackward&, cudaStream_t);
void gradient_norm(const GradientNorm&, cudaStream_t);
void unscale(const Unscale&, cudaStream_t);
void update_loss_scale(const UpdateLossScale&, cudaStream_t);
void loss_share(const LossShare&, cudaStream_t);
void judge_loss(const JudgeLoss&, cudaStream_t);
void adamw(const AdamW&, cudaStream_t);
void cast(const Cast&, cudaStream_t);
void rearrange(const Rearrange&, cudaStream_t);
void fill(const Fill&, cudaStream_t);

// c[m,n] += bias[n], for products whose bias has a type of its own.
void add_bias(const Gemm&, cudaStream_t);

}  // namespace orrery::runtime::cuda
