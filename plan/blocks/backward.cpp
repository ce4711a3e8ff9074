#include <algorithm>
#include <tuple>

#include "plan/blocks/context_attention.hpp"
#include "plan/blocks/context_backward.hpp"
#include "plan/blocks/derivation.hpp"

namespace orrery::plan {

std::string block_name(const std::string& forward, std::string_view form) {
    return forward.substr(0, forward.find('.') + 1).append(form);
}

Derivation::Derivation(ForwardBlock forward, DType gradient_dtype)
    : notes_(std::move(forward)),
      forward_(notes_.block),
      gradient_dtype_(gradient_dtype),
      kept_(forward_.tensors.size(), -1),
      gradient_of_(forward_.tensors.size(), -1) {
    backward_.name = block_name(forward_.name, "backward");
}

BlockPair Derivation::run(std::size_t recomputed_ops) {
    if (recomputed_ops > 0) emit_forward_again(recomputed_ops);
    if (forward_.output >= 0) {
        const Tensor& y = forward_.tensors[at(forward_.output)];
        backward_.input = add({"dy", Role::input, y.dtype, y.dims});
        gradient_of_[at(forward_.output)] = backward_.input;
    }
    for (std::size_t i = forward_.ops.size(); i-- > 0;)
        derive(i);
    finish_roles();
    BlockPair pair;
    for (const DeclaredParameter& declared : forward_.parameters) {
        const Tensor& tensor = forward_.tensors[at(declared.tensor)];
        const std::int64_t elements = tensor.elements();
        if (declared.spec.frozen) {
            pair.frozen += elements;
            if (declared.spec.cut == Cut::whole) pair.frozen_replicated += elements;
            if (declared.spec.experts > 0) pair.frozen_experts += elements;
            continue;
        }
        if (declared.spec.experts > 0) {
            pair.experts += elements;
            if (is_eight_bit(tensor.dtype)) pair.eight_bit_experts += elements;
            continue;
        }
        pair.parameters += elements;
        if (is_eight_bit(tensor.dtype)) pair.eight_bit += elements;
        if (declared.spec.cut == Cut::whole) pair.replicated += elements;
        if (declared.spec.partial_gradient) pair.partial += elements;
    }
    pair.forward = std::move(forward_);
    pair.backward = std::move(backward_);
    return pair;
}

namespace {

// Of an op that says its gradient itself; false: it does not.
bool derive_as_declared(BackwardWriter& writer, const Op& op) {
    return std::visit(
        [&](const auto& spec) {
            constexpr bool kDeclares = requires {
                spec.gradient(writer, op);
            };
            if constexpr (kDeclares) spec.gradient(writer, op);
            return kDeclares;
        },
        op.spec);
}

}  // namespace

void Derivation::derive(std::size_t index) {
    const Op op = forward_.ops[index];
    if (op.phase == Phase::backward) return;  // of the gradient itself, which forward began
    if (derive_as_declared(*this, op)) return;
    switch (op.kind()) {
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
        case OpKind::qk_norm:
            return derive_qk_norm(op);
        case OpKind::latent_heads:
            return derive_latent_heads(index);
        case OpKind::residual_add:
            return derive_residual(op);
        case OpKind::embedding:
            return derive_embedding(op);
        case OpKind::cross_entropy_sum:
            return derive_cross_entropy(index);
        case OpKind::cast:
            return derive_cast(op);
        case OpKind::quantize:
        case OpKind::quantize_rows:
            return derive_quantize(op);
        case OpKind::route:
            return derive_route(op);
        case OpKind::permute:
            return derive_permute(op);
        case OpKind::unpermute:
            return derive_unpermute(op);
        case OpKind::spread_rows:
        case OpKind::spread_weights:
            return derive_spread(op);
        case OpKind::grouped_gemm:
            return derive_grouped_gemm(index);
        case OpKind::expert_bias:
            return derive_expert_bias(op);
        case OpKind::expert_activation:
            return derive_expert_activation(op);
        case OpKind::all_to_all_v:
            return derive_all_to_all_v(op);
        case OpKind::drop_rows:      // a dropped choice's weight has no gradient
        case OpKind::count_choices:  // with the routing
        case OpKind::choose_ranks:
        case OpKind::qk_norm_sums:  // with the norm
        case OpKind::amax:
        case OpKind::amax_rows:
        case OpKind::cross_entropy_max:  // the maximum only shifts the exponent
        case OpKind::cross_entropy:
            return;
        case OpKind::broadcast:
            return derive_broadcast(op);
        case OpKind::all_reduce:
        case OpKind::all_gather:
        case OpKind::reduce_scatter:
        case OpKind::all_to_all:
            return derive_collective(index);
        default:
            ORRERY_CHECK(false, "no derivative for " + std::string(name(op.kind())));
    }
}

// C = A·Wᵀ: dA = dC·W, dW += dCᵀ·A, db += column sums of dC.
void Derivation::derive_gemm(std::size_t index) {
    if (const auto found = notes_.eight_bit.find(index); found != notes_.eight_bit.end())
        return derive_eight_bit(index, found->second);
    const Op op = forward_.ops[index];
    const std::int64_t m = op.as<Gemm>().m, n = op.as<Gemm>().n, k = op.as<Gemm>().k;
    const TensorId dc = gradient_of(op.writes[0]);
    const double factor = op.as<Gemm>().factor;
    const bool trained = !is_frozen(op.reads[1]);
    // A re-gather is issued before the data gradient.
    const TensorId input = trained ? need(op.reads[0]) : TensorId{-1};
    TensorId da = corrected_input_gradient(index);
    if (da < 0) {
        da = fresh_gradient(op.reads[0]);
        emit(Gemm{m, k, n, GemmProduct::input_gradient, factor}, op.label + " dgrad",
             {dc, need(op.reads[1])}, {da});
    }
    contribute_of_product(op.reads[0], op.reads[1], da);
    if (trained)
        accumulate(Gemm{n, k, m, GemmProduct::weight_gradient, factor}, op.label + " wgrad",
                   {dc, input}, op.reads[1]);
    if (op.reads.size() > 2 && !is_frozen(op.reads[2]))
        accumulate(BiasGradient{m, n}, op.label + " bias", {dc}, op.reads[2]);
    if (notes_.partial_input_gradient[index]) sum_parts(op.reads[0], m * k, op.label);
}

// What a product makes of its input's gradient: with a share of a weight, a part of a sum over
// tensor ranks.
void Derivation::contribute_of_product(TensorId input, TensorId weight, TensorId gradient) {
    if (is_part_of_gradient(input) && !is_held_whole(weight))
        add_up(partial_.emplace(input, -1).first->second, input, gradient);
    else
        contribute(input, gradient);
}

void Derivation::sum_parts(TensorId input, std::int64_t elements, const std::string& label) {
    const TensorId sum = partial_.at(input);
    emit(AllReduce{elements}, label + " dgrad", {sum}, {sum});
    contribute(input, sum);
}

// A weight of which every tensor rank makes the same of an input.
bool Derivation::is_held_whole(TensorId parameter) const {
    return std::any_of(forward_.parameters.begin(), forward_.parameters.end(),
                       [&](const DeclaredParameter& declared) {
                           return declared.tensor == parameter && declared.spec.cut == Cut::whole &&
                                  !declared.spec.partial_gradient;
                       });
}

// Products with shares of a weight make parts of their input's gradient; what else reaches it, past
// them, is whole.
bool Derivation::is_part_of_gradient(TensorId input) const {
    for (std::size_t i = 0; i < forward_.ops.size(); ++i)
        if (notes_.partial_input_gradient[i] && forward_.ops[i].reads[0] == input) return true;
    return false;
}

// scores = Q·Kᵀ reads qkv once; context = P·V reads P and qkv.
void Derivation::derive_batched_gemm(const Op& op) {
    // The product of these sizes that leaves `what`.
    const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k,
                             AttentionProduct what) {
        BatchedGemm made = op.as<BatchedGemm>();
        made.m = m;
        made.n = n;
        made.k = k;
        made.product = what;
        return made;
    };
    const std::int64_t m = op.as<BatchedGemm>().m, n = op.as<BatchedGemm>().n,
                       k = op.as<BatchedGemm>().k;
    const TensorId dc = gradient_of(op.writes[0]);
    const TensorId qkv = op.reads.back();
    if (gradient_of_[at(qkv)] < 0) gradient_of_[at(qkv)] = fresh_gradient(qkv);
    const TensorId dqkv = gradient_of_[at(qkv)];
    if (op.as<BatchedGemm>().product == AttentionProduct::context) {
        const TensorId p = op.reads[0];
        const TensorId kept = need(p);
        const TensorId dp = fresh_gradient(p);
        emit(product(m, k, n, AttentionProduct::probabilities), "PV dP", {dc, need(qkv)}, {dp});
        emit(product(k, n, m, AttentionProduct::values), "PV dV", {kept, dc}, {dqkv});
        contribute(p, dp);
        return;
    }
    const TensorId kept = need(qkv);
    emit(product(m, k, n, AttentionProduct::queries), "QK dQ", {dc, kept}, {dqkv});
    emit(product(n, k, m, AttentionProduct::keys), "QK dK", {dc, kept}, {dqkv});
}

