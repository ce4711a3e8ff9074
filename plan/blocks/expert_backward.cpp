// Backward of a layer of experts: its mirror image. The gradient of what comes back goes out to the
// experts as rows do, that of what went out comes back and is summed.
#include "plan/blocks/derivation.hpp"

namespace orrery::plan {
namespace {

// Of the ranks that rows go to: those of the exchange that sends them, or this one.
ExpertPlaces places_of(const Block& block, TensorId rows, std::int64_t experts) {
    for (const Op& op : block.ops)
        if (op.is<AllToAllV>() && op.reads[0] == rows) return op.as<AllToAllV>();
    return {experts};
}

}  // namespace

void Derivation::derive_route(const Op& op) {
    const Route& forward = op.as<Route>();
    const std::int64_t rows = forward.rows, experts = forward.experts;
    // A product with the router's weights reads it.
    const TensorId logits = op.reads[0];
    const DType dtype = forward_.tensors[at(forward_.output)].dtype;
    const TensorId dlogits = add({"drouter_logits", Role::scratch, dtype, {rows, experts}});
    emit(RouteBackward{forward, rows}, op.label,
         {gradient_of(op.writes[2]), need(op.writes[0]), need(op.writes[1])}, {dlogits});
    contribute(logits, dlogits);
    if (forward.biased && !is_frozen(op.reads[1]))
        accumulate(LoadGradient{rows, forward.chosen, experts}, op.label + " load",
                   {need(op.writes[3])}, op.reads[1]);
    TensorId scale = -1;
    const auto scaled = [&](Reads reads) {
        if (notes_.scaled_loss && scale < 0)
            scale = add({"loss scale", Role::scalar, DType::fp32, {1}});
        if (scale >= 0) reads.push_back(scale);
        return reads;
    };
    if (notes_.router_z > 0)
        emit(RouterZGradient{rows, experts, notes_.router_z}, "z loss",
             scaled({dlogits, need(logits)}), {dlogits});
    const ForwardBlock::Balance& balance = notes_.balance;
    if (balance.choices < 0) return;
    BalanceGradient added{rows, forward.chosen, experts};
    added.units = forward_.tensors[at(balance.choices)].dims[0];
    added.unit = balance.unit;
    added.score = forward.score;
    added.coefficient = balance.coefficient;
    emit(added, "balance", scaled({dlogits, need(op.writes[0]), need(balance.choices)}), {dlogits});
}

void Derivation::derive_permute(const Op& op) {
    const Permute& forward = op.as<Permute>();
    const TensorId x = op.reads[0];
    if (!needs_gradient(x)) return;
    Unpermute undone{places_of(forward_, op.writes[0], forward.experts), forward.rows,
                     forward.width, forward.chosen};
    undone.copies = forward.copies * undone.split;
    undone.capacity = forward.capacity;
    Reads reads = {gradient_of(op.writes[0]), need(op.reads[1])};
    Reads writes = {fresh_gradient(x)};
    if (op.reads.size() > 2) {
        reads.push_back(gradient_of(op.writes[1]));
        writes.push_back(fresh_gradient(op.reads[2]));
    }
    emit(undone, op.label, std::move(reads), writes).dtype = forward_.tensors[at(x)].dtype;
    contribute(x, writes[0]);
    if (writes.size() > 1) contribute(op.reads[2], writes[1]);
}

void Derivation::derive_unpermute(const Op& op) {
    const Unpermute& forward = op.as<Unpermute>();
    const TensorId returned = op.reads[0];
    Tensor rows = forward_.tensors[at(returned)];
    rows.name = "d" + rows.name;
    rows.role = Role::scratch;
    const Permute undone{forward.rows,
                         forward.width,
                         forward.chosen,
                         forward.experts,
                         forward.copies / forward.split,
                         forward.capacity};
    rows.dims[0] = undone.copy_room();
    const TensorId drows = add(std::move(rows));
    emit(undone, op.label, {gradient_of(op.writes[0]), need(op.reads[1])}, {drows});
    contribute(returned, drows);
}

void Derivation::derive_spread(const Op& op) {
    OpSpec undone = op.spec;
    if (op.is<SpreadRows>())
        std::get<SpreadRows>(undone).apart = !op.as<SpreadRows>().apart;
    else
        std::get<SpreadWeights>(undone).apart = !op.as<SpreadWeights>().apart;
    const TensorId dx = fresh_gradient(op.reads[0]);
    Reads reads = {gradient_of(op.writes[0])};
    for (std::size_t i = 1; i < op.reads.size(); ++i)
        reads.push_back(need(op.reads[i]));
    emit(undone, op.label, std::move(reads), {dx}).dtype = op.dtype;
    contribute(op.reads[0], dx);
}

GroupedGemm Derivation::product_like(const GroupedGemm& forward, std::int64_t m, std::int64_t n,
                                     std::int64_t k, GemmProduct product) {
    GroupedGemm made = forward;
    made.m = m;
    made.n = n;
    made.k = k;
    made.product = product;
    return made;
}

// As of a gemm, expert by expert.
void Derivation::derive_grouped_gemm(std::size_t index) {
    const Op op = forward_.ops[index];
    if (const auto found = notes_.eight_bit.find(index); found != notes_.eight_bit.end())
        return derive_grouped_eight_bit(op, found->second);
    const GroupedGemm& forward = op.as<GroupedGemm>();
    const TensorId dc = gradient_of(op.writes[0]), counts = need(op.reads[2]);
    const bool trained = !is_frozen(op.reads[1]);
    const TensorId input = trained ? need(op.reads[0]) : TensorId{-1};
    const TensorId da = fresh_gradient(op.reads[0]);
    emit(product_like(forward, forward.m, forward.k, forward.n, GemmProduct::input_gradient),
         op.label + " dgrad", {dc, need(op.reads[1]), counts}, {da});
    contribute(op.reads[0], da);
    if (!trained) return;
    GroupedGemm of_weights =
        product_like(forward, forward.n, forward.k, forward.m, GemmProduct::weight_gradient);
    of_weights.by_source = by_source();
    accumulate_by_source(of_weights, op.label + " wgrad", {dc, input, counts}, op.reads[1]);
}

// The rows' gradient passes by.
void Derivation::derive_expert_bias(const Op& op) {
    const ExpertBias& forward = op.as<ExpertBias>();
    const TensorId dy = gradient_of(op.writes[0]), bias = op.reads[1];
    Reads reads = {dy, need(op.reads[2])};
    if (forward.weighs) {
        reads.push_back(need(op.reads[3]));
        reads.push_back(need(bias));
    }
    accumulate_by_source(
        ExpertBiasBackward{forward, forward.rows, forward.width, forward.weighs, by_source()},
        op.label, std::move(reads), bias);
    if (forward.weighs) {
        const TensorId dweights = fresh_gradient(op.reads[3]);
        backward_.ops.back().writes.push_back(dweights);
        contribute(op.reads[3], dweights);
    }
    contribute(op.reads[0], dy);
}

void Derivation::derive_expert_activation(const Op& op) {
    const ExpertActivate& forward = op.as<ExpertActivate>();
    Reads reads = {gradient_of(op.writes[0])};
    for (const TensorId id : op.reads)
        reads.push_back(need(id));
    Reads writes = {fresh_gradient(op.reads[0])};
    if (forward.weighs) writes.push_back(fresh_gradient(op.reads[1]));
    emit(ExpertActivateBackward{forward, forward.rows, forward.width, forward.function,
                                forward.limit, forward.weighs},
         op.label, std::move(reads), writes);
    for (std::size_t i = 0; i < writes.size(); ++i)
        contribute(op.reads[i], writes[i]);
}

// What was sent to several comes back from each of them.
void Derivation::derive_all_to_all_v(const Op& op) {
    if (!needs_gradient(op.reads[0])) return;
    AllToAllV undone = op.as<AllToAllV>();
    undone.back = !undone.back;
    Tensor of = forward_.tensors[at(op.reads[0])];
    of.name = "d" + of.name;
    of.role = Role::scratch;
    if (undone.back) of.dims[0] *= undone.split;
    const TensorId dx = add(std::move(of));
    Op& back = emit(undone, op.label, {gradient_of(op.writes[0]), need(op.reads[1])}, {dx});
    back.stream = op.stream;
    back.group = op.group;
    contribute(op.reads[0], dx);
}

}  // namespace orrery::plan
