#include <algorithm>
#include <numeric>

#include "plan/blocks/forward_block.hpp"
#include "plan/check.hpp"
#include "plan/ir/parameters.hpp"

namespace orrery::plan {

ForwardWriter::ForwardWriter(std::string name, const Dims& dims) : dims_(dims) {
    out_.block.name = std::move(name);
    out_.fp8 = dims.fp8;
    out_.tensor = dims.tensor;
    out_.keeps_gathered = dims.keeps_gathered;
    out_.any_order = dims.any_order;
    out_.gradient_sources = dims.gradient_sources;
}

TensorId ForwardWriter::tensor(std::string name, Role role, DType dtype,
                               std::vector<std::int64_t> dims) {
    // Blocks of a part find by its name what one of them keeps for another.
    for (const Tensor& other : out_.block.tensors)
        ORRERY_CHECK(other.name != name, out_.block.name + " has two tensors named " + name);
    out_.block.tensors.push_back({std::move(name), role, dtype, std::move(dims)});
    out_.rematerialise.push_back(false);
    return static_cast<TensorId>(out_.block.tensors.size() - 1);
}

TensorId ForwardWriter::activation(std::string name, std::int64_t rows, std::int64_t width) {
    return tensor(std::move(name), Role::scratch, dims_.dtype, {rows, width});
}

TensorId ForwardWriter::parameter(std::string name, ParameterSpec spec) {
    spec.frozen = dims_.lora.on();
    spec.decays = spec.decays && !spec.frozen;
    if (spec.frozen) spec.sign_rate = 0;
    return declare(std::move(name), std::move(spec));
}

TensorId ForwardWriter::adapter(const std::string& linear, const char* matrix, ParameterSpec spec) {
    spec.decays = true;
    return declare(linear + matrix, std::move(spec));
}

TensorId ForwardWriter::declare(std::string name, ParameterSpec spec) {
    std::vector<std::int64_t> dims = share_of(spec, dims_.tensor, dims_.places);
    const TensorId id = tensor(std::move(name), Role::parameter, dims_.dtype, std::move(dims));
    out_.block.parameters.push_back({id, std::move(spec)});
    return id;
}

TensorId ForwardWriter::vector(std::string name, std::int64_t width, Start start) {
    return parameter(std::move(name), {{width}, Cut::whole, {}, start});
}

TensorId ForwardWriter::matrix(const std::string& linear, ParameterSpec spec) {
    const TensorId id = parameter(linear + ".weight", std::move(spec));
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

TensorId ForwardWriter::column_parallel(const std::string& name, TensorId x,
                                        std::int64_t input_width,
                                        const std::vector<std::int64_t>& sections, bool bias) {
    const std::int64_t columns = std::accumulate(sections.begin(), sections.end(), std::int64_t{0});
    const TensorId weight =
        matrix(name, {{columns, input_width}, Cut::rows, sections, Start::normal, true});
    const TensorId added =
        bias ? parameter(name + ".bias", {{columns}, Cut::rows, sections, Start::zero})
             : TensorId{-1};
    const TensorId y =
        dims_.fp8.on() ? eight_bit_product(name, eight_bit_input(name, x, dims_.sequence_parallel),
                                           weight, added, true)
                       : column_parallel_with(name, x, weight, added);
    if (!dims_.lora.adapts(name)) return y;
    return adapted(name, dims_.sequence_parallel ? gather(name, x) : x, y, input_width, sections);
}

TensorId ForwardWriter::adapted(const std::string& name, TensorId x, TensorId y,
                                std::int64_t input_width,
                                const std::vector<std::int64_t>& sections) {
    const std::int64_t rank = dims_.lora.rank;
    const bool column = !sections.empty();
    const std::int64_t out =
        column ? std::accumulate(sections.begin(), sections.end(), std::int64_t{0}) : dims_.hidden;
    // Hu et al. 2021, section 4.1: A is drawn from a normal distribution, B begins with zeros.
    ParameterSpec down{{rank, input_width}, column ? Cut::whole : Cut::columns, {}};
    ParameterSpec up{{out, rank}, column ? Cut::rows : Cut::whole, sections, Start::zero};
    (column ? down : up).partial_gradient = true;
    const TensorId a = adapter(name, ".lora_A", std::move(down));
    const TensorId b = adapter(name, ".lora_B", std::move(up));
    const auto share = [&](TensorId id) {
        return out_.block.tensors[static_cast<std::size_t>(id)].dims;
    };
    const TensorId low = activation(name + "_low", dims_.tokens, rank);
    op(Gemm{dims_.tokens, rank, share(a)[1]}, name + " A", {x, a}, {low});
    const std::int64_t width = share(b)[0];
    const TensorId change = activation(name + "_change", dims_.tokens, width);
    op(Gemm{dims_.tokens, width, rank, GemmProduct::forward, dims_.lora.factor()}, name + " B",
       {low, b}, {change});
    const TensorId sum = activation(name + "_adapted", dims_.tokens, width);
    op(Add{dims_.tokens, width}, name + " sum", {y, change}, {sum});
    return sum;
}

TensorId ForwardWriter::column_parallel_with(const std::string& name, TensorId x, TensorId weight,
                                             TensorId bias) {
    const TensorId whole = dims_.sequence_parallel ? gather(name, x) : x;
    const bool first = !makes_part_of_gradient(whole);
    const std::vector<std::int64_t> share =
        out_.block.tensors[static_cast<std::size_t>(weight)].dims;
    const std::int64_t width = share[0];
    const TensorId result = activation(name, dims_.tokens, width);
    std::vector<TensorId> reads = {whole, weight};
    if (bias >= 0) reads.push_back(bias);
    op(Gemm{dims_.tokens, width, share[1]}, name, std::move(reads), {result});
    out_.partial_input_gradient.back() = dims_.tensor > 1 && !dims_.sequence_parallel && first;
    return result;
}

TensorId ForwardWriter::gather(const std::string& name, TensorId x) {
    for (const auto& [shard, whole] : gathered_)
        if (shard == x) return whole;
    const std::int64_t width = out_.block.tensors[static_cast<std::size_t>(x)].dims[1];
    const TensorId whole = activation(name + "_in", dims_.tokens, width);
    op(AllGather{dims_.tokens * width}, name + " input", {x}, {whole});
    if (!dims_.keeps_gathered) make_again(whole);
    gathered_.emplace_back(x, whole);
    return whole;
}

bool ForwardWriter::makes_part_of_gradient(TensorId input) const {
    for (std::size_t i = 0; i < out_.block.ops.size(); ++i)
        if (out_.partial_input_gradient[i] && out_.block.ops[i].reads.front() == input) return true;
    return false;
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

TensorId ForwardWriter::whole_product(const std::string& name, TensorId x, std::int64_t columns) {
    const std::int64_t rows = dims_.sharded_tokens, input_width = width(x);
    const TensorId weight =
        matrix(name, {{columns, input_width}, Cut::whole, {}, Start::normal, true});
    if (dims_.fp8.on())
        return eight_bit_product(name, eight_bit_input(name, x, false), weight, -1, false);
    const TensorId y = activation(name, rows, columns);
    op(Gemm{rows, columns, input_width}, name, {x, weight}, {y});
    return y;
}

TensorId ForwardWriter::row_parallel(const std::string& name, TensorId x,
                                     std::int64_t input_width) {
    return reduce_over_tensor(name, row_parallel_partial(name, x, input_width));
}

TensorId ForwardWriter::row_parallel_partial(const std::string& name, TensorId x,
                                             std::int64_t input_width) {
    const TensorId weight =
        matrix(name, {{dims_.hidden, input_width}, Cut::columns, {}, Start::residual_normal, true});
    const bool adapts = dims_.lora.adapts(name);
    out_.wide_gradients = out_.wide_gradients || adapts;
    if (dims_.fp8.on()) {
        const TensorId y =
            eight_bit_product(name, eight_bit_input(name, x, false), weight, -1, false);
        return adapts ? adapted(name, x, y, input_width, {}) : y;
    }
    const TensorId partial = activation(name, dims_.tokens, dims_.hidden);
    op(Gemm{dims_.tokens, dims_.hidden, input_width / dims_.tensor}, name, {x, weight}, {partial});
    return adapts ? adapted(name, x, partial, input_width, {}) : partial;
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