void Derivation::derive_attention(const Op& op) {
    const TensorId qkv = op.reads[0];
    const TensorId dout = gradient_of(op.writes[0]);
    const TensorId dqkv = fresh_gradient(qkv);
    Reads reads = {dout, need(qkv), need(op.writes[0]), need(op.writes[1])};
    Reads writes = {dqkv};
    AttentionBackward attention{op.as<Attention>()};
    attention.any_order =
        notes_.any_order && size_bytes(op.dtype) == 2 && attention.is_softmax_of_products();
    if (attention.sinks) add_sinks(*this, op.reads[1], reads, writes);
    if (attention.any_order)
        writes.push_back(
            add({"attention room", Role::scratch, DType::fp32, {attention.room().elements}}));
    emit(attention, op.label, std::move(reads), std::move(writes));
    contribute(qkv, dqkv);
}

namespace {

Rearrangement undoing(Rearrangement form) {
    switch (form) {
        case Rearrangement::heads_apart:
            return Rearrangement::heads_together;
        case Rearrangement::heads_together:
            return Rearrangement::heads_apart;
        case Rearrangement::samples_together:
            return Rearrangement::samples_apart;
        case Rearrangement::samples_apart:
            return Rearrangement::samples_together;
        case Rearrangement::columns_apart:
            return Rearrangement::columns_together;
        case Rearrangement::columns_together:
            return Rearrangement::columns_apart;
        case Rearrangement::keys:
        case Rearrangement::gradients:
            break;
    }
    ORRERY_CHECK(false, "packed keys and joined gradients are not undone");
    return form;
}

}  // namespace

