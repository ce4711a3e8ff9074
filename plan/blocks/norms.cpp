#include "plan/blocks/norms.hpp"

namespace orrery::plan {
namespace {

// What norms of single operations keep beside their input: the input in fp32, and the result before
// it is weighted. Backward reads each once (derive_cast).
void keep_copy(ForwardWriter& w, const std::string& label, TensorId of, DType dtype) {
    const Dims& d = w.dims();
    const std::int64_t width = w.width(of);
    const TensorId copy =
        w.tensor(label + "_kept", Role::scratch, dtype, {d.sharded_tokens, width});
    w.op(Cast{d.sharded_tokens * width}, label, {of}, {copy}).dtype = dtype;
}

}  // namespace

Start start_of_norm(const Model& model) {
    return model.norm_weight_offset != 0 ? Start::zero : Start::one;
}

TensorId norm(ForwardWriter& w, const Model& model, const std::string& name, TensorId x) {
    const Dims& d = w.dims();
    const std::int64_t width = w.width(x);
    const LayerModule around = w.begin_module(LayerModule::norm);
    if (d.composed_norms) keep_copy(w, name + "_input", x, d.wide_dtype);
    const TensorId weight = w.vector(name + ".weight", width, start_of_norm(model));
    std::vector<TensorId> reads = {x, weight};
    if (model.layer_norm()) reads.push_back(w.vector(name + ".bias", width, Start::zero));
    const TensorId out = w.activation(name, d.sharded_tokens, width);
    // LayerNorm keeps mean and 1/σ per token, RMSNorm 1/σ alone.
    const TensorId stats = w.tensor(name + "_stats", Role::scratch, d.wide_dtype,
                                    {d.sharded_tokens, model.layer_norm() ? 2 : 1});
    w.op(Normalize{d.sharded_tokens, width, model.layer_norm(), model.norm_epsilon,
                   model.norm_weight_offset},
         name, std::move(reads), {out, stats});
    if (d.composed_norms) keep_copy(w, name + "_unweighted", out, d.dtype);
    w.end_module(around);
    return out;
}

void add_dropout(ForwardWriter& w, DropoutMasks masks, const std::string& mask,
                 const std::vector<std::int64_t>& dims, std::vector<TensorId>& reads,
                 std::vector<TensorId>& writes) {
    if (masks == DropoutMasks::stored)
        writes.push_back(w.tensor(mask, Role::scratch, DType::u8, dims));
    else
        reads.push_back(w.dropout_key());
}

}  // namespace orrery::plan
