#include "calib/fit/judge_experts.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calib/fit/write_profile.hpp"
#include "sim/cost/kernel_cost.hpp"

namespace orrery::fit {
namespace {

std::vector<double> misses(const sim::Profile& profile, const std::vector<ExpertTiming>& timings) {
    const sim::KernelCost cost(profile);
    plan::Block block;
    block.tensors.resize(3);
    plan::Op op;
    op.dtype = plan::DType::bf16;
    op.reads = {0, 1, 2};
    std::vector<double> errors;
    for (const ExpertTiming& timing : timings) {
        op.spec = timing.product;
        errors.push_back(cost.price(block, op).seconds / (timing.time_us * 1e-6) - 1);
    }
    return errors;
}

}  // namespace

nlohmann::ordered_json grouped_gemm_json(const nlohmann::ordered_json& profile,
                                         const std::vector<ExpertTiming>& timings,
                                         const std::string& source,
                                         std::vector<FamilyReport>& families) {
    if (timings.empty())
        return {
            {"expert_by_expert", true},
            {"source", "not timed; design: a product of cuBLASLt's for each expert that has rows"}};
    sim::Profile priced = sim::parse_profile(profile_text(profile), "what was measured");
    priced.expert_by_expert = true;
    const ErrorSummary one_by_one = summarize(misses(priced, timings));
    priced.expert_by_expert = false;
    const ErrorSummary at_once = summarize(misses(priced, timings));
    const auto [fewest, most] = std::minmax_element(
        timings.begin(), timings.end(), [](const ExpertTiming& a, const ExpertTiming& b) {
            return a.product.experts < b.product.experts;
        });
    const bool by_expert = one_by_one.absolute.mean_abs_error <= at_once.absolute.mean_abs_error;
    FamilyReport family;
    family.family = "products of experts";
    family.held_out = by_expert ? one_by_one : at_once;
    family.parameters = fmt::format("priced as {}; nothing fitted",
                                    by_expert ? "a kernel for each expert" : "one kernel for all");
    families.push_back(family);
    return {{"expert_by_expert", by_expert},
            {"source",
             fmt::format("{}; {} products of {} to {} experts, all unseen by the curve: priced "
                         "expert by expert mean error {:.1f} %, bias {:+.1f} %; as one kernel "
                         "{:.1f} %, bias {:+.1f} %",
                         source, timings.size(), fewest->product.experts, most->product.experts,
                         100 * one_by_one.absolute.mean_abs_error, 100 * one_by_one.bias,
                         100 * at_once.absolute.mean_abs_error, 100 * at_once.bias)}};
}

}  // namespace orrery::fit
