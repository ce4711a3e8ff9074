#include "plan/build/backward.hpp"

#include <algorithm>
#include <map>

#include "plan/build/context_backward.hpp"
#include "plan/ir/check.hpp"
#include "plan/ir/product.hpp"
#include "plan/ir/rearrangement.hpp"

namespace orrery::plan {
namespace {

std::size_t at(TensorId id) {
    return static_cast<std::size_t>(id);
}

std::string backward_name(const std::string& forward) {
    return forward.substr(0, forward.find('.')) + ".backward";
}

class Derivation : public BackwardWriter {
    using Reads = std::vector<TensorId>;

  public:
    Derivation(ForwardBlock forward, DType gradient_dtype)
        : notes_(std::move(forward)),
          forward_(notes_.block),
          gradient_dtype_(gradient_dtype),
          kept_(forward_.tensors.size(), -1),
          gradient_of_(forward_.tensors.size(), -1) {
        backward_.name = backward_name(forward_.name);
    }

    BlockPair run(bool recompute_all) {
        if (recompute_all) emit_forward_again();
        if (forward_.output >= 0) {
            const Tensor& y = forward_.tensors[at(forward_.output)];
            backward_.input = add({"dy", Role::input, y.dtype, y.dims});
            gradient_of_[at(forward_.output)] = backward_.input;
        }
        for (std::size_t i = forward_.ops.size(); i-- > 0;)
            derive(i);
        finish_roles();
        BlockPair pair;
        for (std::size_t i = 0; i < forward_.tensors.size(); ++i) {
            if (forward_.tensors[i].role != Role::parameter) continue;
            pair.parameters += forward_.tensors[i].elements();
            if (notes_.replicated[i]) pair.replicated += forward_.tensors[i].elements();
        }
        pair.forward = std::move(forward_);
        pair.backward = std::move(backward_);
        return pair;
    }

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

    Op& emit(OpKind kind, std::string label, const Shape& shape, Reads reads,
             Reads writes) override {
        Op op;
        op.kind = kind;
        op.phase = Phase::backward;
        op.label = std::move(label);
        op.shape = shape;
        op.dtype = backward_.tensors[at(writes.front())].dtype;
        op.reads = std::move(reads);
        op.writes = std::move(writes);
        if (is_communication(kind)) {
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
            return kept_[at(id)];
        }
        Tensor copy = tensor;
        if (tensor.role == Role::scratch) {
            forward_.tensors[at(id)].role = Role::stash;
            copy.role = Role::stash;
        }
        return kept_[at(id)] = add(std::move(copy));
    }

    // Emits again every op that writes the tensor, with what those need; of the attention core all,
    // as a checkpointed core runs again whole (Megatron-LM's selective recomputation).
    void make_again(TensorId id) {
        for (std::size_t i = 0; i < forward_.ops.size(); ++i) {
            const auto& writes = forward_.ops[i].writes;
            if (std::find(writes.begin(), writes.end(), id) == writes.end()) continue;
            if (!notes_.attention_core[i]) {
                emit_again(i);
                continue;
            }
            for (std::size_t core = 0; core < forward_.ops.size(); ++core)
                if (notes_.attention_core[core]) emit_again(core);
        }
    }

