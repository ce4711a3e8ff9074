// Forward of linears whose products are of eight bits.
#include <algorithm>

#include "plan/blocks/forward_block.hpp"

namespace orrery::plan {

TensorId ForwardWriter::add(Tensor added) {
    return tensor(std::move(added.name), added.role, added.dtype, std::move(added.dims));
}

Op& ForwardWriter::emit(OpSpec spec, std::string label, std::vector<TensorId> reads,
                        std::vector<TensorId> writes) {
    const DType type = dtype(writes.front());
    Op& made = op(std::move(spec), std::move(label), std::move(reads), std::move(writes));
    made.dtype = type;
    return made;
}

// Of what several products read, one copy.
ForwardWriter::EightBitInput ForwardWriter::eight_bit_input(const std::string& name, TensorId x,
                                                            bool gathered,
                                                            const CountedRows& counted) {
    for (const EightBitInput& input : eight_bit_inputs_)
        if (input.source == x && input.gathered == gathered) return input;
    const Fp8& fp8 = dims_.fp8;
    EightBitInput input;
    // A copy that is read by rows alone is of no use to backward.
    const bool keeps = dims_.keeps_gathered && !fp8.whole_tensors();
    if (gathered && fp8.gathers_copies() && !dims_.lora.adapts(name) && !keeps) {
        input = gathered_copies(name, x);
    } else {
        // What was gathered in 16 bits to be gathered again in backward is not kept whole.
        const bool packed = fp8.packed_stash && (!gathered || dims_.keeps_gathered);
        const TensorId whole = gathered ? gather(name, x) : x;
        const Tensor& source = out_.block.tensors[static_cast<std::size_t>(whole)];
        Casting casting;
        casting.name = source.name;
        casting.history = name + ".x";
        casting.rows = source.dims[0];
        casting.width = source.dims[1];
        casting.copies = packed && !dims_.lora.on() ? both_ways(fp8) : kRowsCopy;
        casting.counted = counted;
        const Copies copies = quantize(*this, fp8, casting, whole);
        input.rows = copies.rows;
        input.product.input = whole;
        if (packed) input.product.columns = copies.columns;
    }
    input.source = x;
    input.gathered = gathered;
    input.product.counted = counted;
    eight_bit_inputs_.push_back(input);
    return input;
}

// Each rank's share is cast, then gathered: by rows now, and in backward by what is read by
// columns: the same again where a tensor has one scale, which the ranks have agreed on.
ForwardWriter::EightBitInput ForwardWriter::gathered_copies(const std::string& name, TensorId x) {
    const Fp8& fp8 = dims_.fp8;
    const Tensor source = out_.block.tensors[static_cast<std::size_t>(x)];
    Casting casting;
    casting.name = source.name;
    casting.history = name + ".x";
    casting.rows = source.dims[0];
    casting.width = source.dims[1];
    casting.copies = dims_.lora.on() ? kRowsCopy : both_ways_of_shares(fp8);
    casting.shared = true;
    const Copies share = quantize(*this, fp8, casting, x);
    const auto tensor_of = [this](TensorId id) {
        return out_.block.tensors[static_cast<std::size_t>(id)];
    };
    EightBitInput input;
    input.rows =
        gather_copy(*this, fp8, name + " input", name + "_in.q", tensor_of(share.rows.data),
                    tensor_of(share.rows.scales), share.rows, dims_.tensor);
    if (!dims_.keeps_gathered)
        for (const TensorId id : out_.block.ops.back().writes)
            make_again(id);
    input.product.columns = fp8.whole_tensors() ? input.rows : share.columns;
    input.product.gathers = !fp8.whole_tensors();
    input.product.transposes = fp8.transposes;
    return input;
}

// By rows, a weight's copies of eight bits.
EightBit ForwardWriter::eight_bit_weight(const std::string& name, TensorId weight,
                                         std::int64_t matrices) {
    const Fp8& fp8 = dims_.fp8;
    const Tensor held = out_.block.tensors[static_cast<std::size_t>(weight)];
    Casting casting;
    casting.name = held.name;
    casting.history = name + ".w";
    casting.rows = held.dims[0];
    casting.width = held.dims[1];
    casting.weight = true;
    casting.weights = matrices;
    casting.copies = kRowsCopy;
    if (fp8.weights_per_step) casting.role = Role::quantized;
    if (fp8.parameters) casting.held = weight;
    return fp8.weights_per_step ? declare_copies(*this, fp8, casting).rows
                                : quantize(*this, fp8, casting, weight).rows;
}

TensorId ForwardWriter::eight_bit_product(const std::string& name, const EightBitInput& input,
                                          TensorId weight, TensorId bias, bool column) {
    const EightBit weights = eight_bit_weight(name, weight, 1);
    const std::vector<std::int64_t> held =
        out_.block.tensors[static_cast<std::size_t>(weight)].dims;
    const std::int64_t rows =
        out_.block.tensors[static_cast<std::size_t>(input.rows.data)].dims.front();
    const bool partial = column && dims_.tensor > 1 && !dims_.sequence_parallel &&
                         !makes_part_of_gradient(input.rows.data);
    const TensorId result = activation(name, rows, held[0]);
    std::vector<TensorId> reads = {input.rows.data, weights.data, input.rows.scales,
                                   weights.scales};
    if (bias >= 0) reads.push_back(bias);
    op(Gemm{rows, held[0], held[1]}, name, std::move(reads), {result}).dtype = DType::fp8_e4m3;
    out_.partial_input_gradient.back() = partial;
    note_eight_bits(input, weight);
    return result;
}

// Of the op written last.
void ForwardWriter::note_eight_bits(const EightBitInput& input, TensorId weight) {
    EightBitProduct product = input.product;
    product.weight = weight;
    out_.eight_bit[out_.block.ops.size() - 1] = product;
}

TensorId ForwardWriter::grouped_product(const std::string& label, const std::string& result,
                                        TensorId x, TensorId weight, const CountedRows& rows) {
    const std::int64_t room = out_.block.tensors[static_cast<std::size_t>(x)].dims.front();
    const std::vector<std::int64_t> held =
        out_.block.tensors[static_cast<std::size_t>(weight)].dims;
    const GroupedGemm gemm{rows.of, room, held[0] / rows.matrices(), held[1]};
    if (!dims_.fp8.on()) {
        const TensorId y = activation(result, room, gemm.n);
        op(gemm, label, {x, weight, rows.counts}, {y});
        return y;
    }
    const EightBitInput input = eight_bit_input(label, x, false, rows);
    const EightBit weights = eight_bit_weight(label, weight, rows.matrices());
    const TensorId y = activation(result, room, gemm.n);
    op(gemm, label, {input.rows.data, weights.data, rows.counts, input.rows.scales, weights.scales},
       {y})
        .dtype = DType::fp8_e4m3;
    note_eight_bits(input, weight);
    return y;
}

}  // namespace orrery::plan
