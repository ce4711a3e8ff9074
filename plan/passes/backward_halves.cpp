#include <algorithm>

#include "plan/check.hpp"
#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

std::size_t at(TensorId id) {
    return static_cast<std::size_t>(id);
}

bool contains(const std::vector<TensorId>& ids, TensorId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Whether all that read the tensor, one or more, can wait; the op that makes it aside.
bool read_by_waiting(const Block& block, const std::vector<bool>& waits, TensorId id,
                     std::size_t made_by) {
    bool any = false;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        if (i == made_by) continue;
        if (contains(block.ops[i].writes, id)) return false;
        if (!contains(block.ops[i].reads, id)) continue;
        if (!waits[i]) return false;
        any = true;
    }
    return any;
}

bool reads_any(const Op& op, const std::vector<bool>& tensors) {
    return std::any_of(op.reads.begin(), op.reads.end(),
                       [&](TensorId id) { return tensors[at(id)]; });
}

// Tensors that are there for the first half alone: what a stage receives, and what collectives and
// casts make of it.
std::vector<bool> received_tensors(const Block& forward, const Block& backward) {
    std::vector<bool> received(backward.tensors.size(), false);
    if (forward.input < 0) return received;
    const std::string& name = forward.tensors[at(forward.input)].name;
    for (std::size_t t = 0; t < backward.tensors.size(); ++t) {
        const Tensor& tensor = backward.tensors[t];
        received[t] =
            tensor.name == name && (tensor.role == Role::stash || tensor.role == Role::recomputed);
    }
    for (const Op& op : backward.ops)
        if (reads_any(op, received) && (is_communication(op.kind()) || casts_to_eight_bits(op)))
            for (const TensorId id : op.writes)
                received[at(id)] = true;
    return received;
}

// The ops that can wait: products that make weights' gradients, and what is done for them alone (a
// sequence-parallel input that is gathered again, an eight-bit copy).
std::vector<bool> waiting_ops(const Block& block, const std::vector<bool>& at_hand) {
    std::vector<bool> waits(block.ops.size(), false);
    // A loss that is computed here, in chunks, leaves no logits for later.
    if (std::any_of(block.ops.begin(), block.ops.end(),
                    [](const Op& op) { return op.is<CrossEntropySum>(); }))
        return waits;
    for (std::size_t i = block.ops.size(); i-- > 0;) {
        const Op& op = block.ops[i];
        if (reads_any(op, at_hand)) continue;
        if (op.is<Gemm>())
            waits[i] = op.as<Gemm>().product == GemmProduct::weight_gradient;
        else if (op.is<GroupedGemm>())
            waits[i] = op.as<GroupedGemm>().product == GemmProduct::weight_gradient;
        else if (op.is<BiasGradientGemm>())
            waits[i] = true;
        else if (is_communication(op.kind()) || casts_to_eight_bits(op))
            waits[i] = std::all_of(op.writes.begin(), op.writes.end(), [&](TensorId id) {
                return read_by_waiting(block, waits, id, i);
            });
    }
    return waits;
}

std::vector<bool> others(std::vector<bool> ops) {
    ops.flip();
    return ops;
}

// The chosen ops of a block with what they touch, and the ends of the chain where `chained`.
Block part_of(const Block& whole, const std::vector<bool>& chosen, bool chained,
              const std::string& name) {
    Block part;
    part.name = name;
    std::vector<bool> touched(whole.tensors.size(), false);
    for (std::size_t i = 0; i < whole.ops.size(); ++i) {
        if (!chosen[i]) continue;
        for (const auto* ids : {&whole.ops[i].reads, &whole.ops[i].writes})
            for (TensorId id : *ids)
                touched[at(id)] = true;
    }
    std::vector<TensorId> now(whole.tensors.size(), -1);
    auto take = [&](TensorId id) {
        if (id < 0 || now[at(id)] >= 0) return;
        now[at(id)] = static_cast<TensorId>(part.tensors.size());
        part.tensors.push_back(whole.tensors[at(id)]);
    };
    // The gradient handed in comes first: a stage may have it elsewhere.
    if (chained || (whole.input >= 0 && touched[at(whole.input)])) take(whole.input);
    for (std::size_t t = 0; t < whole.tensors.size(); ++t)
        if (touched[t]) take(static_cast<TensorId>(t));
    if (chained) {
        take(whole.output);
        part.input = whole.input < 0 ? -1 : now[at(whole.input)];
        part.output = whole.output < 0 ? -1 : now[at(whole.output)];
    }
    std::vector<std::int32_t> moved(whole.ops.size(), -1);  // where ops are now
    for (std::size_t i = 0; i < whole.ops.size(); ++i) {
        if (!chosen[i]) continue;
        moved[i] = static_cast<std::int32_t>(part.ops.size());
        part.ops.push_back(whole.ops[i]);
        for (std::int32_t& earlier : part.ops.back().after) {
            earlier = moved[static_cast<std::size_t>(earlier)];
            ORRERY_CHECK(earlier >= 0, "what an op waits for is in its half");
        }
        for (auto* ids : {&part.ops.back().reads, &part.ops.back().writes})
            for (TensorId& id : *ids)
                id = now[at(id)];
    }
    return part;
}

