#include <algorithm>

#include "plan/passes/passes.hpp"

namespace orrery::plan {

namespace {

void let_go(ForwardBlock& forward, std::size_t index) {
    for (const TensorId id : forward.block.ops[index].writes)
        if (forward.block.tensors[static_cast<std::size_t>(id)].role == Role::scratch)
            forward.rematerialise[static_cast<std::size_t>(id)] = true;
}

// All that a module makes on the way to its result, which is kept where backward needs it.
void run_again(ForwardBlock& forward, LayerModule module) {
    const std::size_t ops = forward.block.ops.size();
    std::size_t last = ops;
    for (std::size_t i = 0; i < ops; ++i)
        if (same_module(forward.module[i], module)) last = i;
    for (std::size_t i = 0; i < ops && last < ops; ++i) {
        if (!same_module(forward.module[i], module)) continue;
        forward.runs_whole[i] = true;
        if (i < last) let_go(forward, i);
    }
}

// What a module makes, each op by itself.
void discard_results(ForwardBlock& forward, LayerModule module) {
    for (std::size_t i = 0; i < forward.block.ops.size(); ++i)
        if (forward.module[i] == module) let_go(forward, i);
}

// Eight-bit copies of what is let go are made again, too; the scales that they are made by stay.
void discard_copies(ForwardBlock& forward) {
    for (std::size_t i = 0; i < forward.block.ops.size(); ++i) {
        const Op& op = forward.block.ops[i];
        if ((op.is<Quantize>() || op.is<QuantizeRows>()) &&
            forward.rematerialise[static_cast<std::size_t>(op.reads[0])])
            let_go(forward, i);
    }
}

}  // namespace

void recompute_modules(ForwardBlock& forward, const RecomputedModules& modules) {
    if (modules.core_attention) run_again(forward, LayerModule::attention_core);
    const bool experts = std::any_of(forward.block.ops.begin(), forward.block.ops.end(),
                                     [](const Op& op) { return op.is<Route>(); });
    if (experts ? modules.experts : modules.mlp) run_again(forward, LayerModule::mlp);
    if (modules.latent_up) discard_results(forward, LayerModule::latent_up);
    if (modules.norms) discard_results(forward, LayerModule::norm);
    if (experts ? modules.expert_activation : modules.activation)
        discard_results(forward, LayerModule::mlp_activation);
    discard_copies(forward);
}

namespace {

// Results that a recomputed op leaves as they are: of attention, of sums over the tensor group, and
// the scalars that a matrix is cast by.
bool keeps_results(const ForwardBlock& forward, std::size_t index) {
    switch (forward.block.ops[index].kind()) {
        case OpKind::attention:
        case OpKind::attention_block:
        case OpKind::reduce_scatter:
        case OpKind::amax:
            return true;
        default:
            return forward.module[index] == LayerModule::attention_core &&
                   index + 1 < forward.module.size() &&
                   forward.module[index + 1] != LayerModule::attention_core;
    }
}

}  // namespace

void recompute_operations(ForwardBlock& forward) {
    const Block& block = forward.block;
    std::vector<bool> kept(block.tensors.size(), false);
    bool every_second = true;
    for (std::size_t i = 0; i < block.ops.size(); ++i)
        for (const TensorId id : block.ops[i].writes) {
            const auto at = static_cast<std::size_t>(id);
            if (block.ops[i].is<Gemm>()) {
                kept[at] = every_second;
                every_second = !every_second;
            } else if (keeps_results(forward, i)) {
                kept[at] = true;
            }
        }
    for (std::size_t i = 0; i < block.tensors.size(); ++i)
        if (block.tensors[i].role == Role::scratch && !kept[i] &&
            static_cast<TensorId>(i) != block.input)
            forward.rematerialise[i] = true;
}

namespace {

// What a block would find in the stash it finds where it was made again; the group's input stays.
void read_recomputed(Block& block, const std::string& kept) {
    for (Tensor& tensor : block.tensors)
        if (tensor.role == Role::stash && tensor.name != kept) tensor.role = Role::recomputed;
}

}  // namespace

GroupPart group_part(const ForwardBlock& layer, DType gradient_dtype, PartPlace place) {
    const auto input = static_cast<std::size_t>(layer.block.input);
    const std::string kept = place == PartPlace::group_first ? layer.block.tensors[input].name : "";
    GroupPart part;
    part.pair = derive_backward(layer, gradient_dtype, Again::recompute_all);
    if (place != PartPlace::group_first) part.pair.forward.tensors[input].role = Role::input;
    if (place != PartPlace::group_last) {
        BlockPair whole = derive_backward(layer, gradient_dtype, Again::nothing);
        part.pair.backward = std::move(whole.backward);
        part.recompute = std::move(whole.forward);
        part.recompute->name = block_name(layer.block.name, "recompute");
        part.recompute->parameters.clear();
        for (Op& op : part.recompute->ops)
            op.phase = Phase::recompute;
        read_recomputed(*part.recompute, kept);
    }
    read_recomputed(part.pair.backward, kept);
    return part;
}

}  // namespace orrery::plan
