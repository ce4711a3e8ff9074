// The derivation of one backward block (plan/blocks/backward.hpp): what its parts share. Products
// of eight bits are derived in plan/blocks/eight_bit_backward.cpp, what layers of experts are made
// of in plan/blocks/expert_backward.cpp, all else in plan/blocks/backward.cpp.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "plan/blocks/backward.hpp"
#include "plan/blocks/backward_writer.hpp"
#include "plan/blocks/eight_bit.hpp"
#include "plan/check.hpp"

namespace orrery::plan {

class Derivation : public BackwardWriter {
    using Reads = std::vector<TensorId>;

  public:
    Derivation(ForwardBlock forward, DType gradient_dtype);

    // The first `recomputed_ops` of the forward block run again in front.
    BlockPair run(std::size_t recomputed_ops);

    const Block& forward() const override { return forward_; }

    TensorId add(Tensor tensor) override {
        backward_.tensors.push_back(std::move(tensor));
        return static_cast<TensorId>(backward_.tensors.size() - 1);
    }

    std::int32_t last_op() const override {
        return static_cast<std::int32_t>(backward_.ops.size()) - 1;
    }

    bool has_tensor(const std::string& name) const {
        return std::any_of(backward_.tensors.begin(), backward_.tensors.end(),
                           [&](const Tensor& tensor) { return tensor.name == name; });
    }

    Op& emit(OpSpec spec, std::string label, Reads reads, Reads writes) override {
        Op op;
        op.spec = std::move(spec);
        op.phase = Phase::backward;
        op.label = std::move(label);
        op.dtype = backward_.tensors[at(writes.front())].dtype;
        op.reads = std::move(reads);
        op.writes = std::move(writes);
        if (is_communication(op.kind())) {
            op.stream = Stream::tensor_comm;
            op.group = GroupKind::tensor;
        }
        backward_.ops.push_back(std::move(op));
        return backward_.ops.back();
    }

    // The backward block's name for a forward tensor: a parameter, something stashed, or something
    // made again.
    TensorId need(TensorId id) override {
        if (kept_[at(id)] >= 0) return kept_[at(id)];
        const Tensor& tensor = forward_.tensors[at(id)];
        if (notes_.rematerialise[at(id)]) {
            make_again(id);
            if (kept_[at(id)] < 0) make_again(id);  // gathered for forward, and now for this
            return kept_[at(id)];
        }
        Tensor copy = tensor;
        if (tensor.role == Role::scratch) {
            forward_.tensors[at(id)].role = Role::stash;
            copy.role = Role::stash;
        }
        return kept_[at(id)] = add(std::move(copy));
    }

    // Emits again every op that writes the tensor, with what those need; all of a module that runs
    // again whole, as a checkpointed one does (Megatron-LM's selective recomputation).
    void make_again(TensorId id) {
        for (std::size_t i = 0; i < forward_.ops.size(); ++i) {
            const auto& writes = forward_.ops[i].writes;
            if (std::find(writes.begin(), writes.end(), id) == writes.end()) continue;
            if (notes_.runs_whole[i])
                run_module_again(i);
            else
                emit_again(i);
        }
    }

    // Its collectives are part of the forward work that is done again.
    void run_module_again(std::size_t of) {
        std::vector<std::size_t> module;
        for (std::size_t i = 0; i < forward_.ops.size(); ++i)
            if (notes_.runs_whole[i] && same_module(notes_.module[i], notes_.module[of]))
                module.push_back(i);
        for (const std::size_t i : module)
            emit_again(i, Phase::recompute);
        forget_gathered(module);
        for (const std::size_t i : module)
            notes_.runs_whole[i] = false;  // what is gathered for backward alone comes by itself
    }

    // A collective that is only repeated is communication of the backward pass.
    void emit_again(std::size_t index) {
        emit_again(index, is_communication(forward_.ops[index].kind()) ? Phase::backward
                                                                       : Phase::recompute);
    }

    void emit_again(std::size_t index, Phase phase) {
        if (std::find(again_.begin(), again_.end(), index) != again_.end()) return;
        again_.push_back(index);
        Op op = forward_.ops[index];
        op.phase = phase;
        leave_what_is_kept(op);
        for (TensorId& id : op.writes)
            id = made_again(id);
        for (TensorId& id : op.reads)
            id = need(id);
        for (std::int32_t& earlier : op.after)
            earlier = emitted_again_.at(earlier);
        emitted_again_[static_cast<std::int32_t>(index)] =
            static_cast<std::int32_t>(backward_.ops.size());
        backward_.ops.push_back(std::move(op));
    }

