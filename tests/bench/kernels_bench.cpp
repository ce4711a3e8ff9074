// Kernels of a GPT-2-124M step: 1024 tokens, width 768, 12 heads of 64, MLP 3072, 50 304 words of
// vocabulary, by as many threads as the processor has cores. What they compute is held to its
// formula in tests/runtime/cpu; here the outputs are looked at for NaN.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/cpu/kernels.hpp"

namespace orrery::runtime {
namespace {

using plan::DType;

constexpr std::int64_t kTokens = 1024, kHidden = 768, kFfn = 3072, kVocabulary = 50304;
constexpr AttentionShape kAttention{1, kTokens, 12, 12, 64};

Team& team() {
    static Team all(static_cast<int>(std::thread::hardware_concurrency()));
    return all;
}

// Random numbers of about the size of activations, in a type that can be chosen.
class Numbers {
  public:
    explicit Numbers(std::int64_t n, DType dtype = DType::fp32)
        : dtype_(dtype), bytes_(static_cast<std::size_t>(n * plan::size_bytes(dtype))) {
        std::vector<float> values(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(uniform({1, 0, 0}, i) - 0.5);
        kernels().cast({n, {values.data(), DType::fp32}, buffer()}, team());
    }
    Buffer buffer() { return {bytes_.data(), dtype_}; }
    void look_at(benchmark::State& state) {
        float first = 0;
        kernels().cast({1, buffer(), {&first, DType::fp32}}, team());
        if (std::isnan(first)) state.SkipWithError("computed NaN");
    }

  private:
    DType dtype_;
    std::vector<std::byte> bytes_;
};

void count_flops(benchmark::State& state, double flops) {
    state.counters["FLOP/s"] =
        benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}
void count_bytes(benchmark::State& state, std::int64_t bytes) {
    state.SetBytesProcessed(state.iterations() * bytes);
}

void gemm(benchmark::State& state, GemmForm form, std::int64_t m, std::int64_t n, std::int64_t k,
          DType dtype) {
    Numbers a(m * k, dtype), b(n * k, dtype);
    Numbers c(m * n, form == GemmForm::weight_gradient ? DType::fp32 : dtype);
    const bool accumulate = form == GemmForm::weight_gradient;
    for (auto _ : state)
        kernels().gemm({form, m, n, k, a.buffer(), b.buffer(), {}, c.buffer(), accumulate}, team());
    c.look_at(state);
    count_flops(state, 2.0 * static_cast<double>(m * n * k));
}
constexpr auto kForward = GemmForm::forward, kInput = GemmForm::input_gradient,
               kWeight = GemmForm::weight_gradient;
BENCHMARK_CAPTURE(gemm, qkv, kForward, kTokens, 3 * kHidden, kHidden, DType::fp32)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, projection, kForward, kTokens, kHidden, kHidden, DType::fp32)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, fc1, kForward, kTokens, kFfn, kHidden, DType::fp32)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, fc2, kForward, kTokens, kHidden, kFfn, DType::fp32)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, logits, kForward, kTokens, kVocabulary, kHidden, DType::fp32)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, fc1_bf16, kForward, kTokens, kFfn, kHidden, DType::bf16)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, fc1_input, kInput, kTokens, kHidden, kFfn, DType::fp32)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, fc2_input, kInput, kTokens, kFfn, kHidden, DType::fp32)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, logits_input, kInput, kTokens, kHidden, kVocabulary, DType::fp32)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, fc1_weight, kWeight, kFfn, kHidden, kTokens, DType::fp32)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, fc1_weight_bf16, kWeight, kFfn, kHidden, kTokens, DType::bf16)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(gemm, logits_weight, kWeight, kVocabulary, kHidden, kTokens, DType::fp32)
    ->MeasureProcessCPUTime();

// FLOP of the two products of forward and of the five of backward, over the keys that are seen.
constexpr double kSeenProduct = 2.0 * 12 * 64 * kTokens * (kTokens + 1) / 2;

struct AttentionTensors {
    explicit AttentionTensors(DType dtype)
        : qkv(kTokens * kAttention.qkv_width(), dtype),
          context(kTokens * kAttention.context_width(), dtype),
          lse(kAttention.maps() * kTokens),
          dqkv(kTokens * kAttention.qkv_width(), dtype) {}
    Numbers qkv, context, lse, dqkv;
};

void attention(benchmark::State& state, DType dtype) {
    AttentionTensors t(dtype);
    for (auto _ : state)
        kernels().attention(
            {kAttention, {}, {}, 0.125, t.qkv.buffer(), t.context.buffer(), t.lse.buffer()},
            team());
    t.context.look_at(state);
    count_flops(state, 2 * kSeenProduct);
}
BENCHMARK_CAPTURE(attention, fp32, DType::fp32)->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(attention, bf16, DType::bf16)->MeasureProcessCPUTime();

