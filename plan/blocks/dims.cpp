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

// A rank may send every row to one other, or as many as this has experts.
void set_experts(const ExpertMlp& experts, const Layout& layout, Dims& dims) {
    const std::int64_t split = layout.expert_tensor_parallel;
    const std::int64_t chosen = experts.routing.chosen, tokens = dims.sharded_tokens;
    dims.places = {experts.routing.experts, layout.expert_parallel * split, split};
    dims.expert_ffn = experts.expert.ffn_hidden / split;
    dims.expected_rows = tokens * chosen * split;
    const std::int64_t most = dims.places.ranks * tokens * std::min(chosen, dims.places.local());
    const auto bound = static_cast<std::int64_t>(
        std::ceil(layout.expert_row_bound * static_cast<double>(dims.expected_rows)));
    dims.expert_rows = std::min(most, bound);
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
    dims.composed_norms = scenario.training.framework.norm_kernel == NormKernel::composed;
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
    if (const ExpertMlp* const experts = layer.experts()) set_experts(*experts, layout, dims);
    dims.balance_loss = scenario.training.routing.balance_loss;
    dims.z_loss = scenario.training.routing.z_loss;
    dims.bias_rate = scenario.training.routing.bias_rate;
    dims.vocabulary = padded_vocabulary(scenario) / t;
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
