// Rules of eight-bit products: what a recipe needs to be known, and to divide. Settles what the
// recipe's stack does by itself.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

constexpr const char* kKeys[] = {"fp8_recipe", "fp8_weights", "fp8_stash", "fp8_transposes",
                                 "fp8_param_gather"};

std::string pointer_of(const char* key) {
    return std::string("/training/") + key;
}

bool said(const Reading& reading, const char* key) {
    const Json* const training = reading.document().find("/training");
    return training != nullptr && training->is_object() && training->contains(key);
}

void refuse_without_fp8(Reading& reading, Precision precision) {
    for (const char* key : kKeys) {
        if (!said(reading, key)) continue;
        Diagnostic& fault = reading.report("S060", pointer_of(key),
                                           "only products of eight-bit numbers have a recipe");
        fault.arithmetic = fmt::format("training.precision = {}", name(precision));
        fault.help.push_back(fmt::format("leave {} out, or \"precision\": \"fp8\"", key));
        return;
    }
}

void refuse_without_recipe(Reading& reading) {
    Diagnostic& fault = reading.report("S060", pointer_of("fp8_recipe"),
                                       "fp8 does not say how numbers are scaled: training needs "
                                       "the key \"fp8_recipe\"");
    fault.arithmetic = "training.precision = fp8";
    fault.help.push_back(
        "fp8_recipe: \"delayed\", \"tensorwise\", \"rowwise\", \"blockwise\" or \"mxfp8\"");
}

// Transformer Engine casts weights in the first of a step's micro-batches (is_first_microbatch) and
// keeps what backward reads in eight bits; torchao, whose recipe rowwise is, casts them for each
// use and keeps inputs as they were (torchao/float8/float8_linear.py). Weights that are gathered
// for each use are cast there. Hopper and Ada multiply rows by rows alone.
void settle(const Reading& reading, const Layout& layout, Fp8& fp8) {
    const bool torchao = fp8.recipe == Fp8Recipe::rowwise;
    const bool gathered = layout.zero_ranks() > 1 && layout.zero_stage == 3;
    if (!said(reading, "fp8_weights")) fp8.weights_per_step = !torchao && !gathered;
    if (!said(reading, "fp8_stash")) fp8.packed_stash = !torchao;
    if (!said(reading, "fp8_transposes")) fp8.transposes = fp8.recipe != Fp8Recipe::mxfp8;
}

void check_choices(Reading& reading, const Layout& layout, const Fp8& fp8) {
    if (fp8.weights_per_step && layout.zero_ranks() > 1 && layout.zero_stage == 3) {
        Diagnostic& fault =
            reading.report("S061", pointer_of("fp8_weights"),
                           "weights that are gathered for each use cannot be cast once per step");
        fault.arithmetic = "layout.zero_stage = 3";
        fault.help.push_back("fp8_weights: \"use\", or a zero_stage below 3");
    }
    if (fp8.recipe == Fp8Recipe::delayed && !fp8.packed_stash) {
        Diagnostic& fault =
            reading.report("S061", pointer_of("fp8_stash"),
                           "delayed scaling makes both copies of an input when it is first read");
        fault.arithmetic = "fp8_recipe = delayed, fp8_stash = bf16";
        fault.help.push_back("fp8_stash: \"fp8\", or the recipe \"tensorwise\"");
    }
    if (fp8.recipe == Fp8Recipe::mxfp8 && fp8.transposes) {
        Diagnostic& fault = reading.report("S061", pointer_of("fp8_transposes"),
                                           "what multiplies MXFP8 reads columns as they lie");
        fault.arithmetic = "fp8_recipe = mxfp8, fp8_transposes = true";
        fault.help.push_back("leave fp8_transposes out");
    }
}

// What is held in eight bits is what products read, all through a step.
void check_parameters(Reading& reading, const Layout& layout, const Fp8& fp8) {
    if (!fp8.parameters) return;
    const auto refuse = [&](const char* why, const char* arithmetic) {
        Diagnostic& fault = reading.report("S061", pointer_of("fp8_param_gather"), why);
        fault.arithmetic = arithmetic;
        fault.help.push_back("leave fp8_param_gather out");
        return &fault;
    };
    if (fp8.recipe == Fp8Recipe::rowwise)
        refuse("torchao holds parameters in 16 bits", "fp8_recipe = rowwise");
    else if (!fp8.weights_per_step)
        refuse("parameters that are cast for each use are held in 16 bits", "fp8_weights = use");
    else if (fp8.casts_gathered() && layout.zero_stage == 2)
        refuse(
            "MXFP8 is cast from what is gathered to where gradients will lie, of which a shard is "
            "kept",
            "fp8_recipe = mxfp8, layout.zero_stage = 2")
            ->help.emplace_back("or zero_stage: 1");
    if (layout.offload.parameters != KeptOn::none || layout.offload.optimizer != KeptOn::none)
        refuse("states of parameters in eight bits are not offloaded", "layout.offload");
    if (layout.optimizer_post_validation)
        refuse("parameters in eight bits cannot be put back",
               "layout.optimizer_post_validation = true");
}

