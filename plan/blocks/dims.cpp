#include "plan/blocks/dims.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::plan {
namespace {

DType type_of(StateType type, DType same) {
    switch (type) {
        case StateType::bf16:
            return DType::bf16;
        case StateType::fp16:
            return DType::fp16;
        case StateType::fp8:
            return DType::fp8_e4m3;
        case StateType::same:
        case StateType::none:
            break;
    }
    return same;
}

// Megatron Core's get_capacity.
std::int64_t expert_capacity(double factor, std::int64_t tokens, std::int64_t chosen,
                             std::int64_t experts) {
    return static_cast<std::int64_t>(
        std::ceil(static_cast<double>(tokens * chosen) / static_cast<double>(experts) * factor));
}

// A rank may send every row to one other, or as many as this has experts. Where experts are chosen
// alike often, those with too little capacity are full.
void set_experts(const Scenario& scenario, const ExpertMlp& experts, Dims& dims) {
    const Layout& layout = scenario.layout;
    const ExpertRouting& routed = scenario.training.routing;
    const std::int64_t split = layout.expert_tensor_parallel, all = experts.routing.experts;
    const std::int64_t chosen = experts.routing.chosen, tokens = dims.sharded_tokens;
    dims.places = {all, layout.expert_parallel * split, split};
    dims.gradient_sources = layout.gradient_sources();
    dims.expert_ffn = experts.expert.ffn_hidden / split;
    const std::int64_t sent = tokens * chosen;
    dims.expected_rows = sent * split;
    std::int64_t most_of_expert = tokens;  // from one rank
    if (routed.drops()) {
        const bool of_sequence = routed.capacity_of == CapacityUnit::sequence;
        dims.unit_tokens = of_sequence ? dims.sequence * layout.context_parallel : tokens;
        dims.units = of_sequence ? dims.batch : 1;
        dims.drop_policy = routed.drop_policy;
        dims.capacity = expert_capacity(routed.capacity_factor, dims.unit_tokens, chosen, all);
        const double kept = std::min(1.0, static_cast<double>(dims.capacity * all) /
                                              static_cast<double>(dims.unit_tokens * chosen));
        dims.expected_rows = std::llround(kept * static_cast<double>(sent)) * split;
        most_of_expert = std::min(tokens, dims.units * dims.capacity);
    }
    const std::int64_t most =
        dims.places.ranks * std::min(tokens * std::min(chosen, dims.places.local()),
                                     most_of_expert * dims.places.local());
    const auto bound = static_cast<std::int64_t>(
        std::ceil(layout.expert_row_bound * static_cast<double>(dims.expected_rows)));
    dims.expert_rows = std::min(most, bound);
    if (dims.places.ranks == 1) dims.expert_rows = sent;
    if (routed.pads_to_capacity) {
        dims.padded_rows = dims.capacity;
        dims.expected_rows = dims.expert_rows = all * dims.capacity * split;
    }
    dims.dispatcher = layout.expert_dispatcher;
    if (dims.dispatcher == ExpertDispatcher::alltoall || dims.places.ranks == 1) return;
    dims.copies = dims.copy_rows = dims.places.ranks * tokens;
    if (dims.dispatcher == ExpertDispatcher::allgather) return;
    const Routing& routing = experts.routing;
    dims.draws = {tokens, chosen, routing.experts, routing.groups, routing.kept_groups};
    const double copies = dims.draws.copies(layout.expert_parallel) * static_cast<double>(split);
    dims.copies = std::llround(copies);
    dims.copy_rows = std::min(
        dims.copy_rows, static_cast<std::int64_t>(
                            std::ceil(layout.expert_row_bound * static_cast<double>(dims.copies))));
}

}  // namespace

Dims dims_of(const Scenario& scenario) {
    return dims_of(scenario, scenario.model.layer());
}

Dims dims_of(const Scenario& scenario, const LayerSpec& layer) {
    const Model& model = scenario.model;
    const SoftmaxAttention& attention = layer.attention();
    const Layout& layout = scenario.layout;
    const std::int64_t t = layout.tensor_parallel;
    Dims dims;
    dims.batch = layout.micro_batch_size;
    dims.sequence = scenario.training.sequence_length / layout.context_parallel;
    dims.tokens = dims.batch * dims.sequence;
    dims.sequence_parallel = layout.sequence_parallel && t > 1;
    dims.sharded_tokens = dims.sequence_parallel ? dims.tokens / t : dims.tokens;
    dims.keeps_gathered = scenario.training.framework.gathered_inputs == GatheredInputs::kept;
    dims.composed_norms = scenario.training.framework.norm_kernel == NormKernel::composed;
    dims.any_order = !scenario.training.deterministic;
    dims.split_experts = scenario.training.framework.expert_biases == ExpertBiases::split;
    dims.hidden = model.hidden;
    dims.heads = attention.heads / t;
    dims.kv_heads = attention.kv_heads / t;
    dims.head_dim = attention.head_dim;
    dims.value_dim = attention.values();
    dims.context = layout.context_parallel;
    dims.exchanges_heads = dims.context > 1 && !layout.balances_context();
    const bool windowed = attention.window < scenario.training.sequence_length;
    dims.window = windowed ? attention.window : 0;
    dims.chunk = attends_in_chunks(scenario, attention) ? attention.chunk : 0;
    if (const ExpertMlp* const experts = layer.experts()) set_experts(scenario, *experts, dims);
    dims.balance_loss = scenario.training.routing.balance_loss;
    const bool of_sequence = scenario.training.routing.balance_of == BalanceUnit::sequence;
    dims.balanced_units = of_sequence ? dims.batch : 1;
    dims.z_loss = scenario.training.routing.z_loss;
    dims.bias_rate = scenario.training.routing.bias_rate;
    dims.vocabulary = padded_vocabulary(scenario) / layout.vocabulary_ranks();
    if (layout.shares_vocabulary()) dims.words.pipeline_ranks = layout.pipeline_parallel;
    dims.tensor = t;
    dims.dtype = *from_name<DType>(name(held_precision(scenario.training.precision)));
    dims.fp8 = scenario.training.fp8;
    dims.lora = scenario.training.lora;
    dims.wide_dtype = dims.dtype == DType::fp64 ? DType::fp64 : DType::fp32;
    dims.gradient_dtype =
        scenario.training.framework.gradient_bytes >= 4 ? dims.wide_dtype : dims.dtype;
    dims.runs_ahead = layout.staleness > 0;
    const Optimizer& optimizer = scenario.training.optimizer;
    dims.first_moment = type_of(optimizer.first_moment, dims.wide_dtype);
    dims.second_moment = type_of(optimizer.second_moment, dims.wide_dtype);
    dims.main_parameters = type_of(optimizer.main_parameters, dims.wide_dtype);
    dims.steps_weights = optimizer.main_parameters == StateType::none;
    return dims;
}

}  // namespace orrery::plan
