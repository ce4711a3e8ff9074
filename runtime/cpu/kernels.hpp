// The CPU's kernels: one function per request, in a table per instruction set. They are the fast
// path of the embedded runtime and the oracle of every other backend.
//
// A result never depends on the number of threads. An element type that a kernel does not support
// stops the program (ORRERY_CHECK).
#pragma once

#include "runtime/cpu/team.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

struct KernelTable {
    const char* instruction_set;
    void (*gemm)(const Gemm&, Team&);
    void (*attention)(const Attention&, Team&);
    void (*attention_backward)(const AttentionBackward&, Team&);
    void (*attention_product)(const AttentionProduct&, Team&);
    void (*softmax)(const Softmax&, Team&);
    void (*softmax_backward)(const SoftmaxBackward&, Team&);
    void (*dropout)(const Dropout&, Team&);
    void (*dropout_backward)(const DropoutBackward&, Team&);
    void (*norm)(const Norm&, Team&);
    void (*norm_backward)(const NormBackward&, Team&);
    void (*qk_norm)(const QkNorm&, Team&);
    void (*qk_norm_sums)(const QkNormSums&, Team&);
    void (*qk_norm_backward)(const QkNormBackward&, Team&);
    void (*activation)(const Activation&, Team&);
    void (*activation_backward)(const ActivationBackward&, Team&);
    void (*rope)(const Rope&, Team&);
    void (*rope_backward)(const Rope&, Team&);
    void (*residual_add)(const ResidualAdd&, Team&);
    void (*add)(const Add&, Team&);
    void (*bias_gradient)(const BiasGradient&, Team&);
    void (*embedding)(const Embedding&, Team&);
    void (*embedding_backward)(const EmbeddingBackward&, Team&);
    void (*cross_entropy_max)(const CrossEntropyMax&, Team&);
    void (*cross_entropy_sum)(const CrossEntropySum&, Team&);
    void (*cross_entropy)(const CrossEntropy&, Team&);
    void (*cross_entropy_backward)(const CrossEntropyBackward&, Team&);
    void (*gradient_norm)(const GradientNorm&, Team&);
    void (*unscale)(const Unscale&, Team&);
    void (*adamw)(const AdamW&, Team&);
    void (*cast)(const Cast&, Team&);
    void (*rearrange)(const Rearrange&, Team&);
    void (*fill)(const Fill&, Team&);
};

// The fastest that this processor can run: v3 where it has AVX2, FMA, F16C and BMI2.
const KernelTable& kernels();

// Any x86-64's; and x86-64-v3's, or null where this processor lacks it.
const KernelTable& baseline_kernels();
const KernelTable* v3_kernels();

}  // namespace orrery::runtime