void change_role(Block& block, const std::string& name, Role from, Role to) {
    for (Tensor& tensor : block.tensors)
        if (tensor.role == from && tensor.name == name) tensor.role = to;
}

// What ops that wait find: tensors of the forward pass are kept, those of backward deferred.
void keep_for_waiting(BlockPair& pair, Block* recompute, Block& split,
                      const std::vector<bool>& waits) {
    for (std::size_t t = 0; t < split.tensors.size(); ++t) {
        const auto id = static_cast<TensorId>(t);
        bool read = false, made = false;
        for (std::size_t i = 0; i < split.ops.size(); ++i) {
            const bool changed = !waits[i] && split.ops[i].phase != Phase::recompute &&
                                 contains(split.ops[i].writes, id);
            ORRERY_CHECK(!changed || !read || made,
                         split.name + " changes " + split.tensors[t].name + ", which waits");
            if (!waits[i]) continue;
            read = read || contains(split.ops[i].reads, id);
            made = made || contains(split.ops[i].writes, id);
        }
        if (!read || made) continue;
        Tensor& tensor = split.tensors[t];
        switch (tensor.role) {
            case Role::stash:
                change_role(pair.forward, tensor.name, Role::stash, Role::kept);
                change_role(pair.backward, tensor.name, Role::stash, Role::kept);
                tensor.role = Role::kept;
                break;
            case Role::recomputed:
                ORRERY_CHECK(recompute != nullptr, "what is made again is made by a block");
                change_role(*recompute, tensor.name, Role::recomputed, Role::deferred);
                change_role(pair.backward, tensor.name, Role::recomputed, Role::deferred);
                tensor.role = Role::deferred;
                break;
            case Role::scratch:
            case Role::input:
                tensor.role = Role::deferred;
                break;
            default:
                ORRERY_CHECK(false, split.name + ": " + tensor.name + " cannot wait");
        }
    }
}

bool is_of_experts(const Block& forward, const std::string& parameter) {
    return std::any_of(forward.parameters.begin(), forward.parameters.end(),
                       [&](const DeclaredParameter& declared) {
                           return declared.spec.experts > 0 &&
                                  forward.tensors[at(declared.tensor)].name == parameter;
                       });
}

// Gradients that `input` makes are handed to `weight`, which puts them with its own: one reduction
// of the bucket serves both.
void hand_on_gradients(const Block& forward, HandsOn hands_on, Block& input, Block& weight) {
    std::vector<Op> copies;
    for (std::size_t t = 0; t < input.tensors.size(); ++t) {
        const Tensor gradient = input.tensors[t];
        if (!is_accumulator(gradient.role)) continue;
        if (!(is_of_experts(forward, gradient.name) ? hands_on.experts : hands_on.others)) continue;
        Tensor& handed = input.tensors[t];
        handed.role = Role::deferred;
        handed.name = "d" + gradient.name;
        for (Op& op : input.ops)
            std::erase(op.reads, static_cast<TensorId>(t));
        Op copy;
        copy.spec = Cast{gradient.elements()};
        copy.phase = Phase::backward;
        copy.dtype = gradient.dtype;
        copy.label = gradient.name;
        copy.reads = {static_cast<TensorId>(weight.tensors.size())};
        weight.tensors.push_back(handed);
        copy.writes = {static_cast<TensorId>(weight.tensors.size())};
        weight.tensors.push_back(gradient);
        copies.push_back(std::move(copy));
    }
    weight.ops.insert(weight.ops.begin(), copies.begin(), copies.end());
}

}  // namespace

BackwardHalves halve_backward(BlockPair& pair, Block* recompute, HandsOn hands_on, bool received) {
    Block split = pair.backward;
    const std::vector<bool> waits =
        waiting_ops(split, received ? received_tensors(pair.forward, split)
                                    : std::vector<bool>(split.tensors.size(), false));
    BackwardHalves parts;
    if (std::find(waits.begin(), waits.end(), true) == waits.end()) {
        parts.input = std::move(split);
        return parts;
    }
    keep_for_waiting(pair, recompute, split, waits);
    parts.input = part_of(split, others(waits), true, split.name + "_input");
    parts.weight = part_of(split, waits, false, split.name + "_weight");
    hand_on_gradients(pair.forward, hands_on, parts.input, *parts.weight);
    return parts;
}

}  // namespace orrery::plan
