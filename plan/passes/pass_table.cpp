#include "plan/passes/pass_table.hpp"

#include <algorithm>
#include <array>

#include "plan/check.hpp"
#include "plan/passes/activation_stash.hpp"
#include "plan/passes/offload.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

bool always(const PlanInput&) {
    return true;
}

template <Recompute... wanted>
bool recomputes(const PlanInput& input) {
    return ((input.scenario.layout.recompute == wanted) || ...);
}

bool defers_head(const PlanInput& input) {
    return defers_head_weights(input.scenario, input.forms);
}

bool shards_gradients(const PlanInput& input) {
    return input.sharding.gradients;
}

bool validates_later(const PlanInput& input) {
    return !statistics_of(input.scenario).empty();
}

DType made_gradient_dtype(const PlanInput& input) {
    return plan::made_gradient_dtype(input.scenario, input.dims, input.sharding, input.of_experts);
}

PartBlocks derive_layer(const PlanInput& input, ForwardBlock layer, PartPlace place) {
    const bool early = input.scenario.training.framework.recompute_stops_early;
    return {place, derive_backward(std::move(layer), made_gradient_dtype(input),
                                   early ? Again::recompute_needed : Again::recompute_all)};
}

// A group's only layer is as one that is made again whole.
PartBlocks derive_in_group(const PlanInput& input, ForwardBlock layer, PartPlace place) {
    const DType dtype = made_gradient_dtype(input);
    if (!is_grouped(place))
        return {place, derive_backward(std::move(layer), dtype, Again::recompute_all)};
    GroupPart part = group_part(layer, dtype, place);
    return {place, std::move(part.pair), true, std::move(part.recompute)};
}

void compress(const PlanInput& input, PartBlocks& part) {
    if (!is_layer(part.place)) return;
    std::vector<Block*> readers = {&part.pair.backward};
    if (part.recompute) readers.push_back(&*part.recompute);
    compress_stash(input.scenario, input.dims, part.pair.forward, readers);
}

void split_communication(const PlanInput& input, PartBlocks& part) {
    if (!is_layer(part.place)) return;
    const std::int64_t parts = input.scenario.training.framework.tensor_overlap_parts;
    split_tensor_communication(part.pair.forward, parts);
    split_tensor_communication(part.pair.backward, parts);
    if (part.recompute) split_tensor_communication(*part.recompute, parts);
}

void fuse_residuals_of(const PlanInput&, PartBlocks& part) {
    if (!is_layer(part.place)) return;
    fuse_residuals(part.pair.forward);
    fuse_residuals(part.pair.backward);  // of what is made again
    if (part.recompute) fuse_residuals(*part.recompute);
}

void fuse_norms_of(const PlanInput&, PartBlocks& part) {
    if (!is_layer(part.place)) return;
    fuse_norms(part.pair.forward);
    fuse_norms(part.pair.backward);  // of what is made again
    if (part.recompute) fuse_norms(*part.recompute);
}

void fuse_epilogues_of(const PlanInput&, PartBlocks& part) {
    if (!is_layer(part.place)) return;
    fuse_epilogues(part.pair.forward);
    fuse_epilogues(part.pair.backward);
    if (part.recompute) fuse_epilogues(*part.recompute);
}

void fuse_bias_gradients_of(const PlanInput&, PartBlocks& part) {
    if (is_layer(part.place)) fuse_bias_gradients(part.pair.backward);
}

void halve(const PlanInput& input, PartBlocks& part) {
    if (!input.forms.split) return;  // a piece of the vocabulary, which is run whole
    part.whole = input.forms.whole;
    const HandsOn hands_on = {input.of_experts.gradients, input.sharding.gradients};
    part.halves = halve_backward(part.pair, part.recompute ? &*part.recompute : nullptr, hands_on,
                                 is_layer(part.place));
}

void halve_head(const PlanInput& input, PartBlocks& part) {
    if (part.place != PartPlace::head) return;
    PlanInput split = input;
    split.forms.split = true;
    halve(split, part);
    part.whole = false;
}

void serialise(const PlanInput&, PartBlocks& part) {
    serialise_tensor_communication(part.pair.backward);
    if (!part.halves) return;
    serialise_tensor_communication(part.halves->input);
    if (part.halves->weight) serialise_tensor_communication(*part.halves->weight);
}

