#include "plan/blocks/eight_bit.hpp"

#include <utility>

namespace orrery::plan {
namespace {

std::int64_t blocks_of(std::int64_t n, std::int64_t size) {
    return (n + size - 1) / size;
}

// One scale for so many rows and columns of a copy as it is read; 0: for all of them.
struct ScaleBlock {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
};

ScaleBlock scale_block(Fp8Recipe recipe, bool weight) {
    switch (recipe) {
        case Fp8Recipe::rowwise:
            return {1, 0};
        case Fp8Recipe::blockwise:
            return {weight ? kScaleBlock : 1, kScaleBlock};
        case Fp8Recipe::mxfp8:
            return {1, kMicroBlock};
        case Fp8Recipe::none:
        case Fp8Recipe::delayed:
        case Fp8Recipe::tensorwise:
            break;
    }
    return {};
}

// Blocks of so many rows, of all matrices. Where counts tell how the rows fall to them, each may
// have one that is not full.
std::int64_t row_blocks(const Casting& c, std::int64_t size) {
    const std::int64_t matrices = c.matrices();
    if (size == 0) return matrices;
    if (!c.counted.on()) return matrices * blocks_of(c.rows / matrices, size);
    return size == 1 ? c.rows : blocks_of(c.rows, size) + matrices;
}

// Of a copy of rows × width by this way of reading it.
std::vector<std::int64_t> scale_dims(const Fp8& fp8, const Casting& c, std::int64_t copy) {
    const ScaleBlock block = scale_block(fp8.recipe, c.weight);
    const auto across = [&](std::int64_t size) { return size == 0 ? 1 : blocks_of(c.width, size); };
    if (copy == kRowsCopy) return {row_blocks(c, block.rows), across(block.columns)};
    const std::int64_t along = row_blocks(c, block.columns);
    if (copy == kTransposedCopy) return {c.weights * across(block.rows), along / c.weights};
    return {along, across(block.rows)};
}

const char* ending(std::int64_t copy) {
    if (copy == kRowsCopy) return "";
    return copy == kTransposedCopy ? "t" : "c";
}

EightBit declare(BlockWriter& w, const Fp8& fp8, const Casting& c, std::int64_t copy) {
    const bool turned = copy == kTransposedCopy;
    const std::string end = ending(copy);
    EightBit made;
    if (copy == kRowsCopy && c.held >= 0)
        made.data = c.held;
    else
        made.data =
            w.add({c.name + ".q" + end,
                   c.role,
                   c.dtype,
                   {turned ? c.width * c.weights : c.rows, turned ? c.rows / c.weights : c.width}});
    if (fp8.whole_tensors()) return made;
    const DType type = fp8.recipe == Fp8Recipe::mxfp8 ? DType::u8 : DType::fp32;
    made.scales = w.add({c.name + ".s" + end, c.role, type, scale_dims(fp8, c, copy)});
    return made;
}

// The ops of a cast, of matrices or of experts' rows.
OpSpec amax_of(const Casting& c) {
    if (c.counted.on()) return AmaxRows{c.counted.of, c.rows, c.width};
    return Amax{c.rows * c.width, c.weights};
}
OpSpec cast_of(const Casting& c) {
    if (c.counted.on()) return QuantizeRows{c.counted.of, c.rows, c.width, c.copies};
    return Quantize{c.rows, c.width, c.copies, c.weights};
}

}  // namespace

bool casts_to_eight_bits(const Op& op) {
    return op.is<Amax>() || op.is<AmaxRows>() || op.is<Quantize>() || op.is<QuantizeRows>() ||
           op.is<Transpose>();
}

DelayedScale delayed_scale(const std::string& of, std::int64_t matrices) {
    return {{of + ".history", Role::quantized, DType::fp32, {kAmaxHistory * matrices}},
            {of + ".amax", Role::quantized, DType::fp32, {matrices}}};
}

DType gradient_type(const Fp8& fp8) {
    return fp8.whole_tensors() ? DType::fp8_e5m2 : DType::fp8_e4m3;
}

std::int64_t columns_alone(const Fp8& fp8) {
    if (fp8.transposes) return kTransposedCopy;
    return fp8.whole_tensors() ? kRowsCopy : kColumnsCopy;
}

std::int64_t both_ways(const Fp8& fp8) {
    return kRowsCopy | columns_alone(fp8);
}

std::int64_t both_ways_of_shares(const Fp8& fp8) {
    return fp8.whole_tensors() ? kRowsCopy : kRowsCopy + kColumnsCopy;
}

Copies declare_copies(BlockWriter& w, const Fp8& fp8, const Casting& c) {
    Copies copies;
    if (c.copies & kRowsCopy) copies.rows = declare(w, fp8, c, kRowsCopy);
    for (const std::int64_t columns : {kColumnsCopy, kTransposedCopy})
        if (c.copies & columns) copies.columns = declare(w, fp8, c, columns);
    if (fp8.whole_tensors()) {
        const TensorId scale = w.add({c.name + ".s", c.role, DType::fp32, {c.matrices(), 1}});
        if (copies.rows.exists()) copies.rows.scales = scale;
        if (copies.columns.exists()) copies.columns.scales = scale;
    }
    if (!copies.columns.exists()) copies.columns = copies.rows;
    return copies;
}

Copies quantize(BlockWriter& w, const Fp8& fp8, const Casting& c, TensorId source) {
    std::vector<TensorId> reads = {source};
    if (c.counted.on()) reads.push_back(c.counted.counts);
    if (fp8.recipe == Fp8Recipe::tensorwise) {
        const TensorId amax = w.add({c.name + ".amax", Role::scratch, DType::fp32, {c.matrices()}});
        w.emit(amax_of(c), c.name, reads, {amax});
        if (c.shared) w.emit(AllReduce{1, ReduceOp::max}, c.name + " amax", {amax}, {amax});
        reads.push_back(amax);
    }
    TensorId noted = -1;
    if (fp8.recipe == Fp8Recipe::delayed) {
        const auto [history, amax] = delayed_scale(c.history, c.matrices());
        reads.push_back(w.add(history));
        noted = w.add(amax);
        reads.push_back(noted);
    }
    const Copies copies = declare_copies(w, fp8, c);
    std::vector<TensorId> writes;
    const auto add = [&writes](TensorId id) {
        for (const TensorId there : writes)
            if (there == id) return;
        writes.push_back(id);
    };
    for (const EightBit* copy : {&copies.rows, &copies.columns})
        if (copy->exists()) add(copy->data);
    for (const EightBit* copy : {&copies.rows, &copies.columns})
        if (copy->exists()) add(copy->scales);
    if (noted >= 0) writes.push_back(noted);
    w.emit(cast_of(c), c.name, std::move(reads), std::move(writes)).dtype = c.dtype;
    return copies;
}

EightBit gather_copy(BlockWriter& w, const Fp8& fp8, const std::string& label,
                     const std::string& name, Tensor data, Tensor scales, EightBit share,
                     std::int64_t ranks) {
    const auto whole = [&](const Tensor& tensor, const std::string& called) {
        Tensor gathered = tensor;
        gathered.name = called;
        gathered.role = Role::scratch;
        gathered.dims[0] *= ranks;
        return gathered;
    };
    const Tensor all = whole(data, name);
    EightBit made{w.add(all), share.scales};
    std::vector<TensorId> reads = {share.data}, writes = {made.data};
    std::int64_t bytes = all.bytes();
    if (!fp8.whole_tensors()) {
        const Tensor all_scales = whole(scales, name + " scales");
        made.scales = w.add(all_scales);
        bytes += all_scales.bytes();
        reads.push_back(share.scales);
        writes.push_back(made.scales);
    }
    w.emit(AllGather{bytes}, label, std::move(reads), std::move(writes)).dtype = data.dtype;
    return made;
}

EightBit transpose_copy(BlockWriter& w, const Fp8& fp8, const std::string& name, Tensor data,
                        Tensor scales, EightBit copy) {
    const auto turned = [](const Tensor& tensor, std::string called) {
        return Tensor{
            std::move(called), Role::scratch, tensor.dtype, {tensor.dims[1], tensor.dims[0]}};
    };
    EightBit made{w.add(turned(data, name)), copy.scales};
    std::vector<TensorId> reads = {copy.data}, writes = {made.data};
    if (!fp8.whole_tensors()) {
        made.scales = w.add(turned(scales, name + " scales"));
        reads.push_back(copy.scales);
        writes.push_back(made.scales);
    }
    w.emit(Transpose{data.dims[0], data.dims[1]}, name, std::move(reads), std::move(writes)).dtype =
        data.dtype;
    return made;
}

}  // namespace orrery::plan
