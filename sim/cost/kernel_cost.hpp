// Prices the ops of a plan: how long each kernel would take alone on the profile's device, and how
// sure that is. Communication is priced by sim/network, the host by the framework's preset.
#pragma once

#include <cstdint>

#include "plan/ir/block.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::sim {

// Ops whose errors move together: one rate wrong, all of the family wrong.
enum class CostFamily : std::uint8_t {
    gemm,
    batched_gemm,
    attention,
    memory,
    intra_node_collective,
    inter_node_collective,
    point_to_point,
    copy  // between tiers of memory
};
inline constexpr std::size_t kCostFamilies = 8;
std::string_view name(CostFamily family);  // as it stands there, "gemm"

struct Price {
    double seconds = 0;
    CostFamily family = CostFamily::memory;
    // Standard deviation of the price over the price: the curve's residual, widened by half per
    // octave outside its fitted range.
    double relative_sd = 0;
};

// What a host launches for an op of a rank's experts where it splits their rows by counts that it
// reads (plan::ExpertBiases::split), as Transformer Engine's GroupedLinear and Megatron Core's
// TEGroupedMLP do; 1 for any other op.
std::int64_t launches_by_expert(const plan::Op& op, const plan::Fp8& fp8);

class NeighbourRatios;  // sim/cost/gemm_model.hpp

class KernelCost {
  public:
    // Of kernels that take the profile's times × the stack's factors, where so many ranks of a
    // machine are busy, and so many machines wait for each other. `profile` must outlive the
    // object.
    // `sequence`: tokens that a rank has of one, which masks of rows are of. `ratios`: those of the
    // profile's products that are known, to be added to; or null.
    KernelCost(const Profile& profile, const plan::Framework& framework,
               std::int64_t ranks_of_machine, std::int64_t machines = 1, std::int64_t sequence = 1,
               NeighbourRatios* ratios = nullptr);
    explicit KernelCost(const Profile& profile) : KernelCost(profile, {}, 1) {}

    // `op` is one of `block` and no communication (checked). `load`: of rows that come to experts
    // the rank has so many times those of the mean one. Throws ProfileError when the profile has
    // nothing for the op's element type.
    Price price(const plan::Block& block, const plan::Op& op, double load = 1) const;

  private:
    Price price_alone(const plan::Block& block, const plan::Op& op, double load) const;
    const GemmCurve& gemm_curve(plan::DType dtype) const;
    Price price_gemm(const plan::Block& block, const plan::Op& op, const plan::Gemm& gemm) const;
    Price price_activated_gemm(const plan::Block& block, const plan::Op& op) const;
    Price price_residual_gemm(const plan::Block& block, const plan::Op& op) const;
    Price price_bias_gradient_gemm(const plan::Block& block, const plan::Op& op) const;
    Price price_grouped_gemm(const plan::Block& block, const plan::Op& op, double load) const;
    double scaled_rate(const plan::Tensor& scales, std::int64_t matrices,
                       const GemmCurve& curve) const;
    Price price_batched_gemm(const plan::Op& op) const;
    Price price_attention_block(const plan::Block& block, const plan::Op& op, bool backward) const;
    Price price_attention(const plan::Op& op, bool backward) const;
    Price price_memory(const plan::Block& block, const plan::Op& op, double t0_us,
                       double load = 1) const;
    Price price_bytes(plan::OpKind kind, double bytes, double t0_us) const;
    Price price_residual_norm(const plan::Block& block, const plan::Op& op) const;
    Price price_exponentials(const plan::Block& block, const plan::Op& op) const;
    Price price_norm(const plan::Block& block, const plan::Op& op, double t0_us) const;
    Price price_biased_experts(const plan::Block& block, const plan::Op& op, double t0_us,
                               double load) const;
    Price price_group_rows(const plan::Block& block, const plan::Op& op, double load) const;
    Price price_permutation(const plan::Block& block, const plan::Op& op) const;
    Price price_masked_rows(const plan::Op& op) const;
    Price price_quantize(const plan::Block& block, const plan::Op& op, double t0_us,
                         double load) const;

    const Profile& profile_;
    NeighbourRatios* ratios_;
    double attention_factor_;
    bool composed_loss_;
    bool composed_norms_;
    bool one_by_one_;  // experts' products
    bool split_biases_;
    plan::PermuteKernel permute_kernel_;
    double sequence_;
    double memory_factor_;
    double column_cast_factor_;
    double stretch_;
};

}  // namespace orrery::sim