// cuBLAS takes eight-bit matrices whose sizes are multiples of 16; blocks that share a scale are
// whole ones.
std::int64_t multiple_of(Fp8Recipe recipe) {
    if (recipe == Fp8Recipe::blockwise) return 128;
    return recipe == Fp8Recipe::mxfp8 ? 32 : 16;
}

using NamedSizes = std::vector<std::pair<const char*, std::int64_t>>;

// Of a layer's products on a rank. What latents' rows are made of by one product may end in a part
// of a block (Transformer Engine's Float8BlockQuantizer rounds scales up), what they are made into
// may not.
void add_sizes(const LayerSpec& layer, const Layout& layout, NamedSizes& sizes) {
    const std::int64_t t = layout.tensor_parallel;
    const SoftmaxAttention& attention = layer.attention();
    if (const Latents& latents = attention.latents; latents.on()) {
        const std::int64_t plain = attention.head_dim - attention.rotary_dim;
        if (latents.q_rank > 0) sizes.emplace_back("latents of queries", latents.q_rank);
        sizes.emplace_back("queries of a rank", attention.q_width() / t);
        sizes.emplace_back("latents of keys and values", latents.kv_rank);
        sizes.emplace_back("keys and values of a rank",
                           attention.heads * (plain + attention.values()) / t);
    } else {
        sizes.emplace_back("queries, keys and values of a rank", attention.qkv_width() / t);
    }
    sizes.emplace_back("attention's output of a rank", attention.context_width() / t);
    if (const ExpertMlp* experts = layer.experts()) {
        sizes.emplace_back("expert's width of a rank",
                           experts->expert.ffn_hidden / layout.expert_tensor_parallel);
        if (experts->shared_ffn > 0)
            sizes.emplace_back("shared expert's width of a rank", experts->shared_ffn / t);
    } else {
        sizes.emplace_back("MLP's width of a rank", layer.dense().ffn_hidden / t);
    }
}

void check_sizes_of(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const std::int64_t t = layout.tensor_parallel;
    const std::int64_t multiple = multiple_of(scenario.training.fp8.recipe);
    const std::int64_t tokens = layout.micro_batch_size * scenario.training.sequence_length /
                                layout.context_parallel /
                                (layout.sequence_parallel ? t : std::int64_t{1}) /
                                scenario.training.framework.tensor_overlap_parts;
    NamedSizes sizes = {{"tokens of a micro-batch on a rank", tokens},
                        {"hidden size", scenario.model.hidden}};
    for (const LayerSpec& kind : scenario.model.kinds)
        add_sizes(kind, layout, sizes);
    for (const auto& [what, size] : sizes) {
        if (size % multiple == 0) continue;
        Diagnostic& fault = reading.report(
            "S062", pointer_of("fp8_recipe"),
            fmt::format("eight-bit products by this recipe have sizes of multiples of {}",
                        multiple));
        fault.arithmetic = fmt::format("{}: {} = {} × {} + {}", what, size, size / multiple,
                                       multiple, size % multiple);
        fault.help.push_back("another recipe, layout or \"precision\": \"bf16\"");
        return;
    }
}

}  // namespace

void check_fp8(Reading& reading, Scenario& scenario) {
    Training& training = scenario.training;
    if (!reading.good({"training.precision", "training.fp8_recipe", "training.fp8_weights",
                       "training.fp8_stash", "training.fp8_transposes",
                       "training.fp8_param_gather"}))
        return;
    if (training.precision != Precision::fp8)
        return refuse_without_fp8(reading, training.precision);
    if (!training.fp8.on()) return refuse_without_recipe(reading);
    if (!reading.good({"layout", "model", "training.sequence_length"})) return;
    settle(reading, scenario.layout, training.fp8);
    check_choices(reading, scenario.layout, training.fp8);
    check_parameters(reading, scenario.layout, training.fp8);
    check_sizes_of(reading, scenario);
}

}  // namespace orrery::plan
