// Rules of mixtures of experts: what their degrees divide, and what is not computed beside them.
#include <fmt/format.h>

#include <bit>
#include <numeric>
#include <string>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/rules.hpp"
#include "plan/scenario/spellings.hpp"

namespace orrery::plan {
namespace {

constexpr const char* kExpertParallel = "layout.expert_parallel";
constexpr const char* kExpertTensor = "layout.expert_tensor_parallel";
constexpr const char* kZeroGroup = "layout.zero_group_size";
constexpr const char* kBySource = "layout.expert_gradients_by_source";

void refuse_without_experts(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const auto refuse = [&](const char* field, bool said, const char* otherwise,
                            const char* message) {
        if (!reading.good({field}) || !said) return;
        Diagnostic& fault = reading.report_field("S038", field, message);
        fault.help.push_back(fmt::format("leave it {}, or a model with experts", otherwise));
    };
    refuse(kExpertParallel, layout.expert_parallel > 1, "at 1",
           "experts are spread over ranks, and the model has none");
    refuse(kExpertTensor, layout.expert_tensor_parallel > 1, "at 1",
           "experts' matrices are cut, and the model has none");
    refuse("layout.expert_dispatcher", layout.expert_dispatcher != ExpertDispatcher::alltoall,
           "out", "rows are to go to experts, and the model has none");
    refuse("layout.overlap_expert_communication", layout.overlap_expert_communication, "out",
           "exchanges of experts' rows are to be hidden, and the model has none");
    refuse(kBySource, layout.expert_gradients_by_source, "out",
           "experts' gradients are to be kept apart, and the model has none");
    if (scenario.training.routing == ExpertRouting{}) return;
    reading
        .report("S038", "/training/routing",
                "the routing says how often experts are chosen, and the model has none")
        .help.push_back("leave training.routing out, or a model with experts");
}

// Experts fold over the ranks of a stage.
void check_ranks_of_stage(Reading& reading, const Layout& layout, std::int64_t experts) {
    if (!reading.good({kExpertParallel, kExpertTensor, "layout.tensor_parallel",
                       "layout.context_parallel", "layout.data_parallel"}))
        return;
    const std::int64_t stage =
        layout.tensor_parallel * layout.context_parallel * layout.data_parallel;
    const std::int64_t group = layout.expert_parallel * layout.expert_tensor_parallel;
    if (stage % group == 0) return;
    Diagnostic& fault = reading.report_field(
        "S038", kExpertParallel,
        "the ranks that share out experts are not a whole part of the ranks of a stage");
    fault.arithmetic = fmt::format(
        "tensor_parallel × context_parallel × data_parallel = {} × {} × {} = {}\n"
        "that / (expert_parallel × expert_tensor_parallel) = {} / ({} × {}) = {}",
        layout.tensor_parallel, layout.context_parallel, layout.data_parallel, stage, stage,
        layout.expert_parallel, layout.expert_tensor_parallel, quotient(stage, group));
    if (stage % layout.expert_tensor_parallel == 0) {
        const std::int64_t most = std::gcd(stage / layout.expert_tensor_parallel, experts);
        fault.help.push_back("expert_parallel: " +
                             choices_near(layout.expert_parallel, divisors(most, most)));
    }
}

void check_expert_shares(Reading& reading, const Scenario& scenario, const ExpertMlp& experts) {
    const std::int64_t count = experts.routing.experts, parts = scenario.layout.expert_parallel;
    if (reading.good({kExpertParallel, "model.experts"}) && count % parts != 0) {
        Diagnostic& fault = reading.report_field(
            "S038", kExpertParallel, "expert_parallel does not divide the model's experts");
        fault.arithmetic =
            fmt::format("{} / expert_parallel = {} / {} = {}", reading.shown("model.experts"),
                        count, parts, quotient(count, parts));
        fault.help.push_back("expert_parallel: " + choices_near(parts, divisors(count, count)));
    }
    const std::int64_t width = experts.expert.ffn_hidden;
    const std::int64_t split = scenario.layout.expert_tensor_parallel;
    if (reading.good({kExpertTensor}) && split > 1 && experts.expert.bias) {
        Diagnostic& fault = reading.report_field(
            "S039", kExpertTensor, "experts with biases are not cut: each rank would add them");
        fault.arithmetic = fmt::format("expert_tensor_parallel = {}", split);
        fault.help.push_back("expert_tensor_parallel 1, and a larger expert_parallel");
    }
    if (!reading.good({kExpertTensor, "model.expert_ffn"}) || width % split == 0) return;
    Diagnostic& fault = reading.report_field(
        "S038", kExpertTensor, "expert_tensor_parallel does not divide an expert's width");
    fault.arithmetic = fmt::format("width of an expert / expert_tensor_parallel = {} / {} = {}",
                                   width, split, quotient(width, split));
    fault.help.push_back("expert_tensor_parallel: " + choices_near(split, divisors(width, width)));
}

// Tensor ranks share out the tokens, so that none goes to its experts several times.
void check_shared_tokens(Reading& reading, const Layout& layout) {
    if (!reading.good({"layout.tensor_parallel", "layout.sequence_parallel"}) ||
        layout.tensor_parallel == 1 || layout.sequence_parallel)
        return;
    Diagnostic& fault = reading.report_field(
        "S039", "layout.sequence_parallel",
        "tensor-parallel ranks have to share out the tokens that they send to experts");
    fault.arithmetic =
        fmt::format("tensor_parallel = {}, sequence_parallel = false", layout.tensor_parallel);
    fault.help.push_back("\"sequence_parallel\": true, or tensor_parallel 1");
}

void check_counts(Reading& reading, const ExpertRouting& routing, const ExpertMlp& experts) {
    if (!reading.good({"training.routing", "model.experts"})) return;
    for (std::size_t i = 0; i < routing.counts.size(); ++i) {
        const std::size_t counts = routing.counts[i].size();
        if (static_cast<std::int64_t>(counts) == experts.routing.experts) continue;
        Diagnostic& fault = reading.report("S039", fmt::format("/training/routing/counts/{}", i),
                                           "a row of counts has one for each expert");
        fault.arithmetic = fmt::format("{} counts, {} = {}", counts, reading.shown("model.experts"),
                                       experts.routing.experts);
        return;
    }
}

// Ranks that share out states have all experts as often as the others that do.
void check_parts_of_experts(Reading& reading, const Layout& layout) {
    if (!reading.good({kExpertParallel, kExpertTensor, "layout.tensor_parallel",
                       "layout.context_parallel", "layout.data_parallel", kZeroGroup,
                       "layout.zero_stage"}))
        return;
    const std::int64_t data = layout.data_ranks(), shards = layout.zero_ranks();
    const std::int64_t stage = layout.tensor_parallel * data;
    const std::int64_t spread = layout.expert_parallel * layout.expert_tensor_parallel;
    if (shards <= 1 || data % shards != 0 || stage % spread != 0) return;  // said elsewhere
    const auto holds_all = [&](std::int64_t ranks) {
        return layout.tensor_parallel * ranks % spread == 0;
    };
    if (holds_all(shards)) return;
    Diagnostic& fault = reading.report_field(
        "S038", kZeroGroup, "the ranks that share out states do not have all experts between them");
    fault.arithmetic = fmt::format(
        "tensor_parallel × zero_group_size = {} × {} = {} ranks\n"
        "that / (expert_parallel × expert_tensor_parallel) = {} / ({} × {}) = {}",
        layout.tensor_parallel, shards, layout.tensor_parallel * shards,
        layout.tensor_parallel * shards, layout.expert_parallel, layout.expert_tensor_parallel,
        quotient(layout.tensor_parallel * shards, spread));
    std::vector<std::int64_t> choices = divisors(data, data);
    std::erase_if(choices, [&](std::int64_t ranks) { return !holds_all(ranks); });
    fault.help.push_back("zero_group_size: " + choices_near(shards, choices) + ", or \"all\"");
}

void check_beside_experts(Reading& reading, const Layout& layout) {
    const char* const field = "layout.data_parallel_mode";
    if (layout.data_parallel_mode != DataParallelMode::parameter_server || !reading.good({field}))
        return;
    reading
        .report_field("S020", field,
                      "a parameter server beside mixtures of experts: not supported yet")
        .help.push_back("\"data_parallel_mode\": \"synchronous\"");
}

// Experts and router are frozen beside adapters of attention.
void check_adapters(Reading& reading, const Scenario& scenario) {
    const Lora& lora = scenario.training.lora;
    if (!lora.on() || !reading.good({"training.lora"})) return;
    const auto refuse = [&](bool is_there, const char* field, const char* message,
                            std::string arithmetic, const char* help) {
        if (!is_there || !reading.good({field})) return;
        Diagnostic& fault = reading.report_field("S037", field, message);
        fault.arithmetic = std::move(arithmetic);
        fault.help.emplace_back(help);
    };
    refuse(lora.fc1 || lora.fc2, "training.lora",
           "experts have no adapters: those of a model with experts stand beside attention",
           fmt::format("target_modules has {}", lora.fc1 ? "linear_fc1" : "linear_fc2"),
           "\"target_modules\": [\"linear_qkv\", \"linear_proj\"]");
    const Layout& layout = scenario.layout;
    const std::int64_t places = layout.expert_parallel * layout.expert_tensor_parallel;
    if (reading.good({kExpertParallel, kExpertTensor}))
        refuse(
            layout.zero_stage == 3 && places > 1, "layout.zero_stage",
            "ZeRO-3 shares out frozen weights over all data-parallel ranks, of which spread "
            "experts are not the same",
            fmt::format("expert_parallel × expert_tensor_parallel = {}, beside adapters", places),
            "zero_stage of at most 2, or experts on every rank");
    refuse(scenario.model.experts()->expert.bias, "training.lora",
           "experts' biases are trained, and cannot be frozen",
           "experts with biases, beside adapters", "leave lora out");
    refuse(scenario.training.precision == Precision::fp8, "training.precision",
           "experts whose products are of eight bits are not frozen", "precision = fp8, lora",
           "\"precision\": \"bf16\"");
}

void check_dispatcher(Reading& reading, const Layout& layout) {
    constexpr const char* kDispatcher = "layout.expert_dispatcher";
    if (layout.expert_dispatcher == ExpertDispatcher::alltoall ||
        !reading.good({kDispatcher, kExpertParallel, kExpertTensor}) ||
        layout.expert_parallel * layout.expert_tensor_parallel > 1)
        return;
    Diagnostic& fault = reading.report_field("S039", kDispatcher,
                                             "rows are not sent: all experts are on each rank");
    fault.arithmetic = "expert_parallel × expert_tensor_parallel = 1 × 1";
    fault.help.emplace_back("leave it out, or a larger expert_parallel");
}

// Rows that fill up would be copied with tokens.
void check_capacity(Reading& reading, const Scenario& scenario) {
    constexpr const char* kPads = "training.routing.pad_to_capacity";
    if (!scenario.training.routing.pads_to_capacity ||
        !reading.good({kPads, "layout.expert_dispatcher"}) ||
        scenario.layout.expert_dispatcher == ExpertDispatcher::alltoall)
        return;
    Diagnostic& fault = reading.report_field(
        "S039", kPads, "rows are filled up where each expert of a token gets one of its own");
    fault.arithmetic =
        fmt::format("expert_dispatcher = {}", spelling(scenario.layout.expert_dispatcher));
    fault.help.emplace_back("leave pad_to_capacity out, or \"expert_dispatcher\": \"alltoall\"");
}

// As Megatron Core's overlap_moe_expert_parallel_comm asks for.
void check_overlap(Reading& reading, const Scenario& scenario) {
    constexpr const char* kOverlap = "layout.overlap_expert_communication";
    const Layout& layout = scenario.layout;
    if (!layout.overlap_expert_communication || !reading.good({kOverlap})) return;
    const auto refuse = [&](bool is_there, std::string arithmetic, const char* what,
                            const char* help) {
        if (!is_there) return;
        Diagnostic& fault = reading.report_field(
            "S039", kOverlap,
            fmt::format("exchanges of experts' rows are not hidden beside {}", what));
        fault.arithmetic = std::move(arithmetic);
        fault.help.emplace_back(help);
    };
    const RecomputedModules& modules = layout.recompute_modules;
    const bool again = layout.recompute != Recompute::none &&
                       (layout.recompute != Recompute::selective || modules.experts);
    const bool drops = scenario.model.hidden_dropout > 0 || scenario.model.attention().dropout > 0;
    if (reading.good({"layout.expert_parallel"}))
        refuse(layout.expert_parallel * layout.expert_tensor_parallel == 1, "expert_parallel = 1",
               "experts that stay on their rank", "leave it out, or a larger expert_parallel");
    if (reading.good({"layout.expert_dispatcher"}))
        refuse(layout.expert_dispatcher == ExpertDispatcher::allgather, "",
               "rows that all ranks gather", "\"expert_dispatcher\": \"alltoall\"");
    if (reading.good({"layout.schedule", "layout.pipeline_parallel"}))
        refuse(layout.schedule != "dualpipe-v" && layout.schedule != "interleaved" &&
                   layout.pipeline_parallel > 1,
               fmt::format("schedule = {}, pipeline_parallel = {}", layout.schedule,
                           layout.pipeline_parallel),
               "a schedule whose forward and backward passes do not follow on each other",
               "\"schedule\": \"interleaved\" or \"dualpipe-v\"");
    if (reading.good({"layout.recompute", "layout.recompute_modules"}))
        refuse(again, "", "experts that backward runs again", "recompute_modules without \"moe\"");
    if (reading.good({"layout.zero_stage"}))
        refuse(layout.zero_ranks() > 1 && layout.zero_stage > 2,
               fmt::format("zero_stage = {}", layout.zero_stage),
               "parameters that are gathered for each use", "zero_stage 2 at most");
    if (reading.good({"layout.offload"}))
        refuse(
            layout.offload.parameters != KeptOn::none || layout.offload.activations != KeptOn::none,
            "", "parameters or activations that are fetched for each pass",
            "offload \"optimizer\" and \"gradients\" alone");
    if (reading.good({"training.defer_embedding_gradient", "layout.pipeline_parallel"}))
        refuse(scenario.training.framework.defer_embedding_gradient && layout.pipeline_parallel > 1,
               "defer_embedding_gradient = true",
               "gradients of the head that wait for the last pass",
               "defer_embedding_gradient false");
    refuse(drops, "", "dropout, whose random numbers are one micro-batch's", "dropout 0");
}

// Sums in pairs join what others have summed only where each has a power of two in a row.
void check_pairs_of_sources(Reading& reading, const Layout& layout, std::int64_t experts) {
    const std::int64_t split = layout.expert_tensor_parallel;
    const auto pairs = [&](std::int64_t parts) {
        return std::has_single_bit(static_cast<std::uint64_t>(parts * split));
    };
    if (!reading.good({kExpertParallel, kExpertTensor}) || pairs(layout.expert_parallel)) return;
    Diagnostic& fault = reading.report_field(
        "S039", kBySource,
        "gradients by source are summed in pairs, and their ranks are no power of two");
    fault.arithmetic = fmt::format("expert_parallel × expert_tensor_parallel = {} × {} = {}",
                                   layout.expert_parallel, split, layout.expert_parallel * split);
    std::vector<std::int64_t> parts = divisors(experts, experts);
    std::erase_if(parts, [&](std::int64_t part) { return !pairs(part); });
    fault.help.push_back(parts.empty()
                             ? "expert_tensor_parallel: a power of two"
                             : "expert_parallel: " + choices_near(layout.expert_parallel, parts));
}

// ZeRO-2 adds up what micro-batches' reductions give, where there is a reduction: experts that are
// on one rank alone would add up micro-batches first.
void check_sources_of_shards(Reading& reading, const Layout& layout) {
    if (!reading.good({kExpertParallel, kExpertTensor, kZeroGroup, "layout.zero_stage",
                       "layout.tensor_parallel", "layout.context_parallel",
                       "layout.data_parallel"}))
        return;
    const std::int64_t spread = layout.expert_parallel * layout.expert_tensor_parallel;
    const std::int64_t ranks = layout.tensor_parallel * layout.zero_ranks();
    if (layout.zero_stage < 2 || layout.zero_ranks() == 1 || spread == 1 || spread < ranks) return;
    Diagnostic& fault = reading.report_field(
        "S039", kBySource,
        "gradients by source: not where ZeRO shares out no experts' gradients, and others'");
    fault.arithmetic = fmt::format(
        "zero_stage = {}, its ranks × tensor_parallel = {}\n"
        "expert_parallel × expert_tensor_parallel = {} × {} = {}",
        layout.zero_stage, ranks, layout.expert_parallel, layout.expert_tensor_parallel, spread);
    fault.help.emplace_back("zero_stage of at most 1, or a smaller expert_parallel");
}

// What would round or add elsewhere than where every rank has all experts.
void check_sources(Reading& reading, const Scenario& scenario, std::int64_t experts) {
    const Layout& layout = scenario.layout;
    if (!layout.expert_gradients_by_source || !reading.good({kBySource})) return;
    check_pairs_of_sources(reading, layout, experts);
    check_sources_of_shards(reading, layout);
    const auto refuse = [&](const char* field, bool is_there, std::string arithmetic,
                            const char* what, const char* help) {
        if (!is_there || !reading.good({field})) return;
        Diagnostic& fault = reading.report_field(
            "S039", kBySource, fmt::format("gradients by source: not beside {}", what));
        fault.arithmetic = std::move(arithmetic);
        fault.help.emplace_back(help);
    };
    refuse("layout.expert_dispatcher", layout.expert_dispatcher != ExpertDispatcher::alltoall,
           fmt::format("expert_dispatcher = {}", spelling(layout.expert_dispatcher)),
           "tokens whose results are summed first where their experts are",
           "\"expert_dispatcher\": \"alltoall\"");
    refuse("training.precision", scenario.training.precision == Precision::fp8, "precision = fp8",
           "products of eight bits, whose scales are of all ranks' rows",
           "\"precision\": \"bf16\"");
    const int bytes = scenario.training.framework.gradient_bytes;
    refuse("training.gradient_dtype", bytes < 4,
           fmt::format("gradients of {} bits are rounded before other ranks' are added", 8 * bytes),
           "gradients of 16 bits", "\"gradient_dtype\": \"fp32\"");
    refuse("layout.offload", layout.offload.gradients != KeptOn::none, "",
           "gradients that are kept off the device", "offload without \"gradients\"");
}

}  // namespace

void check_experts(Reading& reading, const Scenario& scenario) {
    if (!reading.good({"model"})) return;
    const ExpertMlp* experts = scenario.model.experts();
    if (experts == nullptr) return refuse_without_experts(reading, scenario);
    check_expert_shares(reading, scenario, *experts);
    check_ranks_of_stage(reading, scenario.layout, experts->routing.experts);
    check_shared_tokens(reading, scenario.layout);
    check_counts(reading, scenario.training.routing, *experts);
    check_parts_of_experts(reading, scenario.layout);
    check_beside_experts(reading, scenario.layout);
    check_adapters(reading, scenario);
    check_dispatcher(reading, scenario.layout);
    check_capacity(reading, scenario);
    check_overlap(reading, scenario);
    check_sources(reading, scenario, experts->routing.experts);
}

}  // namespace orrery::plan