// Keys that were packed have their gradients where those of the attention to them are joined.
void Derivation::derive_rearrange(const Op& op) {
    Rearrange undone = op.as<Rearrange>();
    if (undone.form == Rearrangement::keys) return;
    undone.form = undoing(undone.form);
    const std::string name = first_word(op.label);
    Reads gradients;
    for (const TensorId written : op.writes)
        gradients.push_back(gradient_of(written));
    Reads made;
    for (const TensorId read : op.reads)
        made.push_back(fresh_gradient(read));
    emit(undone, rearranged(name, undone.form), std::move(gradients), made);
    for (std::size_t i = 0; i < made.size(); ++i)
        contribute(op.reads[i], made[i]);
}

void Derivation::derive_softmax(const Op& op) {
    const TensorId dscores = fresh_gradient(op.reads[0]);
    const Softmax& forward = op.as<Softmax>();
    Reads reads = {gradient_of(op.writes[0]), need(op.writes[0])};
    Reads writes = {dscores};
    if (forward.soft_cap > 0 || forward.sinks) reads.push_back(need(op.reads[0]));
    if (forward.sinks) add_sinks(*this, op.reads[1], reads, writes);
    emit(SoftmaxBackward{forward.batch, forward.queries, forward.keys, forward.heads,
                         forward.soft_cap, forward.sinks},
         op.label, std::move(reads), std::move(writes));
    contribute(op.reads[0], dscores);
}

void Derivation::derive_dropout(const Op& op) {
    const TensorId dx = fresh_gradient(op.reads[0]);
    const Dropout& forward = op.as<Dropout>();
    emit(DropoutBackward{forward.elements, forward.drop, forward.width, forward.heads,
                         forward.total_heads, forward.sequence},
         op.label, {gradient_of(op.writes[0]), need(dropped_by(op))}, {dx});
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
    for (std::size_t i = 1; i < op.reads.size() && !is_frozen(op.reads[i]); ++i) {
        reads.push_back(accumulator(op.reads[i]));
        writes.push_back(accumulator(op.reads[i]));
    }
    const Normalize& norm = op.as<Normalize>();
    emit(NormalizeBackward{norm.rows, norm.width, norm.centred, norm.weight_offset}, op.label,
         std::move(reads), std::move(writes));
    gradient_of_[at(x)] = dx;
}

