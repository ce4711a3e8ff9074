#include "plan/passes/passes.hpp"

namespace orrery::plan {

void recompute_attention_core(ForwardBlock& forward) {
    std::size_t last = forward.block.ops.size();
    for (std::size_t i = 0; i < forward.block.ops.size(); ++i)
        if (forward.attention_core[i]) last = i;
    for (std::size_t i = 0; i < last && last < forward.block.ops.size(); ++i) {
        if (!forward.attention_core[i]) continue;
        for (TensorId id : forward.block.ops[i].writes)
            forward.rematerialise[static_cast<std::size_t>(id)] = true;
    }
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
            return forward.attention_core[index] && index + 1 < forward.attention_core.size() &&
                   !forward.attention_core[index + 1];
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

GroupPart group_part(const ForwardBlock& layer, DType gradient_dtype, GroupPlace place) {
    const auto input = static_cast<std::size_t>(layer.block.input);
    const std::string kept = place == GroupPlace::first ? layer.block.tensors[input].name : "";
    GroupPart part;
    part.pair = derive_backward(layer, gradient_dtype, Again::recompute_all);
    if (place != GroupPlace::first) part.pair.forward.tensors[input].role = Role::input;
    if (place != GroupPlace::last) {
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