void defer_head(const StagePlacement& placement, std::int32_t pipeline_rank,
                std::vector<LoweredStep>& row) {
    const std::int32_t head = placement.stages() - 1;
    if (placement.rank_of(head) == pipeline_rank) defer_head_weights(row, head);
}

std::vector<Pass> make_passes() {
    using enum PassId;
    return {
        // Blocks of a layer, before backward is derived from them.
        {recompute_modules,
         "recompute modules",
         "backward makes again what chosen modules of a layer make",
         "`layout.recompute` is `selective`",
         recomputes<Recompute::selective>,
         {recompute_operations, recompute_layers, recompute_groups},
         OverForward{[](const PlanInput& input, ForwardBlock& layer) {
             plan::recompute_modules(layer, input.scenario.layout.recompute_modules);
         }}},
        {recompute_operations,
         "recompute operations",
         "backward makes again all but every second product's result and attention's",
         "`layout.recompute` is `selective_op`",
         recomputes<Recompute::selective_op>,
         {recompute_layers, recompute_groups},
         OverForward{
             [](const PlanInput&, ForwardBlock& layer) { plan::recompute_operations(layer); }}},

        // How backward is derived.
        {recompute_layers,
         "recompute layers",
         "backward begins with a layer's forward pass again",
         "`layout.recompute` is `full` or `selective_layer`",
         recomputes<Recompute::full, Recompute::selective_layer>,
         {recompute_groups},
         OverDerivation{[](const PlanInput& input, PartPlace place) {
                            return input.scenario.layout.recompute == Recompute::full
                                       ? is_layer(place)
                                       : place == PartPlace::chosen;
                        },
                        derive_layer}},
        {recompute_groups,
         "recompute groups",
         "of several layers in a row the first one's input is kept, and the group made again",
         "`layout.recompute` is `every_k`",
         recomputes<Recompute::every_k>,
         {},
         OverDerivation{[](const PlanInput&, PartPlace place) { return is_layer(place); },
                        derive_in_group}},
        {loss_chunks,
         "loss chunks",
         "the head's logits, their loss and gradients come chunk by chunk, in backward",
         "`training.loss_chunks` is more than 1",
         [](const PlanInput& input) { return input.scenario.training.loss_chunks > 1; },
         {PassId::halve_head, PassId::defer_head},
         OverDerivation{[](const PlanInput&, PartPlace place) { return place == PartPlace::head; },
                        [](const PlanInput& input, ForwardBlock head, PartPlace place) {
                            return PartBlocks{
                                place, head_in_chunks(std::move(head), made_gradient_dtype(input),
                                                      input.scenario.training.loss_chunks)};
                        }}},

        // A part's blocks, forward and backward.
        {compress_stash,
         "compress stash",
         "what a layer keeps for backward waits in fewer bits",
         "`layout.activation_stash` is not `same`",
         [](const PlanInput& input) {
             return input.scenario.layout.activation_stash != ActivationStash::same;
         },
         {},
         OverPart{compress}},
        {split_tensor_communication,
         "split tensor communication",
         "a layer's tensor-parallel communication goes in parts, beside the products around it",
         "`training.tensor_overlap_parts` is more than 1",
         [](const PlanInput& input) {
             return input.scenario.training.framework.tensor_overlap_parts > 1;
         },
         {},
         OverPart{split_communication}},
        {PassId::fuse_residuals,
         "fuse residuals",
         "a product at the end of a layer's branch adds the residual",
         "`training.residual_kernel` is `epilogue`",
         [](const PlanInput& input) {
             return input.scenario.training.framework.residual_kernel == ResidualKernel::epilogue;
         },
         {},
         OverPart{fuse_residuals_of}},
        {PassId::fuse_norms,
         "fuse norms",
         "a layer's residual addition and the norm that reads its sum at once are one kernel",
         "`training.norm_kernel` is `fused_add`",
         [](const PlanInput& input) {
             return input.scenario.training.framework.norm_kernel == NormKernel::fused_add;
         },
         {},
         OverPart{fuse_norms_of}},
        {PassId::fuse_epilogues,
         "fuse epilogues",
         "a product takes along the function between an MLP's products, and in backward its slope",
         "`training.activation_kernel` is `epilogue`",
         [](const PlanInput& input) {
             return input.scenario.training.framework.activation_kernel ==
                    ActivationKernel::epilogue;
         },
         {},
         OverPart{fuse_epilogues_of}},
        {PassId::fuse_bias_gradients,
         "fuse bias gradients",
         "a layer's weight gradient and the bias gradient of the same rows are one product",
         "`training.bias_gradient_kernel` is `epilogue`",
         [](const PlanInput& input) {
             return input.scenario.training.framework.bias_gradient_kernel ==
                    BiasGradientKernel::epilogue;
         },
         {},
         OverPart{fuse_bias_gradients_of}},
        {halve_backward,
         "halve backward",
         "backward is in two: what the stage before waits for, and what can wait itself",
         "the schedule has actions I and W",
         [](const PlanInput& input) { return input.forms.split; },
         {PassId::halve_head, PassId::defer_head},
         OverPart{halve}},
        {PassId::halve_head,
         "halve head",
         "the same, of the head alone",
         "`training.defer_embedding_gradient`, with a pipeline",
         defers_head,
         {},
         OverPart{orrery::plan::halve_head}},
        {serialise_tensor_communication,
         "serialise tensor communication",
         "in backward, tensor-parallel communication waits for the product before it",
         "`training.overlap_tensor_backward` is false",
         [](const PlanInput& input) {
             return !input.scenario.training.framework.overlap_tensor_backward;
         },
         {},
         OverPart{serialise}},

        // The actions of a pipeline rank.
        {PassId::defer_head,
         "defer head",
         "the head's weight gradients come behind all other backward work of the last stage",
         "as halve head",
         defers_head,
         {},
         OverSchedule{orrery::plan::defer_head}},

        // A program's stages, and memory for what lives between actions.
        {PassId::form_buckets,
         "form buckets",
         "parts are grouped into buckets, and ranks share out their states",
         "always",
         always,
         {},
         OverStages{plan::form_buckets}},
        {fixed_residents,
         "fixed residents",
         "memory that every program has",
         "always",
         always,
         {},
         OverStages{add_fixed_residents}},
        {zero_rings,
         "ZeRO rings",
         "slots that gathered parameters, and gradients on their way to shards, take turns in",
         "`layout.zero_stage` is 2 or 3, and there are ranks to share with",
         shards_gradients,
         {},
         OverStages{add_rings}},
        {statistics,
         "statistics",
         "memory for sums of statistics over stages",
         "`layout.optimizer_post_validation`",
         validates_later,
         {loss_spike, offload_states, offload_activations},
         OverStages{add_statistics}},

        // Procedures of actions.
        {PassId::gather_received,
         "gather received",
         "tensor ranks have sent a share each of a boundary activation, and gather it",
         "`training.scatter_gather_transfers`, without sequence parallelism",
         [](const PlanInput& input) { return scatters_transfers(input.scenario, input.dims); },
         {},
         OverAction{insert_gather_received}},
        {zero_gathers,
         "ZeRO gathers",
         "parameters are gathered ahead of their use, gradients pass through the ring",
         "as ZeRO rings",
         shards_gradients,
         {},
         OverAction{insert_rings}},
        {quantize_weights,
         "quantize weights",
         "a step's first forward pass makes scales and eight-bit weights",
         "`training.fp8_recipe` is `delayed`, or `training.fp8_weights` is `step`",
         [](const PlanInput& input) {
             const Fp8& fp8 = input.dims.fp8;
             return fp8.on() && (fp8.recipe == Fp8Recipe::delayed || fp8.weights_per_step);
         },
         {},
         OverAction{insert_quantizing}},
        {first_gathers,
         "first gathers",
         "a step's first forward pass gathers the parameters that the step before has changed",
         "`training.overlap_parameter_gather`, and `layout.zero_stage` is 1 or 2",
         [](const PlanInput& input) { return gathers_parameters_ahead(input.scenario); },
         {},
         OverAction{insert_first_gathers}},

        // A program that has the schedule's steps: what follows them.
        {late_reduction,
         "late reduction",
         "gradients are reduced when all backward passes are done",
         "`training.overlap_gradient_reduce` is false, and `layout.zero_stage` is 0 or 1",
         [](const PlanInput& input) {
             return !input.scenario.training.framework.overlap_gradient_reduce &&
                    !input.sharding.gradients;
         },
         {zero_rings, zero_gathers},
         OverSteps{add_late_reduction}},
        {tied_reduction,
         "tied reduction",
         "the gradients of a tied embedding are summed over the first and last pipeline rank",
         "`tie_word_embeddings`",
         [](const PlanInput& input) { return input.scenario.model.embeds_at_both_ends(); },
         {},
         OverSteps{add_tied_reduction}},
        {unscale,
         "unscale",
         "the loss scale is taken off gradients, and overflow looked for",
         "`training.precision` is `fp16`",
         [](const PlanInput& input) { return input.dims.scales_loss(); },
         {},
         OverSteps{add_unscaling}},
        {clip,
         "clip",
         "the global norm of gradients",
         "`training.optimizer.clip_norm` is above 0",
         [](const PlanInput& input) { return input.scenario.training.optimizer.clip_norm > 0; },
         {},
         OverSteps{add_clipping}},
        {loss_spike,
         "loss spike",
         "a step whose loss has spiked is not taken",
         "`training.loss_spike.skip_above`",
         [](const PlanInput& input) { return input.scenario.training.loss_spike.skips(); },
         {},
         OverOptimizer{add_loss_spike}},
        {amaxes,
         "amaxes",
         "ranks that share tensors agree on the largest magnitudes",
         "`training.fp8_recipe` is `delayed`",
         [](const PlanInput& input) { return input.dims.fp8.recipe == Fp8Recipe::delayed; },
         {},
         OverOptimizer{add_amaxes}},
        {optimizer,
         "optimizer",
         "states are stepped, and what has changed is gathered",
         "always",
         always,
         {},
         OverSteps{add_optimizer}},
        {sums,
         "sums",
         "statistics are handed on from stage to stage",
         "as statistics",
         validates_later,
         {},
         OverSteps{add_sums}},
        {PassId::release_received,
         "release received",
         "what a stage has received is given up where backward reads none of it",
         "always",
         always,
         {},
         OverSteps{plan::release_received}},
        {PassId::offload_states,
         "offload states",
         "states are fetched before their use from another tier of memory, and stored behind it",
         "`layout.offload.optimizer`, `gradients` or `parameters`",
         [](const PlanInput& input) {
             const Offload& offload = input.scenario.layout.offload;
             return offload.optimizer != KeptOn::none || offload.gradients != KeptOn::none ||
                    offload.parameters != KeptOn::none;
         },
         {},
         OverSteps{plan::offload_states}},
        {PassId::offload_activations,
         "offload activations",
         "what backward reads is moved to another tier of memory until then",
         "`layout.offload.activations`",
         [](const PlanInput& input) {
             return input.scenario.layout.offload.activations != KeptOn::none;
         },
         {},
         OverSteps{plan::offload_activations}},
    };
}