// The gradients of gate and up lie side by side, whether the two do or not: one product reads them.
void Derivation::derive_activation(const Op& op) {
    TensorId dx = -1;
    if (op.reads.size() == 1) {
        dx = fresh_gradient(op.reads[0]);
    } else {
        Tensor both = forward_.tensors[at(op.reads[0])];
        both.name = "dfc1";
        both.role = Role::scratch;
        both.dims[1] *= 2;
        dx = add(std::move(both));
    }
    Reads reads = {gradient_of(op.writes[0])};
    const Activate& forward = op.as<Activate>();
    for (const TensorId told_by : told_by_output(forward.function) ? op.writes : op.reads)
        reads.push_back(need(told_by));
    emit(ActivateBackward{forward.rows, forward.width, forward.function, forward.limit}, op.label,
         std::move(reads), {dx});
    contribute(op.reads[0], dx);
}

// A norm over all heads needs the sums of what the other tensor ranks have of a row.
void Derivation::derive_qk_norm(const Op& op) {
    const NormalizeQk& norm = op.as<NormalizeQk>();
    const TensorId dy = gradient_of(op.writes[0]);
    Reads reads = {dy};
    for (const std::size_t read : {0, 1, 2})
        if (norm.weighted || read == 0) reads.push_back(need(op.reads[read]));
    if (norm.ranks > 0) {
        Tensor dots = forward_.tensors[at(op.reads[3])];
        dots.name = "d" + dots.name;
        dots.role = Role::scratch;
        const TensorId sums = add(std::move(dots));
        NormalizeQkSums of_gradients{norm.rows, norm.width, norm.heads, norm.kv_heads,
                                     norm.head_dim};
        of_gradients.of_gradients = true;
        of_gradients.weight_offset = norm.weight_offset;
        emit(of_gradients, op.label + " sums", reads, {sums});
        if (norm.ranks > 1) emit(AllReduce{2 * norm.rows}, op.label + " sums", {sums}, {sums});
        reads.push_back(need(op.reads[3]));
        reads.push_back(sums);
    }
    const TensorId dqkv = fresh_gradient(op.reads[0]);
    Reads writes = {dqkv};
    for (const std::size_t weight : {1, 2}) {
        if (!norm.weighted || is_frozen(op.reads[weight])) continue;
        reads.push_back(accumulator(op.reads[weight]));
        writes.push_back(accumulator(op.reads[weight]));
    }
    emit(NormalizeQkBackward{norm}, op.label, std::move(reads), std::move(writes));
    contribute(op.reads[0], dqkv);
}

// Each tensor rank has what its own heads make of the gradient of the keys' common part.
void Derivation::derive_latent_heads(std::size_t index) {
    const Op op = forward_.ops[index];
    const LatentHeads& heads = op.as<LatentHeads>();
    Reads writes;
    for (const TensorId read : op.reads)
        writes.push_back(fresh_gradient(read));
    emit(LatentHeadsBackward{heads}, op.label, {gradient_of(op.writes[0])}, writes);
    if (notes_.partial_input_gradient[index])
        emit(AllReduce{heads.rows * heads.rotary_dim}, "rotary_keys", {writes[2]}, {writes[2]});
    for (std::size_t i = 0; i < writes.size(); ++i)
        contribute(op.reads[i], writes[i]);
}

// y = x + dropout(branch + biases). Positions of the embedding are a parameter in x's place.
void Derivation::derive_residual(const Op& op) {
    const TensorId dy = gradient_of(op.writes[0]);
    TensorId dbranch = dy;
    const ResidualAdd& sum = op.as<ResidualAdd>();
    if (const TensorId dropped = dropped_by(op); dropped >= 0) {
        dbranch = fresh_gradient(op.reads[0]);
        emit(DropoutBackward{sum.rows * sum.width, sum.drop, sum.width}, op.label,
             {dy, need(dropped)}, {dbranch});
    }
    for (std::size_t i = 2; i < op.reads.size(); ++i)
        if (forward_.tensors[at(op.reads[i])].role == Role::parameter && !is_frozen(op.reads[i]))
            accumulate(BiasGradient{sum.rows, sum.width}, op.label + " bias", {dbranch},
                       op.reads[i]);
    contribute(op.reads[0], dbranch);
    if (needs_gradient(op.reads[1]))
        contribute(op.reads[1], dy);
    else if (!is_frozen(op.reads[1]))
        accumulate(EmbeddingBackward{sum.rows, sum.width, 1, sum.position_offset}, op.label,
                   {dbranch}, op.reads[1]);
}

