#include <algorithm>

#include "plan/blocks/forward_block.hpp"

namespace orrery::plan {

ForwardWriter::ForwardWriter(std::string name, const Dims& dims) : dims_(dims) {
    out_.block.name = std::move(name);
    out_.fp8 = dims.fp8;
    out_.tensor = dims.tensor;
}

TensorId ForwardWriter::tensor(std::string name, Role role, DType dtype,
                               std::vector<std::int64_t> dims) {
    out_.block.tensors.push_back({std::move(name), role, dtype, std::move(dims)});
    out_.rematerialise.push_back(false);
    out_.replicated.push_back(false);
    return static_cast<TensorId>(out_.block.tensors.size() - 1);
}

TensorId ForwardWriter::activation(std::string name, std::int64_t rows, std::int64_t width) {
    return tensor(std::move(name), Role::scratch, dims_.dtype, {rows, width});
}

TensorId ForwardWriter::parameter(std::string name, std::vector<std::int64_t> dims,
                                  bool replicated) {
    const TensorId id = tensor(std::move(name), Role::parameter, dims_.dtype, std::move(dims));
    out_.replicated[static_cast<std::size_t>(id)] = replicated;
    return id;
}

TensorId ForwardWriter::matrix(const std::string& linear, std::vector<std::int64_t> dims) {
    const TensorId id = parameter(linear + ".weight", std::move(dims), false);
    if (dims_.fp8.parameters)
        out_.block.tensors[static_cast<std::size_t>(id)].dtype = DType::fp8_e4m3;
    return id;
}

TensorId ForwardWriter::dropout_key() {
    if (dropout_key_ < 0) dropout_key_ = tensor("dropout key", Role::scalar, DType::i32, {2});
    return dropout_key_;
}

Op& ForwardWriter::op(OpSpec spec, std::string label, std::vector<TensorId> reads,
                      std::vector<TensorId> writes) {
    Op op;
    op.spec = std::move(spec);
    op.label = std::move(label);
    op.dtype = dims_.dtype;
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    if (is_communication(op.kind())) {
        op.stream = Stream::tensor_comm;
        op.group = GroupKind::tensor;
    }
    out_.block.ops.push_back(std::move(op));
    out_.partial_input_gradient.push_back(false);
    out_.cut_gradient.push_back(false);
    out_.module.push_back(module_);
    out_.runs_whole.push_back(module_ == LayerModule::attention_core);
    return out_.block.ops.back();
}

TensorId ForwardWriter::column_parallel(const std::string& name, TensorId x, std::int64_t width,
                                        bool bias) {
    const TensorId weight = matrix(name, {width, dims_.hidden});
    const TensorId added = bias ? parameter(name + ".bias", {width}, false) : TensorId{-1};
    if (dims_.fp8.on())
        return eight_bit_product(name, eight_bit_input(name, x, dims_.sequence_parallel), weight,
                                 added, true);
    return column_parallel_with(name, x, weight, added, width);
}

TensorId ForwardWriter::column_parallel_with(const std::string& name, TensorId x, TensorId weight,
                                             TensorId bias, std::int64_t width) {
    const TensorId whole = dims_.sequence_parallel ? gather(name, x) : x;
    const bool first = !has_gemm_of(whole);
    const TensorId result = activation(name, dims_.tokens, width);
    std::vector<TensorId> reads = {whole, weight};
    if (bias >= 0) reads.push_back(bias);
    op(Gemm{dims_.tokens, width, dims_.hidden}, name, std::move(reads), {result});
    out_.partial_input_gradient.back() = dims_.tensor > 1 && !dims_.sequence_parallel && first;
    return result;
}

TensorId ForwardWriter::gather(const std::string& name, TensorId x) {
    for (const auto& [shard, whole] : gathered_)
        if (shard == x) return whole;
    const TensorId whole = activation(name + "_in", dims_.tokens, dims_.hidden);
    op(AllGather{dims_.tokens * dims_.hidden}, name + " input", {x}, {whole});
    out_.rematerialise[static_cast<std::size_t>(whole)] = true;
    gathered_.emplace_back(x, whole);
    return whole;
}

bool ForwardWriter::has_gemm_of(TensorId input) const {
    return std::any_of(out_.block.ops.begin(), out_.block.ops.end(), [input](const Op& op) {
        return op.is<Gemm>() && op.reads.front() == input;
    });
}

TensorId ForwardWriter::halve_product(std::string first, std::string second) {
    Op& product = out_.block.ops.back();
    Tensor& whole = out_.block.tensors[static_cast<std::size_t>(product.writes.front())];
    whole.name = std::move(first);
    whole.dims.back() /= 2;
    Tensor half = whole;
    half.name = std::move(second);
    const TensorId added = add(std::move(half));
    product.writes.push_back(added);
    return added;
}

TensorId ForwardWriter::row_parallel(const std::string& name, TensorId x,
                                     std::int64_t input_width) {
    return reduce_over_tensor(name, row_parallel_partial(name, x, input_width));
}

TensorId ForwardWriter::row_parallel_partial(const std::string& name, TensorId x,
                                             std::int64_t input_width) {
    const TensorId weight = matrix(name, {dims_.hidden, input_width});
    if (dims_.fp8.on())
        return eight_bit_product(name, eight_bit_input(name, x, false), weight, -1, false);
    const TensorId partial = activation(name, dims_.tokens, dims_.hidden);
    op(Gemm{dims_.tokens, dims_.hidden, input_width}, name, {x, weight}, {partial});
    return partial;
}

TensorId ForwardWriter::reduce_over_tensor(const std::string& name, TensorId partial) {
    if (dims_.tensor == 1) return partial;
    const std::int64_t elements = dims_.tokens * dims_.hidden;
    if (!dims_.sequence_parallel) {
        op(AllReduce{elements}, name, {partial}, {partial});
        return partial;
    }
    const TensorId shard = activation(name + "_out", dims_.sharded_tokens, dims_.hidden);
    op(ReduceScatter{elements}, name, {partial}, {shard});
    return shard;
}

}  // namespace orrery::plan