    // Of a product in two matrices the one that is not kept: the last columns.
    void leave_what_is_kept(Op& op) const {
        if (!op.is<Gemm>() || op.writes.size() == 1) return;
        if (!notes_.rematerialise[at(op.writes[1])] || notes_.rematerialise[at(op.writes[0])])
            return;
        op.writes.erase(op.writes.begin());
        op.as<Gemm>().n /= 2;
    }

    TensorId made_again(TensorId id) {
        if (kept_[at(id)] < 0) {
            Tensor copy = forward_.tensors[at(id)];
            copy.role = copy.role == Role::scalar ? Role::scalar : Role::scratch;
            while (has_tensor(copy.name))
                copy.name += "_again";
            kept_[at(id)] = add(std::move(copy));
        }
        return kept_[at(id)];
    }

    void emit_forward_again(std::size_t ops) {
        std::vector<std::size_t> all;
        for (std::size_t i = 0; i < ops; ++i) {
            emit_again(i, Phase::recompute);
            all.push_back(i);
        }
        forget_gathered(all);
    }

    // Gathered inputs that are not kept for the weight gradients are not even now: they are
    // gathered again.
    void forget_gathered(const std::vector<std::size_t>& ops) {
        for (const std::size_t i : ops) {
            const Op& op = forward_.ops[i];
            if (!op.is<AllGather>() || op.group == GroupKind::expert) continue;
            if (op.group == GroupKind::tensor && notes_.keeps_gathered) continue;
            for (const TensorId whole : op.writes)
                kept_[at(whole)] = -1;
            again_.erase(std::find(again_.begin(), again_.end(), i));
        }
    }

    // Gradient of a forward tensor whose contributions are complete.
    TensorId gradient_of(TensorId id) override {
        const TensorId gradient = gradient_of_[at(id)];
        ORRERY_CHECK(gradient >= 0, "no gradient for " + forward_.tensors[at(id)].name);
        return gradient;
    }

    TensorId fresh_gradient(TensorId id) override {
        const Tensor& tensor = forward_.tensors[at(id)];
        // Of an eight-bit copy: that of what it is a copy of.
        const bool copy = is_eight_bit(tensor.dtype);
        const std::string of =
            tensor.name.substr(0, copy ? tensor.name.rfind('.') : std::string::npos);
        std::string name = "d" + of;
        for (int part = 2; has_tensor(name); ++part)
            name = "d" + of + "_" + std::to_string(part);
        return add(
            {std::move(name), Role::scratch, copy ? DType::bf16 : tensor.dtype, tensor.dims});
    }

    // A further contribution to the gradient of a tensor is added to the ones before.
    void contribute(TensorId id, TensorId gradient) override {
        add_up(gradient_of_[at(id)], id, gradient);
    }

    void add_up(TensorId& sum, TensorId id, TensorId gradient) {
        if (sum < 0) {
            sum = gradient;
            return;
        }
        const Tensor& tensor = forward_.tensors[at(id)];
        const TensorId total = fresh_gradient(id);
        emit(Add{tensor.dims[0], tensor.dims[1]}, "d" + tensor.name, {sum, gradient}, {total});
        sum = total;
    }

    // Of a parameter of experts: by source, where these are kept apart.
    bool by_source() const { return notes_.gradient_sources > 1; }
    TensorId source_accumulator(TensorId parameter) {
        Tensor sum = forward_.tensors[at(parameter)];
        sum.role = Role::source_gradient;
        sum.dtype = gradient_dtype_;
        sum.dims[0] *= notes_.gradient_sources;
        return add(std::move(sum));
    }

    TensorId accumulator(TensorId parameter) override {
        TensorId& id = gradient_of_[at(parameter)];
        if (id < 0) {
            const Tensor& tensor = forward_.tensors[at(parameter)];
            id = add({tensor.name, Role::gradient, gradient_dtype_, tensor.dims});
        }
        return id;
    }

  private:
    void accumulate(OpSpec spec, const std::string& label, Reads reads, TensorId parameter) {
        accumulate_in(accumulator(parameter), std::move(spec), label, std::move(reads), parameter);
    }
    void accumulate_by_source(OpSpec spec, const std::string& label, Reads reads,
                              TensorId parameter) {
        const TensorId sum = by_source() ? source_accumulator(parameter) : accumulator(parameter);
        accumulate_in(sum, std::move(spec), label, std::move(reads), parameter);
    }
    void accumulate_in(TensorId sum, OpSpec spec, const std::string& label, Reads reads,
                       TensorId parameter) {
        reads.push_back(sum);
        emit(std::move(spec), label, std::move(reads), {sum}).dtype =
            forward_.tensors[at(parameter)].dtype;
    }

