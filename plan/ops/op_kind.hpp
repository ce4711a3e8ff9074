// The list of all ops, once: an op's spelling on disk and the struct that declares it. The enum,
// the count, the variant (plan/ops/spec.hpp), text, JSON and the reference page (docs/ops.md)
// follow from it, as XLA's opcodes do from HLO_OPCODE_LIST. A spelling on disk never changes its
// meaning; the order is that of the reference page.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orrery::plan {

// clang-format off
#define ORRERY_OPS(OP)                                        \
    OP(gemm, Gemm)                                            \
    OP(batched_gemm, BatchedGemm)                             \
    OP(attention, Attention)                                  \
    OP(attention_backward, AttentionBackward)                 \
    OP(attention_block, AttentionBlock)                       \
    OP(attention_block_backward, AttentionBlockBackward)      \
    OP(softmax, Softmax)                                      \
    OP(softmax_backward, SoftmaxBackward)                     \
    OP(dropout, Dropout)                                      \
    OP(dropout_backward, DropoutBackward)                     \
    OP(norm, Normalize)                                       \
    OP(norm_backward, NormalizeBackward)                      \
    OP(activation, Activate)                                  \
    OP(activation_backward, ActivateBackward)                 \
    OP(qk_norm, NormalizeQk)                                  \
    OP(qk_norm_backward, NormalizeQkBackward)                 \
    OP(qk_norm_sums, NormalizeQkSums)                         \
    OP(rope, Rope)                                            \
    OP(rope_backward, RopeBackward)                           \
    OP(temper_queries, TemperQueries)                         \
    OP(latent_heads, LatentHeads)                             \
    OP(latent_heads_backward, LatentHeadsBackward)            \
    OP(residual_add, ResidualAdd)                             \
    OP(residual_norm, ResidualNormalize)                      \
    OP(add, Add)                                              \
    OP(bias_gradient, BiasGradient)                           \
    OP(route, Route)                                          \
    OP(route_backward, RouteBackward)                         \
    OP(drop_rows, DropRows)                                   \
    OP(count_choices, CountChoices)                           \
    OP(balance_gradient, BalanceGradient)                     \
    OP(load_gradient, LoadGradient)                           \
    OP(router_z_gradient, RouterZGradient)                    \
    OP(choose_ranks, ChooseRanks)                             \
    OP(permute, Permute)                                      \
    OP(unpermute, Unpermute)                                  \
    OP(group_rows, GroupRows)                                 \
    OP(spread_rows, SpreadRows)                               \
    OP(spread_weights, SpreadWeights)                         \
    OP(weigh_rows, WeighRows)                                 \
    OP(weigh_rows_backward, WeighRowsBackward)                \
    OP(grouped_gemm, GroupedGemm)                             \
    OP(expert_bias, ExpertBias)                               \
    OP(expert_bias_backward, ExpertBiasBackward)              \
    OP(expert_activation, ExpertActivate)                     \
    OP(expert_activation_backward, ExpertActivateBackward)    \
    OP(gate_rows, GateRows)                                   \
    OP(gate_rows_backward, GateRowsBackward)                  \
    OP(embedding, Embedding)                                  \
    OP(embedding_backward, EmbeddingBackward)                 \
    OP(cross_entropy_max, CrossEntropyMax)                    \
    OP(cross_entropy_sum, CrossEntropySum)                    \
    OP(cross_entropy_join, CrossEntropyJoin)                  \
    OP(cross_entropy, CrossEntropy)                           \
    OP(cross_entropy_backward, CrossEntropyBackward)          \
    OP(gradient_norm, GradientNorm)                           \
    OP(unscale, Unscale)                                      \
    OP(update_loss_scale, UpdateLossScale)                    \
    OP(loss_share, LossShare)                                 \
    OP(judge_loss, JudgeLoss)                                 \
    OP(adamw, AdamW)                                          \
    OP(cast, Cast)                                            \
    OP(rearrange, Rearrange)                                  \
    OP(amax, Amax)                                            \
    OP(quantize, Quantize)                                    \
    OP(amax_rows, AmaxRows)                                   \
    OP(quantize_rows, QuantizeRows)                           \
    OP(transpose, Transpose)                                  \
    OP(update_scales, UpdateScales)                           \
    OP(collect_amaxes, CollectAmaxes)                         \
    OP(spread_amaxes, SpreadAmaxes)                           \
    OP(all_reduce, AllReduce)                                 \
    OP(all_gather, AllGather)                                 \
    OP(reduce_scatter, ReduceScatter)                         \
    OP(broadcast, Broadcast)                                  \
    OP(exchange, Exchange)                                    \
    OP(all_to_all, AllToAll)                                  \
    OP(all_to_all_v, AllToAllV)                               \
    OP(shift, Shift)                                          \
    OP(copy_to_device, CopyToDevice)                          \
    OP(copy_to_host, CopyToHost)                              \
    OP(read_disk, ReadDisk)                                   \
    OP(write_disk, WriteDisk)
// clang-format on

enum class OpKind : std::uint8_t {
#define ORRERY_OP_NAME(name, type) name,
    ORRERY_OPS(ORRERY_OP_NAME)
#undef ORRERY_OP_NAME
};

#define ORRERY_OP_ONE(name, type) +1
inline constexpr std::size_t kOpKinds = 0 ORRERY_OPS(ORRERY_OP_ONE);
#undef ORRERY_OP_ONE

// What an op is of, for whoever treats kinds alike.
enum class OpFamily : std::uint8_t {
    matrix,         // products
    attention,      // without materialised scores
    memory,         // as fast as the bytes of what it reads and writes
    communication,  // ties ranks together
    copy            // between tiers of memory
};

}  // namespace orrery::plan