bool excludes(const Pass& pass, PassId other) {
    return std::find(pass.excludes.begin(), pass.excludes.end(), other) != pass.excludes.end();
}

}  // namespace

bool is_layer(PartPlace place) {
    return place != PartPlace::end && place != PartPlace::head;
}

bool is_grouped(PartPlace place) {
    return place == PartPlace::group_first || place == PartPlace::group_middle ||
           place == PartPlace::group_last;
}

const std::vector<Pass>& passes() {
    static const std::vector<Pass> table = make_passes();
    return table;
}

std::string_view runs_over(const Pass& pass) {
    constexpr std::array<std::string_view, 8> names = {"forward block", "derivation", "part",
                                                       "schedule",      "stages",     "action",
                                                       "steps",         "optimizer"};
    static_assert(std::variant_size_v<decltype(pass.over)> == names.size());
    return names.at(pass.over.index());
}

std::optional<std::pair<PassId, PassId>> excluded_pair(const std::vector<const Pass*>& rows) {
    for (const Pass* a : rows)
        for (const Pass* b : rows)
            if (excludes(*a, b->id)) return std::pair{a->id, b->id};
    return std::nullopt;
}

ChosenPasses::ChosenPasses(const PlanInput& input) {
    for (const Pass& pass : passes())
        if (pass.applies(input)) rows_.push_back(&pass);
    ORRERY_CHECK(!excluded_pair(rows_), "a scenario with passes that exclude each other is valid");
}

bool ChosenPasses::has(PassId id) const {
    return std::any_of(rows_.begin(), rows_.end(), [id](const Pass* p) { return p->id == id; });
}

PartBlocks ChosenPasses::derive(const PlanInput& input, ForwardBlock forward,
                                PartPlace place) const {
    for (const Pass* pass : rows_)
        if (const auto* over = std::get_if<OverDerivation>(&pass->over))
            if (over->of(input, place)) return over->run(input, std::move(forward), place);
    return {place, derive_backward(std::move(forward), made_gradient_dtype(input), Again::nothing)};
}

}  // namespace orrery::plan