void attention_backward(benchmark::State& state, DType dtype) {
    AttentionTensors t(dtype);
    kernels().attention(
        {kAttention, {}, {}, 0.125, t.qkv.buffer(), t.context.buffer(), t.lse.buffer()}, team());
    for (auto _ : state)
        kernels().attention_backward({kAttention,
                                      {},
                                      {},
                                      0.125,
                                      t.context.buffer(),
                                      t.qkv.buffer(),
                                      t.context.buffer(),
                                      t.lse.buffer(),
                                      t.dqkv.buffer()},
                                     team());
    t.dqkv.look_at(state);
    count_flops(state, 5 * kSeenProduct);
}
BENCHMARK_CAPTURE(attention_backward, fp32, DType::fp32)->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(attention_backward, bf16, DType::bf16)->MeasureProcessCPUTime();

void norm(benchmark::State& state) {
    Numbers x(kTokens * kHidden), weight(kHidden), bias(kHidden), y(kTokens * kHidden),
        stats(2 * kTokens);
    for (auto _ : state)
        kernels().norm({kTokens, kHidden, true, 1e-5, 0, x.buffer(), weight.buffer(), bias.buffer(),
                        y.buffer(), stats.buffer()},
                       team());
    y.look_at(state);
    count_bytes(state, 2 * 4 * kTokens * kHidden);
}
BENCHMARK(norm)->MeasureProcessCPUTime();

void norm_backward(benchmark::State& state) {
    Numbers x(kTokens * kHidden), dy(kTokens * kHidden), dx(kTokens * kHidden), weight(kHidden),
        stats(2 * kTokens), dweight(kHidden), dbias(kHidden);
    for (auto _ : state)
        kernels().norm_backward(
            {kTokens, kHidden, true, 0, dy.buffer(), x.buffer(), weight.buffer(), stats.buffer(),
             dx.buffer(), dx.buffer(), dweight.buffer(), dbias.buffer(), false},
            team());
    count_bytes(state, 4 * 4 * kTokens * kHidden);
}
BENCHMARK(norm_backward)->Iterations(200)->MeasureProcessCPUTime();

void gelu(benchmark::State& state) {
    Numbers x(kTokens * kFfn), y(kTokens * kFfn);
    for (auto _ : state)
        kernels().activation({ActivationForm::gelu_tanh, kTokens, kFfn, x.buffer(), y.buffer()},
                             team());
    y.look_at(state);
    count_bytes(state, 2 * 4 * kTokens * kFfn);
}
BENCHMARK(gelu)->MeasureProcessCPUTime();

void gelu_backward(benchmark::State& state) {
    Numbers x(kTokens * kFfn), dy(kTokens * kFfn), dx(kTokens * kFfn);
    for (auto _ : state)
        kernels().activation_backward(
            {ActivationForm::gelu_tanh, kTokens, kFfn, dy.buffer(), x.buffer(), dx.buffer()},
            team());
    dx.look_at(state);
    count_bytes(state, 3 * 4 * kTokens * kFfn);
}
BENCHMARK(gelu_backward)->MeasureProcessCPUTime();

// max, sum and backward over the logits of a step.
void cross_entropy(benchmark::State& state) {
    Numbers logits(kTokens * kVocabulary), largest(kTokens), sums(2 * kTokens);
    const LogitsPart part{kTokens, kVocabulary, 0, kVocabulary - 47};
    const std::vector<std::int32_t> targets(kTokens, 17);
    for (auto _ : state) {
        kernels().cross_entropy_max({part, logits.buffer(), largest.buffer()}, team());
        kernels().cross_entropy_sum(
            {part, targets.data(), logits.buffer(), largest.buffer(), sums.buffer()}, team());
        kernels().cross_entropy_backward(
            {part, targets.data(), 1, nullptr, largest.buffer(), sums.buffer(), logits.buffer()},
            team());
    }
    logits.look_at(state);
    count_bytes(state, 4 * 4 * kTokens * kVocabulary);
}
BENCHMARK(cross_entropy)->MeasureProcessCPUTime();

void dropout(benchmark::State& state) {
    Numbers x(kTokens * kFfn), y(kTokens * kFfn);
    for (auto _ : state)
        kernels().dropout({kTokens * kFfn, {{1, 2, 3}, 0.1}, {}, x.buffer(), y.buffer(), {}},
                          team());
    y.look_at(state);
    count_bytes(state, 2 * 4 * kTokens * kFfn);
}
BENCHMARK(dropout)->MeasureProcessCPUTime();

constexpr std::int64_t kParameters = 16 << 20;

void gradient_norm(benchmark::State& state) {
    Numbers g(kParameters);
    double bins[5] = {};
    for (auto _ : state)
        kernels().gradient_norm({kParameters, g.buffer(), bins}, team());
    if (!(norm_of(bins) > 0)) state.SkipWithError("computed nothing");
    count_bytes(state, 4 * kParameters);
}
BENCHMARK(gradient_norm)->MeasureProcessCPUTime();

void adamw(benchmark::State& state) {
    Numbers g(kParameters), m(kParameters), w(kParameters);
    std::vector<float> v(kParameters);
    AdamW op;
    op.elements = kParameters;
    op.learning_rate = 1e-4;
    op.gradients = g.buffer();
    op.m = m.buffer();
    op.v = {v.data(), DType::fp32};
    op.parameters = w.buffer();
    for (auto _ : state)
        kernels().adamw(op, team());
    w.look_at(state);
    count_bytes(state, 7 * 4 * kParameters);
}
BENCHMARK(adamw)->MeasureProcessCPUTime();

}  // namespace
}  // namespace orrery::runtime
