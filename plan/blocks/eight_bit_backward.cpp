#include "plan/blocks/context_backward.hpp"
#include "plan/blocks/derivation.hpp"

namespace orrery::plan {

// As derive_gemm, of eight bits: rows of dC and columns of W give dA, columns of dC and A give dW.
void Derivation::derive_eight_bit(std::size_t index, const EightBitProduct& product) {
    const Op op = forward_.ops[index];
    const std::int64_t m = op.as<Gemm>().m, n = op.as<Gemm>().n, k = op.as<Gemm>().k;
    const TensorId dc = gradient_of(op.writes[0]);
    const bool trained = !is_frozen(product.weight);
    EightBit input = trained ? columns_of_input(op.label, product) : EightBit{};
    Copies copies = gradient_copies(op.label, dc, {});
    const EightBit weight = columns_of_weight(op.label, product);
    const TensorId da = fresh_gradient(op.reads[0]);
    emit(Gemm{m, k, n, GemmProduct::input_gradient, 1, notes_.fp8.transposes}, op.label + " dgrad",
         {copies.rows.data, weight.data, copies.rows.scales, weight.scales}, {da})
        .dtype = op.dtype;
    contribute_of_product(op.reads[0], product.weight, da);
    if (trained) add_weight_gradient(op, product, std::move(copies), input);
    if (op.reads.size() > 4 && !is_frozen(op.reads[4]))
        accumulate(BiasGradient{m, n}, op.label + " bias", {dc}, op.reads[4]);
    if (notes_.partial_input_gradient[index]) sum_parts(op.reads[0], m * k, op.label);
}

// As of a grouped product, of eight bits.
void Derivation::derive_grouped_eight_bit(const Op& op, const EightBitProduct& product) {
    const GroupedGemm& forward = op.as<GroupedGemm>();
    const TensorId dc = gradient_of(op.writes[0]), counts = need(op.reads[2]);
    const EightBit input = columns_of_input(op.label, product);
    const Copies copies = gradient_copies(op.label, dc, {product.counted.of, counts});
    const EightBit weight = columns_of_weight(op.label, product);
    const TensorId da = fresh_gradient(op.reads[0]);
    const auto gradient = [&](std::int64_t m, std::int64_t n, std::int64_t k, GemmProduct which) {
        GroupedGemm made = product_like(forward, m, n, k, which);
        made.transposed = notes_.fp8.transposes;
        return made;
    };
    emit(gradient(forward.m, forward.k, forward.n, GemmProduct::input_gradient),
         op.label + " dgrad",
         {copies.rows.data, weight.data, counts, copies.rows.scales, weight.scales}, {da})
        .dtype = op.dtype;
    contribute(op.reads[0], da);
    accumulate(gradient(forward.n, forward.k, forward.m, GemmProduct::weight_gradient),
               op.label + " wgrad",
               {copies.columns.data, input.data, counts, copies.columns.scales, input.scales},
               product.weight);
    backward_.ops.back().dtype = op.dtype;
}

void Derivation::add_weight_gradient(const Op& op, const EightBitProduct& product, Copies copies,
                                     EightBit input) {
    const Gemm& forward = op.as<Gemm>();
    const Fp8& fp8 = notes_.fp8;
    if (product.transposes) input = transposed(input, op.label + "_in.qt");
    const bool gathered = is_eight_bit(backward_.tensors[at(gradient_of(op.writes[0]))].dtype);
    if (gathered && fp8.transposes)
        copies.columns = transposed(copies.columns, "d" + op.label + ".qt");
    accumulate(
        Gemm{forward.n, forward.k, forward.m, GemmProduct::weight_gradient, 1, fp8.transposes},
        op.label + " wgrad", {copies.columns.data, input.data, copies.columns.scales, input.scales},
        product.weight);
    backward_.ops.back().dtype = op.dtype;
}

// What forward has kept, gathered where each rank kept its share; else made of the input.
EightBit Derivation::columns_of_input(const std::string& label, const EightBitProduct& product) {
    const Fp8& fp8 = notes_.fp8;
    if (!product.columns.exists()) {
        const Tensor& input = forward_.tensors[at(product.input)];
        Casting casting{input.name, label + ".x", input.dims[0], input.dims[1]};
        casting.copies = columns_alone(fp8);
        if (product.counted.on())
            casting.counted = {product.counted.of, need(product.counted.counts)};
        return quantize(*this, fp8, casting, need(product.input)).columns;
    }
    const EightBit kept{need(product.columns.data), need(product.columns.scales)};
    if (!product.gathers) return kept;
    return gather_copy(*this, fp8, label + " input", label + "_in.qc",
                       backward_.tensors[at(kept.data)], backward_.tensors[at(kept.scales)], kept,
                       notes_.tensor);
}

EightBit Derivation::columns_of_weight(const std::string& label, const EightBitProduct& product) {
    const Fp8& fp8 = notes_.fp8;
    const TensorId weight = product.weight;
    const Tensor& held = forward_.tensors[at(weight)];
    Casting casting{held.name, label + ".w", held.dims[0], held.dims[1]};
    casting.weight = true;
    casting.weights = product.counted.matrices();
    casting.copies = columns_alone(fp8);
    if (!fp8.weights_per_step) return quantize(*this, fp8, casting, need(weight)).columns;
    casting.role = Role::quantized;
    if (fp8.parameters && (casting.copies & kRowsCopy)) casting.held = need(weight);
    return declare_copies(*this, fp8, casting).columns;
}

// Cast once for all products that read it; or what was cast before it was gathered.
Copies Derivation::gradient_copies(const std::string& label, TensorId gradient,
                                   const CountedRows& counted) {
    const auto found = gradient_copies_.find(gradient);
    if (found != gradient_copies_.end()) return found->second;
    const Fp8& fp8 = notes_.fp8;
    const Tensor& dc = backward_.tensors[at(gradient)];
    Casting casting{dc.name, label + ".dy", dc.dims[0], dc.dims[1], gradient_type(fp8)};
    casting.copies = freezes() ? kRowsCopy : both_ways(fp8);
    casting.counted = counted;
    return gradient_copies_[gradient] = quantize(*this, fp8, casting, gradient);
}

EightBit Derivation::transposed(const EightBit& copy, const std::string& name) {
    return transpose_copy(*this, notes_.fp8, name, backward_.tensors[at(copy.data)],
                          backward_.tensors[at(copy.scales)], copy);
}

// Of a product's partial sums that were scattered: each rank casts its share of the gradient.
void Derivation::gather_gradient(const Op& op) {
    const Fp8& fp8 = notes_.fp8;
    const TensorId share = gradient_of(op.writes[0]);
    const Tensor dy = backward_.tensors[at(share)];
    Casting casting{dy.name, op.label + ".dy", dy.dims[0], dy.dims[1], gradient_type(fp8)};
    casting.copies = freezes() ? kRowsCopy : both_ways_of_shares(fp8);
    casting.shared = true;
    const Copies cast = quantize(*this, fp8, casting, share);
    const auto gather = [&](const EightBit& copy, const char* end) {
        return gather_copy(*this, fp8, op.label, "d" + op.label + end,
                           backward_.tensors[at(copy.data)], backward_.tensors[at(copy.scales)],
                           copy, notes_.tensor);
    };
    Copies whole;
    whole.rows = gather(cast.rows, ".q");
    whole.columns = fp8.whole_tensors() || freezes() ? whole.rows : gather(cast.columns, ".qc");
    gradient_copies_[whole.rows.data] = whole;
    contribute(op.reads[0], whole.rows.data);
}

// The gradient of a copy is that of what it is a copy of.
void Derivation::derive_quantize(const Op& op) {
    if (needs_gradient(op.reads[0])) contribute(op.reads[0], gradient_of(op.writes[0]));
}

}  // namespace orrery::plan