void Derivation::derive_embedding(const Op& op) {
    if (is_frozen(op.reads[1])) return;
    const Embedding& forward = op.as<Embedding>();
    accumulate(EmbeddingBackward{forward.rows, forward.width, forward.scale, 0, forward.words},
               op.label, {gradient_of(op.writes[0]), need(op.reads[0])}, op.reads[1]);
}

// d logits = (softmax − one-hot of the target) ÷ valid tokens × loss scale, written over the
// logits, or over a copy.
void Derivation::derive_cross_entropy(std::size_t index) {
    const Op op = forward_.ops[index];
    const CrossEntropySum& sum = op.as<CrossEntropySum>();
    TensorId logits = need(op.reads[0]);
    if (notes_.separate_loss_gradient) {
        const TensorId copy = fresh_gradient(op.reads[0]);
        emit(Cast{sum.rows * sum.width}, "loss", {logits}, {copy});
        logits = copy;
    }
    const bool finds_largest = op.writes.size() > 1;
    TensorId largest = -1, sums = -1;
    if (notes_.loss_in_backward) {
        std::tie(sums, largest) = join_loss(op.reads.back());
    } else {
        largest = need(finds_largest ? op.writes[1] : op.reads[1]);
        sums = need(op.writes[0]);
    }
    if (notes_.loss_in_backward && notes_.loss_in_backward->begun)
        return correct_gradients(op, logits, sums, largest);
    Reads reads = {logits, largest, sums, need(op.reads.back())};
    if (notes_.scaled_loss) reads.push_back(add({"loss scale", Role::scalar, DType::fp32, {1}}));
    const auto weight = notes_.loss_weight.find(index);
    emit(CrossEntropyBackward{sum.rows, sum.width, sum.vocabulary, sum.soft_cap,
                              weight == notes_.loss_weight.end() ? 1 : weight->second, sum.words},
         sum.ahead > 0 ? "mtp loss" : "loss", std::move(reads), {logits});
    gradient_of_[at(op.reads[0])] = logits;
}

// What the parts of the vocabulary have of each row, made one, and the loss that comes of it.
std::pair<TensorId, TensorId> Derivation::join_loss(TensorId targets) {
    const ForwardBlock::LossInBackward& late = *notes_.loss_in_backward;
    const DType dtype = forward_.tensors[at(late.sums)].dtype;
    const std::int64_t rows = late.join.rows;
    const TensorId sums = add({"joined sums", Role::scratch, dtype, {rows, 2}});
    const TensorId largest = add({"joined largest", Role::scratch, dtype, {rows}});
    const TensorId words = need(targets);
    emit(late.join, "loss of parts", {need(late.sums), need(late.largest), words}, {sums, largest});
    if (notes_.root.is_self) {
        const TensorId loss = add({"loss", Role::scalar, dtype, {1}});
        emit(late.loss, "loss", {sums, largest, words, loss}, {loss});
    }
    return {sums, largest};
}

// What forward made with the sums of its own part of the vocabulary becomes dlogits, in place, and
// the gradient of what the head's product reads.
void Derivation::correct_gradients(const Op& sum_op, TensorId dlogits, TensorId sums,
                                   TensorId largest) {
    const CrossEntropySum& sum = sum_op.as<CrossEntropySum>();
    const ForwardBlock::LossInBackward::Begun& begun = *notes_.loss_in_backward->begun;
    const TensorId input = forward_.ops[begun.product].reads[0];
    input_gradient_ = fresh_gradient(input);
    Reads reads = {dlogits,          need(begun.input_gradient), need(begun.target_words),
                   need(begun.sums), need(begun.largest),        sums,
                   largest,          need(sum_op.reads.back())};
    if (notes_.scaled_loss) reads.push_back(add({"loss scale", Role::scalar, DType::fp32, {1}}));
    emit(CrossEntropyRescale{sum.rows, sum.width, forward_.tensors[at(input)].dims.back(),
                             sum.vocabulary, sum.soft_cap, sum.words},
         "loss of all parts", std::move(reads), {dlogits, input_gradient_});
    gradient_of_[at(sum_op.reads[0])] = dlogits;
}

// Of the product that makes logits, where forward began it; else −1.
TensorId Derivation::corrected_input_gradient(std::size_t index) const {
    const auto& late = notes_.loss_in_backward;
    return late && late->begun && late->begun->product == index ? input_gradient_ : TensorId{-1};
}

