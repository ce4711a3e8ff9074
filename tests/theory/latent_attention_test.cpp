// Latent attention against its closed forms (DeepSeek-AI 2024, arXiv 2405.04434, section 2.1): what
// is computed, kept and sent of a layer.
#include <algorithm>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Plan;

constexpr std::int64_t kTokens = 32, kHidden = 512, kHeads = 8, kFfn = 1024, kLayers = 4;
constexpr std::int64_t kQRank = 96, kKvRank = 64, kPlain = 24, kTurned = 8, kValue = 16;
constexpr std::int64_t kPart = kPlain + kTurned;  // of a head's query

Sets latents(Sets more = {}) {
    Sets sets = {"model.model_type=deepseek_v3",
                 "model.num_key_value_heads=8",
                 "model.n_routed_experts=0",
                 set("model.q_lora_rank", kQRank),
                 set("model.kv_lora_rank", kKvRank),
                 set("model.qk_nope_head_dim", kPlain),
                 set("model.qk_rope_head_dim", kTurned),
                 set("model.v_head_dim", kValue)};
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

// Of a token, with a query's latent and without one.
TEST(LatentAttention, ComputesItsProductsAndUnequalHeads) {
    for (const bool direct : {false, true}) {
        const Plan plan = plan_of(direct ? latents({"model.q_lora_rank=null"}) : latents(), kLlama);
        const std::int64_t q =
            direct ? kHidden * kHeads * kPart : kHidden * kQRank + kQRank * kHeads * kPart;
        const std::int64_t weights = q + kHidden * (kKvRank + kTurned) +
                                     kKvRank * kHeads * (kPlain + kValue) +
                                     kHeads * kValue * kHidden + 3 * kHidden * kFfn;
        const std::int64_t scores = kTokens * kHeads * (kPart + kValue);
        const double per_token =
            2.0 * static_cast<double>(kLayers * (weights + scores) + 128 * kHidden);
        EXPECT_EQ(plan.conserved.model_flops_per_step,
                  3 * per_token * static_cast<double>(8 * kTokens));
    }
}

// Two-byte activations: what a norm reads and gives, latents before and behind their norms, packed
// heads, what comes of them with its log-sum-exp, and the MLP's; 1/σ of each norm.
std::int64_t kept_bytes(std::int64_t tensor, bool sequence) {
    const std::int64_t rows = sequence ? kTokens / tensor : kTokens;
    const std::int64_t between = 2 * rows * (4 * kHidden + 2 * kQRank + 2 * kKvRank);
    const std::int64_t heads = 2 * kTokens * kHeads * (2 * kPart + kValue + kValue) / tensor;
    const std::int64_t mlp = 2 * kTokens * 3 * kFfn / tensor;
    return between + heads + mlp + 4 * kTokens * kHeads / tensor + 4 * 4 * rows;
}

TEST(LatentAttention, KeepsLatentsAndHeads) {
    EXPECT_EQ(kept_of(plan_of(latents(), kLlama)), kept_bytes(1, false));
    EXPECT_EQ(kept_of(plan_of(latents({"layout.tensor_parallel=2"}), kLlama)),
              kept_bytes(2, false));
    EXPECT_EQ(kept_of(plan_of(
                  latents({"layout.tensor_parallel=4", "layout.sequence_parallel=true"}), kLlama)),
              kept_bytes(4, true));
}

// Megatron Core's mla_up_proj: packed heads are not kept, and their products are made again.
TEST(LatentAttention, UpProjectionsAreMadeAgain) {
    const Sets again = {"layout.recompute=selective",
                        R"(layout.recompute_modules=["mla_up_proj"])"};
    const Plan usual = plan_of(latents(), kLlama), recomputed = plan_of(latents(again), kLlama);
    EXPECT_EQ(kept_of(usual) - kept_of(recomputed),
              2 * kTokens * kHeads * (2 * kPart + kValue) - 2 * kTokens * kTurned);
    EXPECT_EQ(
        recomputed.conserved.hardware_flops_per_step - usual.conserved.hardware_flops_per_step,
        2.0 * kTokens * 8 * kLayers *
            (kQRank * kHeads * kPart + kKvRank * kHeads * (kPlain + kValue)));
}

// Tensor ranks that share out tokens gather latents, which are narrower than the layer's input, and
// the keys' turned part; context ranks keys and values of unequal heads.
TEST(LatentAttention, SendsLatents) {
    const auto gathered = [](const Plan& plan, plan::Stream stream) {
        std::int64_t elements = 0;
        for (const plan::Op& op : block_named(plan, "layer.forward").ops)
            if (op.is<plan::AllGather>() && op.stream == stream)
                elements += op.as<plan::AllGather>().elements;
        return elements;
    };
    const Plan tensor =
        plan_of(latents({"layout.tensor_parallel=2", "layout.sequence_parallel=true"}), kLlama);
    EXPECT_EQ(gathered(tensor, plan::Stream::tensor_comm),
              kTokens * (kQRank + kKvRank + kTurned + kHidden));  // the last for the MLP
    const Plan context = plan_of(
        latents({"layout.context_parallel=2", "layout.context_algorithm=all_gather"}), kLlama);
    EXPECT_EQ(gathered(context, plan::Stream::context_comm), kTokens * kHeads * (kPart + kValue));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
