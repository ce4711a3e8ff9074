// Products and attention.
#include "plan/ir/product.hpp"
#include "runtime/executor/performer.hpp"

namespace orrery::runtime {
namespace {

GemmForm form_of(plan::GemmProduct product) {
    switch (product) {
        case plan::GemmProduct::forward:
            return GemmForm::forward;
        case plan::GemmProduct::input_gradient:
            return GemmForm::input_gradient;
        case plan::GemmProduct::weight_gradient:
            break;
    }
    return GemmForm::weight_gradient;
}

constexpr std::uint32_t kAttentionPlace = 1;  // DropoutKey

}  // namespace

void Performer::gemm(const Call& call) {
    Gemm gemm;
    gemm.form = form_of(plan::product_of_gemm(*call.bound.block, *call.bound.op));
    gemm.m = call.shape(0);
    gemm.n = call.shape(1);
    gemm.k = call.shape(2);
    gemm.a = read(call, 0);
    gemm.b = read(call, 1);
    if (gemm.form == GemmForm::forward && call.bound.reads.size() > 2) gemm.bias = read(call, 2);
    gemm.c = written(call, 0);
    gemm.accumulate = call.bound.accumulates;
    call.kernels.gemm(gemm);
}

AttentionShape Performer::held_shape() const {
    return {dims_.batch, dims_.sequence, dims_.heads, dims_.kv_heads, dims_.head_dim};
}

AttentionShape Performer::attention_shape() const {
    return {dims_.batch, dims_.attended_sequence(), dims_.attended_heads(),
            dims_.attended_kv_heads(), dims_.head_dim};
}

// Of those that attention sees.
std::int64_t Performer::first_head() const {
    return program_.at.tensor * dims_.heads +
           (dims_.exchanges_heads ? program_.at.context * dims_.attended_heads() : 0);
}

AttentionMask Performer::attention_mask() const {
    return {scenario_.model.attention_window, slopes_};
}

AttentionDropout Performer::attention_dropout(const Call& call) const {
    return {dropout_key(call, scenario_.model.attention_dropout, kAttentionPlace),
            first_sample(call), first_head(), scenario_.model.heads};
}

void Performer::attention(const Call& call) {
    call.kernels.attention({attention_shape(), attention_mask(), attention_dropout(call),
                            scenario_.model.attention_scale(), read(call, 0), written(call, 0),
                            written(call, 1)});
}

void Performer::attention_backward(const Call& call) {
    call.kernels.attention_backward({attention_shape(), attention_mask(), attention_dropout(call),
                                     scenario_.model.attention_scale(), read(call, 0),
                                     read(call, 1), read(call, 2), read(call, 3),
                                     written(call, 0)});
}

void Performer::batched_gemm(const Call& call) {
    AttentionProduct product;
    product.shape = attention_shape();
    product.scale = scenario_.model.attention_scale();
    switch (plan::product_of_attention(*call.bound.op)) {
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
            product.form =
                plan::product_of_attention(*call.bound.op) == plan::AttentionProduct::queries
                    ? AttentionProductForm::query_gradient
                    : AttentionProductForm::key_gradient;
            product.maps = read(call, 0);
            product.qkv = read(call, 1);
            product.dqkv = written(call, 0);
            break;
    }
    call.kernels.attention_product(product);
}

void Performer::softmax(const Call& call) {
    call.kernels.softmax({attention_shape(), attention_mask(), read(call, 0), written(call, 0)});
}

void Performer::softmax_backward(const Call& call) {
    call.kernels.softmax_backward(
        {attention_shape(), read(call, 0), read(call, 1), written(call, 0)});
}

}  // namespace orrery::runtime