    void emit_again(std::size_t index) {
        if (std::find(again_.begin(), again_.end(), index) != again_.end()) return;
        again_.push_back(index);
        Op op = forward_.ops[index];
        // A collective that is only repeated is communication of the backward pass.
        op.phase = is_communication(op.kind) ? Phase::backward : Phase::recompute;
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

    void emit_forward_again() {
        for (std::size_t i = 0; i < forward_.ops.size(); ++i) {
            emit_again(i);
            backward_.ops.back().phase = Phase::recompute;
        }
        // Gathered inputs are not kept for the weight gradients even now: they are gathered again.
        for (std::size_t i = 0; i < forward_.ops.size(); ++i)
            if (forward_.ops[i].kind == OpKind::all_gather) {
                for (const TensorId whole : forward_.ops[i].writes)
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
        TensorId& sum = gradient_of_[at(id)];
        if (sum < 0) {
            sum = gradient;
            return;
        }
        const Tensor& tensor = forward_.tensors[at(id)];
        const TensorId total = fresh_gradient(id);
        emit(OpKind::add, "d" + tensor.name, {tensor.dims[0], tensor.dims[1]}, {sum, gradient},
             {total});
        sum = total;
    }

  private:
    // Accumulator of a parameter's gradient.
    TensorId accumulator(TensorId parameter) {
        TensorId& id = gradient_of_[at(parameter)];
        if (id < 0) {
            const Tensor& tensor = forward_.tensors[at(parameter)];
            id = add({tensor.name, Role::gradient, gradient_dtype_, tensor.dims});
        }
        return id;
    }

    void accumulate(OpKind kind, const std::string& label, const Shape& shape, Reads reads,
                    TensorId parameter) {
        const TensorId sum = accumulator(parameter);
        reads.push_back(sum);
        emit(kind, label, shape, std::move(reads), {sum}).dtype =
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

    void derive(std::size_t index);
    void derive_gemm(std::size_t index);
    void derive_eight_bit(std::size_t index, const EightBitProduct& product);
    EightBit columns_of_input(const std::string& label, const EightBitProduct& product);
    EightBit columns_of_weight(const std::string& label, TensorId weight);
    Copies gradient_copies(const std::string& label, TensorId gradient);
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
    void derive_rope(const Op& op);
    void derive_residual(const Op& op);
    void derive_add(const Op& op);
    void derive_embedding(const Op& op);
    void derive_cross_entropy(const Op& op);
    void derive_cast(const Op& op);
    void derive_collective(const Op& op);
    void finish_roles();

    ForwardBlock notes_;
    Block forward_;
    DType gradient_dtype_;
    Block backward_;
    std::map<TensorId, Copies> gradient_copies_;  // by gradient in the backward block
    std::vector<TensorId> kept_;         // forward tensor → its name in the backward block
    std::vector<TensorId> gradient_of_;  // forward tensor → gradient in the backward block
    std::vector<std::size_t> again_;     // forward ops emitted again …
    std::map<std::int32_t, std::int32_t> emitted_again_;  // … and where
};

void Derivation::derive(std::size_t index) {
    const Op op = forward_.ops[index];
    switch (op.kind) {
        case OpKind::gemm:
            return derive_gemm(index);
        case OpKind::batched_gemm:
            return derive_batched_gemm(op);
        case OpKind::attention:
            return derive_attention(op);
        case OpKind::attention_block:
            // The last hop wrote the result, and is derived with all that led to it.
            if (gradient_of_[at(op.writes[0])] < 0) return;
            return attends_to_gathered(op) ? derive_gathered_attention(*this, op)
                                           : derive_ring_attention(*this, op);
        case OpKind::shift:
            return;
        case OpKind::rearrange:
            return derive_rearrange(op);
        case OpKind::softmax:
            return derive_softmax(op);
        case OpKind::dropout:
            return derive_dropout(op);
        case OpKind::norm:
            return derive_norm(op);
        case OpKind::activation:
            return derive_activation(op);
        case OpKind::rope:
            return derive_rope(op);
        case OpKind::residual_add:
            return derive_residual(op);
        case OpKind::add:
            return derive_add(op);
        case OpKind::embedding:
            return derive_embedding(op);
        case OpKind::cross_entropy_sum:
            return derive_cross_entropy(op);
        case OpKind::cast:
            return derive_cast(op);
        case OpKind::quantize:
            return derive_quantize(op);
        case OpKind::amax:
        case OpKind::cross_entropy_max:  // the maximum only shifts the exponent
        case OpKind::cross_entropy:
            return;
        case OpKind::all_reduce:
        case OpKind::all_gather:
        case OpKind::reduce_scatter:
        case OpKind::all_to_all:
            return derive_collective(op);
        default:
            ORRERY_CHECK(false, "no derivative for " + std::string(name(op.kind)));
    }
}

// C = A·Wᵀ: dA = dC·W, dW += dCᵀ·A, db += column sums of dC.
void Derivation::derive_gemm(std::size_t index) {
    if (const auto found = notes_.eight_bit.find(index); found != notes_.eight_bit.end())
        return derive_eight_bit(index, found->second);
    const Op op = forward_.ops[index];
    const auto [m, n, k] = std::array{op.shape[0], op.shape[1], op.shape[2]};
    const TensorId dc = gradient_of(op.writes[0]);
    const TensorId input = need(op.reads[0]);  // a re-gather is issued before the data gradient
    const TensorId da = fresh_gradient(op.reads[0]);
    emit(OpKind::gemm, op.label + " dgrad", {m, k, n}, {dc, need(op.reads[1])}, {da});
    contribute(op.reads[0], da);
    accumulate(OpKind::gemm, op.label + " wgrad", {n, k, m}, {dc, input}, op.reads[1]);
    if (op.reads.size() > 2)
        accumulate(OpKind::bias_gradient, op.label + " bias", {m, n}, {dc}, op.reads[2]);
    if (!notes_.partial_input_gradient[index]) return;
    const TensorId sum = gradient_of(op.reads[0]);
    emit(OpKind::all_reduce, op.label + " dgrad", {m * k}, {sum}, {sum});
}

// The same of eight bits: rows of dC and columns of W give dA, columns of dC and A give dW.
void Derivation::derive_eight_bit(std::size_t index, const EightBitProduct& product) {
    const Op op = forward_.ops[index];
    const auto [m, n, k] = std::array{op.shape[0], op.shape[1], op.shape[2]};
    const TensorId dc = gradient_of(op.writes[0]);
    EightBit input = columns_of_input(op.label, product);
    Copies copies = gradient_copies(op.label, dc);
    const EightBit weight = columns_of_weight(op.label, product.weight);
    const TensorId da = fresh_gradient(op.reads[0]);
    emit(OpKind::gemm, op.label + " dgrad", {m, k, n},
         {copies.rows.data, weight.data, copies.rows.scales, weight.scales}, {da})
        .dtype = op.dtype;
    contribute(op.reads[0], da);
    if (product.transposes) input = transposed(input, op.label + "_in.qt");
    const bool gathered = is_eight_bit(backward_.tensors[at(dc)].dtype);
    if (gathered && notes_.fp8.transposes)
        copies.columns = transposed(copies.columns, "d" + op.label + ".qt");
    accumulate(OpKind::gemm, op.label + " wgrad", {n, k, m},
               {copies.columns.data, input.data, copies.columns.scales, input.scales},
               product.weight);
    backward_.ops.back().dtype = op.dtype;
    if (op.reads.size() > 4)
        accumulate(OpKind::bias_gradient, op.label + " bias", {m, n}, {dc}, op.reads[4]);
    if (!notes_.partial_input_gradient[index]) return;
    const TensorId sum = gradient_of(op.reads[0]);
    emit(OpKind::all_reduce, op.label + " dgrad", {m * k}, {sum}, {sum});
}

// What forward has kept, gathered where each rank kept its share; else made of the input.
EightBit Derivation::columns_of_input(const std::string& label, const EightBitProduct& product) {
    const Fp8& fp8 = notes_.fp8;
    if (!product.columns.exists()) {
        const Tensor& input = forward_.tensors[at(product.input)];
        Casting casting{input.name, label + ".x.history", input.dims[0], input.dims[1]};
        casting.copies = columns_alone(fp8);
        return quantize(*this, fp8, casting, need(product.input)).columns;
    }
    const EightBit kept{need(product.columns.data), need(product.columns.scales)};
    if (!product.gathers) return kept;
    return gather_copy(*this, fp8, label + " input", label + "_in.qc",
                       backward_.tensors[at(kept.data)], backward_.tensors[at(kept.scales)], kept,
                       notes_.tensor);
}

EightBit Derivation::columns_of_weight(const std::string& label, TensorId weight) {
    const Fp8& fp8 = notes_.fp8;
    const Tensor& held = forward_.tensors[at(weight)];
    Casting casting{held.name, label + ".w.history", held.dims[0], held.dims[1]};
    casting.weight = true;
    casting.copies = columns_alone(fp8);
    if (!fp8.weights_per_step) return quantize(*this, fp8, casting, need(weight)).columns;
    casting.role = Role::quantized;
    return declare_copies(*this, fp8, casting).columns;
}

// Cast once for all products that read it; or what was cast before it was gathered.
Copies Derivation::gradient_copies(const std::string& label, TensorId gradient) {
    const auto found = gradient_copies_.find(gradient);
    if (found != gradient_copies_.end()) return found->second;
    const Fp8& fp8 = notes_.fp8;
    const Tensor& dc = backward_.tensors[at(gradient)];
    Casting casting{dc.name, label + ".dy.history", dc.dims[0], dc.dims[1], gradient_type(fp8)};
    casting.copies = both_ways(fp8);
    return gradient_copies_[gradient] = quantize(*this, fp8, casting, gradient);
}

EightBit Derivation::transposed(const EightBit& copy, const std::string& name) {
    const Tensor data = backward_.tensors[at(copy.data)];
    return transpose_copy(*this, notes_.fp8, name, data, backward_.tensors[at(copy.scales)], copy);
}

// Of a product's partial sums that were scattered: each rank casts its share of the gradient.
void Derivation::gather_gradient(const Op& op) {
    const Fp8& fp8 = notes_.fp8;
    const TensorId share = gradient_of(op.writes[0]);
    const Tensor dy = backward_.tensors[at(share)];
    Casting casting{dy.name, op.label + ".dy.history", dy.dims[0], dy.dims[1], gradient_type(fp8)};
    casting.copies = both_ways_of_shares(fp8);
    casting.shared = true;
    const Copies cast = quantize(*this, fp8, casting, share);
    const auto gather = [&](const EightBit& copy, const char* end) {
        const Tensor data = backward_.tensors[at(copy.data)];
        const Tensor scales = backward_.tensors[at(copy.scales)];
        return gather_copy(*this, fp8, op.label, "d" + op.label + end, data, scales, copy,
                           notes_.tensor);
    };
    Copies whole;
    whole.rows = gather(cast.rows, ".q");
    whole.columns = fp8.whole_tensors() ? whole.rows : gather(cast.columns, ".qc");
    gradient_copies_[whole.rows.data] = whole;
    contribute(op.reads[0], whole.rows.data);
}

// The gradient of a copy is that of what it is a copy of.
void Derivation::derive_quantize(const Op& op) {
    if (needs_gradient(op.reads[0])) contribute(op.reads[0], gradient_of(op.writes[0]));
}

// scores = Q·Kᵀ reads qkv once; context = P·V reads P and qkv.
void Derivation::derive_batched_gemm(const Op& op) {
    const auto [m, n, k, batch] = std::array{op.shape[0], op.shape[1], op.shape[2], op.shape[3]};
    const TensorId dc = gradient_of(op.writes[0]);
    const TensorId qkv = op.reads.back();
    if (gradient_of_[at(qkv)] < 0) gradient_of_[at(qkv)] = fresh_gradient(qkv);
    const TensorId dqkv = gradient_of_[at(qkv)];
    if (op.reads.size() == 2) {
        const TensorId p = op.reads[0];
        const TensorId kept = need(p);
        const TensorId dp = fresh_gradient(p);
        emit(OpKind::batched_gemm, kProbabilityGradient, {m, k, n, batch}, {dc, need(qkv)}, {dp});
        emit(OpKind::batched_gemm, kValueGradient, {k, n, m, batch}, {kept, dc}, {dqkv});
        contribute(p, dp);
        return;
    }
    const TensorId kept = need(qkv);
    emit(OpKind::batched_gemm, kQueryGradient, {m, k, n, batch}, {dc, kept}, {dqkv});
    emit(OpKind::batched_gemm, kKeyGradient, {n, k, m, batch}, {dc, kept}, {dqkv});
}

void Derivation::derive_attention(const Op& op) {
    const TensorId qkv = op.reads[0];
    const TensorId dout = gradient_of(op.writes[0]);
    const TensorId dqkv = fresh_gradient(qkv);
    emit(OpKind::attention_backward, op.label, op.shape,
         {dout, need(qkv), need(op.writes[0]), need(op.writes[1])}, {dqkv});
    contribute(qkv, dqkv);
}

// Keys that were packed have their gradients where those of the attention to them are joined.
void Derivation::derive_rearrange(const Op& op) {
    const Rearrangement form = rearrangement_of(op);
    if (form == Rearrangement::keys) return;
    const std::string name = op.label.substr(0, op.label.find(' ') + 1);
    const TensorId dx = fresh_gradient(op.reads[0]);
    emit(OpKind::rearrange, name + undoing(form), op.shape, {gradient_of(op.writes[0])}, {dx});
    contribute(op.reads[0], dx);
}

void Derivation::derive_softmax(const Op& op) {
    const TensorId dscores = fresh_gradient(op.reads[0]);
    emit(OpKind::softmax_backward, op.label, op.shape,
         {gradient_of(op.writes[0]), need(op.writes[0])}, {dscores});
    contribute(op.reads[0], dscores);
}

void Derivation::derive_dropout(const Op& op) {
    const TensorId dx = fresh_gradient(op.reads[0]);
    emit(OpKind::dropout_backward, op.label, op.shape,
         {gradient_of(op.writes[0]), need(dropped_by(op))}, {dx});
    contribute(op.reads[0], dx);
}

// The gradient that reached x along the residual is added in the same kernel.
void Derivation::derive_norm(const Op& op) {
    const TensorId x = op.reads[0];
    const TensorId before = gradient_of_[at(x)];
    Reads reads = {gradient_of(op.writes[0]), need(x), need(op.reads[1]), need(op.writes[1])};
    if (before >= 0) reads.push_back(before);
    const TensorId dx = fresh_gradient(x);
    Reads writes = {dx};
    for (std::size_t i = 1; i < op.reads.size(); ++i) {
        reads.push_back(accumulator(op.reads[i]));
        writes.push_back(accumulator(op.reads[i]));
    }
    emit(OpKind::norm_backward, op.label, op.shape, std::move(reads), std::move(writes));
    gradient_of_[at(x)] = dx;
}

// The slope of a ReLU is told by its output, which the next product keeps anyway; that of the
// others by their input. The label of an activation is its function.
void Derivation::derive_activation(const Op& op) {
    const TensorId told_by = op.label == "relu" ? op.writes[0] : op.reads[0];
    const TensorId dx = fresh_gradient(op.reads[0]);
    emit(OpKind::activation_backward, op.label, op.shape,
         {gradient_of(op.writes[0]), need(told_by)}, {dx});
    contribute(op.reads[0], dx);
}

void Derivation::derive_rope(const Op& op) {
    const TensorId dx = gradient_of(op.writes[0]);
    emit(OpKind::rope_backward, op.label, op.shape, {dx}, {dx});
}

// y = x + dropout(branch + biases). Positions of the embedding are a parameter in x's place.
void Derivation::derive_residual(const Op& op) {
    const TensorId dy = gradient_of(op.writes[0]);
    TensorId dbranch = dy;
    if (const TensorId dropped = dropped_by(op); dropped >= 0) {
        dbranch = fresh_gradient(op.reads[0]);
        const std::int64_t elements = op.shape[0] * op.shape[1];
        emit(OpKind::dropout_backward, op.label, {elements}, {dy, need(dropped)}, {dbranch});
    }
    for (std::size_t i = 2; i < op.reads.size(); ++i)
        if (forward_.tensors[at(op.reads[i])].role == Role::parameter)
            accumulate(OpKind::bias_gradient, op.label + " bias", op.shape, {dbranch}, op.reads[i]);
    contribute(op.reads[0], dbranch);
    if (needs_gradient(op.reads[1]))
        contribute(op.reads[1], dy);
    else
        accumulate(OpKind::embedding_backward, op.label, op.shape, {dbranch}, op.reads[1]);
}

// The sum of the branches of a parallel block: each has the gradient of the whole.
void Derivation::derive_add(const Op& op) {
    const TensorId dy = gradient_of(op.writes[0]);
    for (TensorId term : op.reads)
        contribute(term, dy);
}

void Derivation::derive_embedding(const Op& op) {
    accumulate(OpKind::embedding_backward, op.label, op.shape,
               {gradient_of(op.writes[0]), need(op.reads[0])}, op.reads[1]);
}

// d logits = (softmax − one-hot of the target) ÷ valid tokens × loss scale, written over the
// logits, or over a copy.
void Derivation::derive_cross_entropy(const Op& op) {
    TensorId logits = need(op.reads[0]);
    if (notes_.separate_loss_gradient) {
        const TensorId copy = fresh_gradient(op.reads[0]);
        emit(OpKind::cast, "loss", {op.shape[0] * op.shape[1]}, {logits}, {copy});
        logits = copy;
    }
    Reads reads = {logits, need(op.reads[1]), need(op.writes[0]), need(op.reads[2])};
    if (notes_.scaled_loss) reads.push_back(add({"loss scale", Role::scalar, DType::fp32, {1}}));
    emit(OpKind::cross_entropy_backward, "loss", op.shape, std::move(reads), {logits});
    gradient_of_[at(op.reads[0])] = logits;
}

void Derivation::derive_cast(const Op& op) {
    if (gradient_of_[at(op.writes[0])] < 0) {  // a copy kept for this pass alone
        const TensorId again = fresh_gradient(op.reads[0]);
        emit(OpKind::cast, op.label, op.shape, {need(op.writes[0])}, {again});
        return;
    }
    const TensorId dx = fresh_gradient(op.reads[0]);
    emit(OpKind::cast, op.label, op.shape, {gradient_of(op.writes[0])}, {dx});
    contribute(op.reads[0], dx);
}

void Derivation::derive_collective(const Op& op) {
    if (op.kind == OpKind::all_reduce) return;  // identity; in place, so the gradient is at hand
    if (gradient_of_[at(op.writes[0])] < 0) return;  // gathered keys, which brought theirs home
    if (op.kind == OpKind::reduce_scatter && !notes_.eight_bit.empty() &&
        notes_.fp8.gathers_copies())
        return gather_gradient(op);
    const TensorId dy = gradient_of(op.writes[0]);
    const TensorId dx = fresh_gradient(op.reads[0]);
    if (op.label == kGatheredLogits) {
        emit(OpKind::cast, op.label, {backward_.tensors[at(dx)].elements()}, {dy}, {dx});
        contribute(op.reads[0], dx);
        return;
    }
    OpKind kind = OpKind::all_to_all;
    if (op.kind == OpKind::all_gather) kind = OpKind::reduce_scatter;
    if (op.kind == OpKind::reduce_scatter) kind = OpKind::all_gather;
    const std::int64_t elements = backward_.tensors[at(dy)].elements();
    Op& back = emit(kind, op.label, kind == OpKind::reduce_scatter ? Shape{elements} : op.shape,
                    {dy}, {dx});
    back.stream = op.stream;
    back.group = op.group;
    contribute(op.reads[0], dx);
}

// The chain: y and dx are handed on; x is stash where backward reads it (the block before, or a
// receive, wrote it there), and else is handed in for the forward pass alone.
void Derivation::finish_roles() {
    if (forward_.input >= 0) {
        const bool kept = kept_[at(forward_.input)] >= 0;
        forward_.tensors[at(forward_.input)].role = kept ? Role::stash : Role::input;
        backward_.output = gradient_of(forward_.input);
        Tensor& dx = backward_.tensors[at(backward_.output)];
        // A gradient that passes unchanged is both ends of the chain and stays where it lies.
        if (dx.role == Role::scratch) dx.role = Role::output;
    }
    if (forward_.output >= 0) {
        Tensor& y = forward_.tensors[at(forward_.output)];
        ORRERY_CHECK(y.role == Role::scratch, "a block's output is handed on, not kept");
        y.role = Role::output;
    }
}

}  // namespace

BlockPair derive_backward(ForwardBlock forward, DType gradient_dtype, bool recompute_all) {
    return Derivation(std::move(forward), gradient_dtype).run(recompute_all);
}

}  // namespace orrery::plan