    // The first of these tensors from `begin` on that has this role, or −1.
    TensorId with_role(const Reads& ids, Role role, std::size_t begin = 0) const {
        for (std::size_t i = begin; i < ids.size(); ++i)
            if (forward_.tensors[at(ids[i])].role == role) return ids[i];
        return -1;
    }

    // What backward of a dropout reads: its mask, or the key of its random numbers; −1: no dropout.
    TensorId dropped_by(const Op& op) const {
        return op.writes.size() > 1 ? op.writes[1] : with_role(op.reads, Role::scalar);
    }

    bool needs_gradient(TensorId id) const {
        const Tensor& tensor = forward_.tensors[at(id)];
        return tensor.dtype != DType::i32 && tensor.role != Role::parameter;
    }

    // Of a parameter: nobody asks for its gradient.
    bool is_frozen(TensorId parameter) const {
        return std::any_of(forward_.parameters.begin(), forward_.parameters.end(),
                           [&](const DeclaredParameter& declared) {
                               return declared.tensor == parameter && declared.spec.frozen;
                           });
    }

    // Of a layer: nothing reads its own matrices' inputs and results' gradients by columns.
    bool freezes() const {
        return std::any_of(forward_.parameters.begin(), forward_.parameters.end(),
                           [](const DeclaredParameter& declared) { return declared.spec.frozen; });
    }

    static std::size_t at(TensorId id) { return static_cast<std::size_t>(id); }

    void derive(std::size_t index);
    void derive_gemm(std::size_t index);
    bool is_part_of_gradient(TensorId input) const;
    void contribute_of_product(TensorId input, TensorId weight, TensorId gradient);
    void sum_parts(TensorId input, std::int64_t elements, const std::string& label);
    void derive_eight_bit(std::size_t index, const EightBitProduct& product);
    void derive_grouped_eight_bit(const Op& op, const EightBitProduct& product);
    void add_weight_gradient(const Op& op, const EightBitProduct& product, Copies copies,
                             EightBit input);
    EightBit columns_of_input(const std::string& label, const EightBitProduct& product);
    EightBit columns_of_weight(const std::string& label, const EightBitProduct& product);
    Copies gradient_copies(const std::string& label, TensorId gradient, const CountedRows& counted);
    EightBit transposed(const EightBit& copy, const std::string& name);
    void gather_gradient(const Op& op);
    void derive_quantize(const Op& op);
    void derive_batched_gemm(const Op& op);
    void derive_attention(const Op& op);
    void derive_rearrange(const Op& op);
    void derive_softmax(const Op& op);
    void derive_dropout(const Op& op);
    void derive_norm(const Op& op);
    void derive_activation(const Op& op);
    void derive_qk_norm(const Op& op);
    void derive_latent_heads(std::size_t index);
    bool is_held_whole(TensorId parameter) const;
    void derive_route(const Op& op);
    void derive_permute(const Op& op);
    void derive_unpermute(const Op& op);
    void derive_spread(const Op& op);
    static GroupedGemm product_like(const GroupedGemm& forward, std::int64_t m, std::int64_t n,
                                    std::int64_t k, GemmProduct product);
    void derive_grouped_gemm(std::size_t index);
    void derive_expert_bias(const Op& op);
    void derive_expert_activation(const Op& op);
    void derive_all_to_all_v(const Op& op);
    void derive_residual(const Op& op);
    void derive_embedding(const Op& op);
    void derive_cross_entropy(std::size_t index);
    std::pair<TensorId, TensorId> join_loss(TensorId targets);
    void correct_gradients(const Op& sum, TensorId dlogits, TensorId sums, TensorId largest);
    TensorId corrected_input_gradient(std::size_t product) const;
    void derive_broadcast(const Op& op);
    void spread_gradient(const Op& sum);
    void communicate(const Op& like, OpSpec spec, Reads reads, Reads writes, DType dtype);
    void derive_cast(const Op& op);
    void derive_collective(std::size_t index);
    void finish_roles();

    ForwardBlock notes_;
    Block forward_;
    DType gradient_dtype_;
    Block backward_;
    std::map<TensorId, TensorId> partial_;  // forward tensor → sum so far of what products make of
                                            // its gradient, −1 at first
    std::map<TensorId, Copies> gradient_copies_;  // by gradient in the backward block
    std::vector<TensorId> kept_;         // forward tensor → its name in the backward block
    std::vector<TensorId> gradient_of_;  // forward tensor → gradient in the backward block
    TensorId input_gradient_ = -1;       // of the head's product, where forward began it
    std::vector<std::size_t> again_;     // forward ops emitted again …
    std::map<std::int32_t, std::int32_t> emitted_again_;  // … and where
};

}  // namespace orrery::plan
