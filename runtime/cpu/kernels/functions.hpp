// The kernels of one instruction set, as their table names them.
#pragma once

#include "runtime/cpu/kernels.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

extern const KernelTable table;

void gemm(const Gemm&, Team& team);
void attention(const Attention&, Team& team);
void attention_backward(const AttentionBackward&, Team& team);
void attention_product(const AttentionProduct&, Team& team);
void softmax(const Softmax&, Team& team);
void softmax_backward(const SoftmaxBackward&, Team& team);
void dropout(const Dropout&, Team& team);
void dropout_backward(const DropoutBackward&, Team& team);
void norm(const Norm&, Team& team);
void norm_backward(const NormBackward&, Team& team);
void qk_norm(const QkNorm&, Team& team);
void qk_norm_sums(const QkNormSums&, Team& team);
void qk_norm_backward(const QkNormBackward&, Team& team);
void activation(const Activation&, Team& team);
void activation_backward(const ActivationBackward&, Team& team);
void rope(const Rope&, Team& team);
void rope_backward(const Rope&, Team& team);
void residual_add(const ResidualAdd&, Team& team);
void add(const Add&, Team& team);
void bias_gradient(const BiasGradient&, Team& team);
void embedding(const Embedding&, Team& team);
void embedding_backward(const EmbeddingBackward&, Team& team);
void cross_entropy_max(const CrossEntropyMax&, Team& team);
void cross_entropy_sum(const CrossEntropySum&, Team& team);
void cross_entropy(const CrossEntropy&, Team& team);
void cross_entropy_backward(const CrossEntropyBackward&, Team& team);
void gradient_norm(const GradientNorm&, Team& team);
void unscale(const Unscale&, Team& team);
void adamw(const AdamW&, Team& team);
void cast(const Cast&, Team& team);
void rearrange(const Rearrange&, Team& team);
void pack(const Cast&, Team& team);    // into blocks with scales
void unpack(const Cast&, Team& team);  // … and out of them
void fill(const Fill&, Team& team);

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
