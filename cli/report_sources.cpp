// What of a prediction rests on assumptions: families of kernels whose curves were not measured on
// the device, with their share of the compute time.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/machine_files.hpp"
#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/text_table.hpp"
#include "sim/stack_prior.hpp"

namespace orrery::cli {
namespace {

enum class Family : std::uint8_t { gemm, batched_gemm, attention, attention_backward, memory };
constexpr std::array<const char*, 5> kFamilyNames = {
    "matrix products", "products of unfused attention", "attention forward", "attention backward",
    "memory-bound kernels"};

Family family_of(plan::OpKind kind) {
    switch (kind) {
        case plan::OpKind::gemm:
        case plan::OpKind::activated_gemm:
        case plan::OpKind::residual_gemm:
        case plan::OpKind::bias_gradient_gemm:
            return Family::gemm;
        case plan::OpKind::batched_gemm:
            return Family::batched_gemm;
        case plan::OpKind::attention:
        case plan::OpKind::attention_block:
            return Family::attention;
        case plan::OpKind::attention_backward:
        case plan::OpKind::attention_block_backward:
            return Family::attention_backward;
        default:
            return Family::memory;
    }
}

// Share of each family of the time in which compute ops run.
std::array<double, kFamilyNames.size()> shares_of(const sim::Prediction& prediction) {
    std::array<double, kFamilyNames.size()> shares{};
    double sum = 0;
    for (std::size_t number = 0; number < prediction.trace.ops.size(); ++number) {
        const trace::OpName& op = prediction.trace.ops[number];
        if (op.stream != plan::Stream::compute) continue;
        const auto time = static_cast<double>(prediction.sums.busy[number]);
        shares[static_cast<std::size_t>(family_of(op.kind))] += time;
        sum += time;
    }
    for (double& share : shares)
        share = sum > 0 ? share / sum : 0;
    return shares;
}

// The products of unfused attention are a ratio to measured curves at best.
bool is_measured(Family family, const ReportInput& input) {
    const sim::Profile& profile = input.profile;
    const auto has_head_size = [&](const std::vector<sim::AttentionCurve>& curves) {
        return std::any_of(curves.begin(), curves.end(), [&](const sim::AttentionCurve& curve) {
            return curve.head_dim == input.scenario.model.attention().head_dim && curve.measured;
        });
    };
    switch (family) {
        case Family::gemm: {
            const plan::Precision precision = input.scenario.training.precision;
            const plan::DType dtype = precision == plan::Precision::fp8
                                          ? plan::DType::fp8_e4m3
                                          : *plan::from_name<plan::DType>(plan::name(precision));
            const sim::GemmCurve* curve = profile.gemm_curve(dtype);
            return curve != nullptr && curve->measured;
        }
        case Family::attention:
            return has_head_size(profile.attention.forward);
        case Family::attention_backward:
            return has_head_size(profile.attention.backward);
        case Family::memory:
            return profile.memory.measured;
        case Family::batched_gemm:
            break;
    }
    return false;
}

// "the software (step 5 % shorter to 8 % longer, memory up to 26 % more: standard deviations)"
std::string software_text(const ReportInput& input) {
    const sim::StackPrior prior =
        sim::stack_prior(input.scenario.training.framework, input.profile);
    std::string list;
    if (prior.step_late > 0)
        list = fmt::format("step {} shorter or {} longer", percent_text(prior.step_early),
                           percent_text(prior.step_late));
    if (prior.memory_more > 0)
        list += fmt::format("{}memory {} more", list.empty() ? "" : ", ",
                            percent_text(prior.memory_more));
    if (list.empty()) return list;
    return fmt::format("the software ({}: standard deviations, from stacks that were measured)",
                       list);
}

}  // namespace

std::string prices_text(const sim::PriceSources& prices) {
    constexpr std::array<const char*, sim::kPriceSources> kWords = {
        "what they took themselves", "the mean of the same op of a block",
        "what was measured, scaled as the model scales", "the profile"};
    std::string list;
    for (std::size_t source = 0; source < sim::kPriceSources; ++source)
        if (prices.ops[source] > 0)
            list += fmt::format("{}{} ops by {} ({} of the time of ops)", list.empty() ? "" : ", ",
                                whole_text(prices.ops[source]), kWords[source],
                                percent_text(prices.share[source]));
    return fmt::format("measured in {}: {}", prices.path, list);
}

namespace {

// Shares of the time of ops, by kind and source:
//   kind        themselves  mean  scaled  profile  over the model
//   gemm                 -  61.0 %   3.2 %        -           x1.18
std::string price_kinds_text(const sim::PriceSources& prices) {
    TextTable table(
        {Align::left, Align::right, Align::right, Align::right, Align::right, Align::right});
    table.add({"kind", "themselves", "mean", "scaled", "profile", "over the model"});
    for (const sim::PriceSources::OfKind& kind : prices.kinds) {
        std::vector<std::string> row = {std::string(plan::name(kind.kind))};
        for (const double share : kind.share)
            row.push_back(share > 0 ? percent_text(share) : "-");
        row.push_back(kind.over_model > 0 ? fmt::format("x{:.3g}", kind.over_model) : "-");
        table.add(std::move(row));
    }
    return table.text();
}

}  // namespace

std::string sources_text(const ReportInput& input, const Console& console) {
    if (input.prediction.prices)
        return heading("where the prices are from", console) +
               labelled("prices", prices_text(*input.prediction.prices)) +
               price_kinds_text(*input.prediction.prices);
    const auto shares = shares_of(input.prediction);
    std::string list = software_text(input);
    for (std::size_t f = 0; f < shares.size(); ++f) {
        if (shares[f] <= 0 || is_measured(static_cast<Family>(f), input)) continue;
        list += fmt::format("{}{} ({} of compute time)", list.empty() ? "" : ", ", kFamilyNames[f],
                            percent_text(shares[f]));
    }
    const bool many_nodes = input.scenario.layout.ranks() > input.scenario.cluster.devices_per_node;
    if (many_nodes) list += std::string(list.empty() ? "" : ", ") + "collectives between nodes";
    if (!input.profile.overlap.measured)
        list += std::string(list.empty() ? "" : ", ") + "slow-down of compute by communication";
    if (list.empty()) return "";
    std::string text = heading("what was not measured on this device", console) +
                       labelled("assumed", list + "; the profile names the source of each");
    if (is_guess_of_cores(input.scenario, input.profile))
        text += labelled("instead",
                         fmt::format("--set cluster.profile={} prices ranks as they run here: "
                                     "timed once, in seconds, and kept",
                                     plan::kThisMachine));
    return text;
}

}  // namespace orrery::cli
