// Products and attention.
#include "runtime/executor/performer.hpp"
#include "runtime/kernels/activation_forms.hpp"
#include "runtime/kernels/gemm_forms.hpp"

namespace orrery::runtime {
namespace {

// Without its operands.
template <typename Op>
Gemm gemm_of(const Op& op) {
    Gemm product;
    product.form = form_of(op.product);
    product.m = op.m;
    product.n = op.n;
    product.k = op.k;
    product.factor = op.factor;
    return product;
}

}  // namespace

void Performer::compute(const plan::ActivatedGemm& op, const Call& call) {
    ActivatedGemm activated{gemm_of(op), form_of(op.function), {}};
    Gemm& product = activated.product;
    product.a = read(call, 0);
    product.b = read(call, 1);
    product.c = written(call, 0);
    if (!op.is_forward())
        activated.before = read(call, 2);
    else if (call.bound.writes.size() > 1)
        activated.before = written(call, 1);
    if (op.is_forward() && call.bound.reads.size() > 2) product.bias = read(call, 2);
    call.kernels.activated_gemm(activated);
}

void Performer::compute(const plan::ResidualGemm& op, const Call& call) {
    Gemm product = gemm_of(op.gemm());
    product.a = read(call, 0);
    product.b = read(call, 1);
    product.residual = read(call, 2);
    if (call.bound.reads.size() > 3) product.bias = read(call, 3);
    product.c = written(call, 0);
    call.kernels.gemm(product);
}

void Performer::compute(const plan::BiasGradientGemm& op, const Call& call) {
    BiasGradientGemm gradients{gemm_of(op.gemm()), written(call, 1)};
    Gemm& product = gradients.product;
    product.a = read(call, 0);
    product.b = read(call, 1);
    product.c = written(call, 0);
    product.accumulate = call.bound.accumulates;
    call.kernels.bias_gradient_gemm(gradients);
}

void Performer::compute(const plan::Gemm& op, const Call& call) {
    Gemm gemm = gemm_of(op);
    if (op.transposed) gemm.form = GemmForm::forward;
    gemm.a = read(call, 0);
    gemm.b = read(call, 1);
    const bool scaled = plan::is_eight_bit(gemm.a.dtype);
    if (scaled) {
        gemm.a_scales = read_scales(call, 0, 2);
        gemm.b_scales = read_scales(call, 1, 3);
    }
    const std::size_t bias = scaled ? 4 : 2;
    if (op.product == plan::GemmProduct::forward && call.bound.reads.size() > bias)
        gemm.bias = read(call, bias);
    gemm.accumulate = call.bound.accumulates;
    // Columns of the result in a matrix each; of fewer columns than the weight has, the last.
    const std::int64_t rows = call.read_tensor(1).dims[0];
    const std::int64_t left = op.product == plan::GemmProduct::forward ? rows - gemm.n : 0;
    gemm.n /= static_cast<std::int64_t>(call.bound.writes.size());
    const Gemm first = gemm;
    for (std::size_t i = 0; i < call.bound.writes.size(); ++i) {
        const std::int64_t column = left + static_cast<std::int64_t>(i) * gemm.n;
        gemm.b = from_element(first.b, column * gemm.k);
        gemm.b_scales.first_row = column;
        if (gemm.bias.data != nullptr) gemm.bias = from_element(first.bias, column);
        gemm.c = written(call, i);
        if (call.bound.op->parts == 1)
            call.kernels.gemm(gemm);
        else
            gemm_in_runs(call, gemm, i);
    }
}

// A part of the tokens: so many rows of each tensor rank's share, one run of rows after another in
// a tensor that holds the part alone, shares apart in one that holds all tokens.
void Performer::gemm_in_runs(const Call& call, const Gemm& part, std::size_t result) {
    const plan::Op& op = *call.bound.op;
    const std::int64_t runs = program_.mesh.tensor;
    const bool sums = part.form == GemmForm::weight_gradient;
    Gemm run = part;
    (sums ? run.k : run.m) /= runs;
    const std::int64_t rows = sums ? run.k : run.m;
    auto rows_of = [&](const Buffer& whole, plan::TensorId id, std::int64_t width, std::int64_t r) {
        const bool apart = plan::touches_part(*call.bound.block, op, id);
        const std::int64_t first = apart ? (r * op.parts + op.part) * rows : r * rows;
        return from_element(whole, first * width);
    };
    for (std::int64_t r = 0; r < runs; ++r) {
        run.a = rows_of(part.a, op.reads[0], sums ? part.m : part.k, r);
        if (sums)
            run.b = rows_of(part.b, op.reads[1], part.n, r);
        else
            run.c = rows_of(part.c, op.writes[result], part.n, r);
        run.accumulate = part.accumulate || (sums && r > 0);
        call.kernels.gemm(run);
    }
}

// Heads are shared out over the tensor group, and where they are exchanged for tokens each rank's
// further over its context group.
std::int64_t Performer::first_head(std::int64_t heads, std::int64_t total_heads) const {
    const bool exchanged = heads * program_.mesh.tensor < total_heads;
    const std::int64_t share =
        exchanged ? program_.at.tensor * program_.mesh.context + program_.at.context
                  : program_.at.tensor;
    return share * heads;
}

AttentionMask Performer::attention_mask(const Call& call, std::int64_t window) const {
    return {window, kept(call)};
}

AttentionDropout Performer::attention_dropout(const Call& call,
                                              const plan::AttentionForm& form) const {
    if (form.drop.rate == 0) return {};
    return {dropout_key(call, form.drop), first_sample(call),
            first_head(form.heads, form.total_heads), form.total_heads};
}

// The op's heads are all of the rank's, or where heads are exchanged for tokens the context rank's
// share of them.
Buffer Performer::of_heads(const Buffer& whole, std::int64_t held, std::int64_t heads) const {
    return from_element(whole, heads < held ? program_.at.context * heads : 0);
}

Buffer Performer::sinks_of(const Call& call, const plan::AttentionForm& form,
                           std::size_t operand) const {
    if (!form.sinks) return {};
    return of_heads(read(call, operand), call.read_tensor(operand).dims[0], form.heads);
}

// Where the op has a share of the rank's heads, the gradients of the others are 0.
void Performer::put_sink_gradients(const Call& call, std::int64_t heads, std::size_t operand,
                                   Buffer& dsinks, bool& accumulate) const {
    const std::int64_t held = call.written_tensor(operand).dims[0];
    accumulate = call.bound.accumulates;
    if (heads < held && !accumulate) {
        call.kernels.fill({held, 0, written(call, operand)});
        accumulate = true;
    }
    dsinks = of_heads(written(call, operand), held, heads);
}

AttentionShape Performer::shape_of(const plan::AttentionSizes& op) {
    return {op.batch, op.queries, op.heads, op.kv_heads, op.head_dim, op.value_dim};
}

// Reads qkv, and sinks where there are some.
void Performer::compute(const plan::Attention& op, const Call& call) {
    Attention attention;
    attention.shape = shape_of(op);
    attention.mask = attention_mask(call, op.window);
    attention.dropout = attention_dropout(call, op);
    attention.scale = op.scale;
    attention.qkv = read(call, 0);
    attention.context = written(call, 0);
    attention.lse = written(call, 1);
    attention.scores = {op.soft_cap, sinks_of(call, op, 1)};
    call.kernels.attention(attention);
}

void Performer::compute(const plan::AttentionBackward& op, const Call& call) {
    AttentionBackward attention;
    attention.shape = shape_of(op);
    attention.mask = attention_mask(call, op.window);
    attention.dropout = attention_dropout(call, op);
    attention.scale = op.scale;
    attention.dcontext = read(call, 0);
    attention.qkv = read(call, 1);
    attention.context = read(call, 2);
    attention.lse = read(call, 3);
    attention.dqkv = written(call, 0);
    attention.scores = {op.soft_cap, sinks_of(call, op, 4)};
    if (op.sinks) put_sink_gradients(call, op.heads, 1, attention.dsinks, attention.accumulate);
    if (op.any_order) {
        const plan::AttentionSizes::Room room = op.room();
        const Buffer all = written(call, op.sinks ? 2 : 1);
        attention.room = {all, from_element(all, room.row_sums), from_element(all, room.workspace),
                          room.elements - room.workspace};
    }
    call.kernels.attention_backward(attention);
}

void Performer::compute(const plan::BatchedGemm& op, const Call& call) {
    AttentionProduct product;
    product.shape = {op.batch / op.heads, op.sequence(), op.heads,
                     op.kv_heads,         op.head_dim(), op.value_dim()};
    product.scale = op.scale;
    switch (op.product) {
        case plan::AttentionProduct::scores:
            product.form = AttentionProductForm::scores;
            product.qkv = read(call, 0);
            product.maps = written(call, 0);
            break;
        case plan::AttentionProduct::context:
            product.form = AttentionProductForm::context;
            product.maps = read(call, 0);
            product.qkv = read(call, 1);
            product.context = written(call, 0);
            break;
        case plan::AttentionProduct::probabilities:
            product.form = AttentionProductForm::probability_gradient;
            product.context = read(call, 0);
            product.qkv = read(call, 1);
            product.maps = written(call, 0);
            break;
        case plan::AttentionProduct::values:
            product.form = AttentionProductForm::value_gradient;
            product.maps = read(call, 0);
            product.context = read(call, 1);
            product.dqkv = written(call, 0);
            break;
        case plan::AttentionProduct::queries:
        case plan::AttentionProduct::keys:
            product.form = op.product == plan::AttentionProduct::queries
                               ? AttentionProductForm::query_gradient
                               : AttentionProductForm::key_gradient;
            product.maps = read(call, 0);
            product.qkv = read(call, 1);
            product.dqkv = written(call, 0);
            break;
    }
    call.kernels.attention_product(product);
}

namespace {

// Softmax asks for maps and their sides alone.
template <typename Op>
AttentionShape maps_of(const Op& op) {
    return {op.batch / op.heads, op.queries, op.heads, op.heads, 0};
}

}  // namespace

void Performer::compute(const plan::Softmax& op, const Call& call) {
    Softmax softmax{maps_of(op), attention_mask(call, op.window), read(call, 0), written(call, 0)};
    softmax.rules.soft_cap = op.soft_cap;
    if (op.sinks)
        softmax.rules.sinks = of_heads(read(call, 1), call.read_tensor(1).dims[0], op.heads);
    call.kernels.softmax(softmax);
}

void Performer::compute(const plan::SoftmaxBackward& op, const Call& call) {
    SoftmaxBackward softmax{maps_of(op), read(call, 0), read(call, 1), written(call, 0)};
    softmax.rules.soft_cap = op.soft_cap;
    if (op.soft_cap > 0 || op.sinks) softmax.scores = read(call, 2);
    if (op.sinks) {
        const std::int64_t held = call.read_tensor(3).dims[0];
        softmax.rules.sinks = of_heads(read(call, 3), held, op.heads);
        put_sink_gradients(call, op.heads, 1, softmax.dsinks, softmax.accumulate);
    }
    call.kernels.softmax_backward(softmax);
}

}  // namespace orrery::runtime