void Derivation::derive_cast(const Op& op) {
    if (gradient_of_[at(op.writes[0])] < 0) {  // a copy kept for this pass alone
        const TensorId again = fresh_gradient(op.reads[0]);
        emit(op.as<Cast>(), op.label, {need(op.writes[0])}, {again});
        return;
    }
    const TensorId dx = fresh_gradient(op.reads[0]);
    emit(op.as<Cast>(), op.label, {gradient_of(op.writes[0])}, {dx});
    contribute(op.reads[0], dx);
}

void Derivation::derive_collective(std::size_t index) {
    const Op op = forward_.ops[index];
    if (op.is<AllReduce>() && op.group == GroupKind::pipeline) return spread_gradient(op);
    if (op.is<AllReduce>()) return;  // identity; in place, so the gradient is at hand
    if (gradient_of_[at(op.writes[0])] < 0) return;  // gathered keys, which brought theirs home
    if (op.is<ReduceScatter>() && op.group == GroupKind::tensor && !notes_.eight_bit.empty() &&
        notes_.fp8.gathers_copies() && !notes_.wide_gradients)
        return gather_gradient(op);
    const TensorId dy = gradient_of(op.writes[0]);
    const TensorId dx = fresh_gradient(op.reads[0]);
    if (notes_.cut_gradient[index]) {
        emit(Cast{backward_.tensors[at(dx)].elements()}, op.label, {dy}, {dx});
        contribute(op.reads[0], dx);
        return;
    }
    OpSpec undone = op.spec;  // all-to-all undoes itself
    if (op.is<AllGather>()) undone = ReduceScatter{backward_.tensors[at(dy)].elements()};
    if (op.is<ReduceScatter>()) undone = AllGather{op.as<ReduceScatter>().elements};
    Op& back = emit(undone, op.label, {dy}, {dx});
    back.dtype = backward_.tensors[at(dx)].dtype;
    back.stream = op.stream;
    back.group = op.group;
    contribute(op.reads[0], dx);
}

// Of what all pipeline ranks summed, one of them has the gradient.
void Derivation::spread_gradient(const Op& sum) {
    const TensorId dy = gradient_of(sum.writes[0]);
    const bool has_it = notes_.root.is_self;
    communicate(sum, Broadcast{sum.as<AllReduce>().elements, notes_.root.rank},
                has_it ? Reads{dy} : Reads{}, has_it ? Reads{} : Reads{dy},
                backward_.tensors[at(dy)].dtype);
}

// Of what one rank handed to all, each has a part of the gradient.
void Derivation::derive_broadcast(const Op& op) {
    const TensorId x = op.reads.empty() ? op.writes[0] : op.reads[0];
    const TensorId dx = gradient_of(x);
    communicate(op, AllReduce{op.as<Broadcast>().elements}, {dx}, {dx},
                backward_.tensors[at(dx)].dtype);
}

void Derivation::communicate(const Op& like, OpSpec spec, Reads reads, Reads writes, DType dtype) {
    Op op;
    op.spec = std::move(spec);
    op.phase = Phase::backward;
    op.label = like.label;
    op.dtype = dtype;
    op.stream = like.stream;
    op.group = like.group;
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    backward_.ops.push_back(std::move(op));
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

namespace {

// How many ops a forward block has up to the last one of which backward reads a result.
std::size_t ops_that_backward_reads(const ForwardBlock& forward, DType gradient_dtype) {
    const Block kept = Derivation(forward, gradient_dtype).run(0).forward;
    std::size_t count = kept.ops.size();
    const auto is_read = [&](const Op& op) {
        return std::any_of(op.writes.begin(), op.writes.end(), [&](TensorId id) {
            return kept.tensors[static_cast<std::size_t>(id)].role == Role::stash;
        });
    };
    while (count > 0 && !is_read(kept.ops[count - 1]))
        --count;
    return count;
}

}  // namespace

BlockPair derive_backward(ForwardBlock forward, DType gradient_dtype, Again again) {
    std::size_t ops = 0;
    if (again == Again::recompute_all) ops = forward.block.ops.size();
    if (again == Again::recompute_needed) ops = ops_that_backward_reads(forward, gradient_dtype);
    return Derivation(std::move(forward), gradient_dtype).run(ops);
}

}  // namespace orrery::plan
