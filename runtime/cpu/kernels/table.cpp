#include "runtime/cpu/kernels/functions.hpp"

#define ORRERY_TEXT_OF(token) #token
#define ORRERY_TEXT(macro) ORRERY_TEXT_OF(macro)

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

const KernelTable table = {
    .instruction_set = ORRERY_TEXT(ORRERY_INSTRUCTION_SET),
    .gemm = gemm,
    .attention = attention,
    .attention_backward = attention_backward,
    .attention_product = attention_product,
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .dropout = dropout,
    .dropout_backward = dropout_backward,
    .norm = norm,
    .norm_backward = norm_backward,
    .qk_norm = qk_norm,
    .qk_norm_sums = qk_norm_sums,
    .qk_norm_backward = qk_norm_backward,
    .activation = activation,
    .activation_backward = activation_backward,
    .rope = rope,
    .rope_backward = rope_backward,
    .residual_add = residual_add,
    .add = add,
    .bias_gradient = bias_gradient,
    .embedding = embedding,
    .embedding_backward = embedding_backward,
    .cross_entropy_max = cross_entropy_max,
    .cross_entropy_sum = cross_entropy_sum,
    .cross_entropy = cross_entropy,
    .cross_entropy_backward = cross_entropy_backward,
    .gradient_norm = gradient_norm,
    .unscale = unscale,
    .adamw = adamw,
    .cast = cast,
    .rearrange = rearrange,
    .fill = fill,
};

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
