// Products of eight bits: a step is, bit for bit, that of bf16 in which the operands of the layers'
// products are rounded as a recipe says, whole matrices at a time, by the definition of the
// numbers; in every layout, whoever casts what, when and for whom. And it learns nearly what bf16
// does.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/kernels/requests.hpp"
#include "tests/parity/host_streams.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using runtime::Gemm;
using runtime::GemmForm;

// All that are not negative, ascending: codes in order. OCP 8-bit floating point specification.
std::vector<double> numbers(int exponent_bits, double largest) {
    const int fraction = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    std::vector<double> all;
    for (int code = 0; code < 128; ++code) {
        const int exponent = code >> fraction, last = code & ((1 << fraction) - 1);
        const double unit = std::ldexp(1, -fraction);
        const double value = exponent == 0 ? std::ldexp(last * unit, 1 - bias)
                                           : std::ldexp(1 + last * unit, exponent - bias);
        if (value <= largest) all.push_back(value);
    }
    return all;
}

struct Format {
    std::vector<double> values;

    double largest() const { return values.back(); }
    double nearest(double x) const {
        const double magnitude = std::abs(x);
        const auto above = std::lower_bound(values.begin(), values.end(), magnitude);
        if (above == values.begin() || *above == magnitude) return std::copysign(*above, x);
        const auto below = above - 1;
        const double up = *above - magnitude, down = magnitude - *below;
        const bool even = (below - values.begin()) % 2 == 0;
        return std::copysign(down < up || (down == up && even) ? *below : *above, x);
    }
};

const Format& e4m3() {
    static const Format format{numbers(4, 448)};
    return format;
}
const Format& e5m2() {
    static const Format format{numbers(5, 57344)};
    return format;
}

// What shares a scale: so many numbers along what is summed, so many across; 0: all.
struct Share {
    std::int64_t along, across;
};

Share share_of(const std::string& recipe, bool weight) {
    if (recipe == "rowwise") return {0, 1};
    if (recipe == "blockwise") return {128, weight ? 128 : 1};
    if (recipe == "mxfp8") return {32, 1};
    return {0, 0};
}

// A matrix of bf16 as doubles, rows of what is summed.
struct Operand {
    std::int64_t across, along;
    std::vector<double> values;

    double& at(std::int64_t i, std::int64_t k) {
        return values[static_cast<std::size_t>(i * along + k)];
    }
};

Operand read_operand(const runtime::Buffer& from, std::int64_t across, std::int64_t along,
                     bool by_columns) {
    EXPECT_EQ(from.dtype, plan::DType::bf16);
    Operand read{across, along, std::vector<double>(static_cast<std::size_t>(across * along))};
    const auto* const bits = static_cast<const runtime::BFloat16*>(from.data);
    for (std::int64_t i = 0; i < across; ++i)
        for (std::int64_t k = 0; k < along; ++k)
            read.at(i, k) = runtime::to_float(bits[by_columns ? k * across + i : i * along + k]);
    return read;
}

void round(Operand& operand, Share share, const Format& format) {
    const std::int64_t along = share.along == 0 ? operand.along : share.along;
    const std::int64_t across = share.across == 0 ? operand.across : share.across;
    for (std::int64_t i = 0; i < operand.across; i += across)
        for (std::int64_t k = 0; k < operand.along; k += along) {
            const auto each = [&](const auto& f) {
                for (std::int64_t di = 0; di < across && i + di < operand.across; ++di)
                    for (std::int64_t dk = 0; dk < along && k + dk < operand.along; ++dk)
                        f(operand.at(i + di, k + dk));
            };
            double most = 0;
            each([&](double& x) { most = std::max(most, std::abs(x)); });
            double scale = std::ldexp(1, -126);
            while (most > scale * format.largest())
                scale *= 2;
            each([&](double& x) { x = format.nearest(x / scale) * scale; });
        }
}

// The layers' sizes are multiples of 16, of the head's one is not.
bool is_of_head(const Gemm& gemm) {
    return gemm.m % 16 != 0 || gemm.n % 16 != 0 || gemm.k % 16 != 0;
}

// The operands of layers' products rounded; and, where products are of rows alone, as such.
ChangeRequest rounding(const std::string& recipe, bool transposes) {
    return [recipe, transposes](runtime::KernelRequest& request) {
        auto* const gemm = std::get_if<Gemm>(&request);
        if (gemm == nullptr || is_of_head(*gemm)) return;
        const bool forward = gemm->form == GemmForm::forward;
        const bool sums_rows = gemm->form == GemmForm::weight_gradient;
        const Format& of_gradients = recipe == "tensorwise" ? e5m2() : e4m3();
        const auto rounded = [&](const runtime::Buffer& from, std::int64_t across, bool by_columns,
                                 bool weight, const Format& format,
                                 std::vector<runtime::BFloat16>& space) {
            Operand operand = read_operand(from, across, gemm->k, by_columns);
            round(operand, share_of(recipe, weight), format);
            space.resize(operand.values.size());
            for (std::int64_t i = 0; i < across; ++i)
                for (std::int64_t k = 0; k < gemm->k; ++k) {
                    const auto value = static_cast<float>(operand.at(i, k));
                    const auto narrow = runtime::to_bfloat16(value);
                    EXPECT_EQ(runtime::to_float(narrow), value);
                    const bool lies = by_columns && !transposes;
                    space[static_cast<std::size_t>(lies ? k * across + i : i * gemm->k + k)] =
                        narrow;
                }
            return runtime::Buffer{space.data(), plan::DType::bf16};
        };
        thread_local std::vector<runtime::BFloat16> a, b;
        gemm->a = rounded(gemm->a, gemm->m, sums_rows, false, forward ? e4m3() : of_gradients, a);
        gemm->b = rounded(gemm->b, gemm->n, !forward, !sums_rows, e4m3(), b);
        if (transposes) gemm->form = GemmForm::forward;
    };
}

struct Case {
    std::string recipe;
    NamedLayout layout;
    const char* text = kGpt;
    Sets model;
};
void PrintTo(const Case& c, std::ostream* os) {
    *os << c.layout.name;
}

constexpr const char* kSizes[] = {"model.vocab_size=200", "training.optimizer.learning_rate=1e-3"};

Sets sizes_of(const Case& c) {
    Sets sets = c.model;
    for (const char* size : kSizes)
        sets.emplace_back(size);
    return sets;
}

Sets joined(Sets sets, const Sets& more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

class EightBits : public testing::TestWithParam<Case> {};

TEST_P(EightBits, AreBf16WithRoundedOperands) {
    const Case& c = GetParam();
    Sets sets = joined(sizes_of(c), c.layout.sets);
    RunOptions options;
    options.steps = 3;
    const bool micro = c.recipe == "mxfp8";
    for (const bool transposes : {false, true}) {
        if (micro && transposes) continue;
        const Sets eight_bit = joined(
            sets, {"training.precision=fp8", "training.fp8_recipe=" + c.recipe,
                   std::string("training.fp8_transposes=") + (transposes ? "true" : "false")});
        Sets bf16 = {"training.precision=bf16"};
        for (const std::string& set : sets)
            if (!set.starts_with("training.fp8_")) bf16.push_back(set);
        runtime::StreamBackend backend(host_devices(8, rounding(c.recipe, transposes)),
                                       std::nullopt, {});
        RunOptions oracle = options;
        oracle.backend = &backend;
        const Trained expected = train(scenario(c.text, bf16), oracle);
        RunOptions poisoned = options;
        poisoned.cpu.poison = true;
        const Trained run = train(scenario(c.text, eight_bit), poisoned);
        EXPECT_EQ(run.losses, expected.losses) << transposes;
        EXPECT_EQ(run.norms, expected.norms);
        EXPECT_EQ(run.parameters, expected.parameters);
        EXPECT_EQ(run.disagreement, "");
        for (const runtime::RankMemory& memory : run.result.memory)
            EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
        // They do differ from bf16's.
        EXPECT_NE(run.losses, train(scenario(c.text, bf16), options).losses);
    }
}

std::vector<Case> cases() {
    const std::string tp2 = "tensor_parallel=2", sp = "sequence_parallel=true",
                      dp2 = "data_parallel=2", pp2 = "pipeline_parallel=2",
                      mbs2 = "micro_batch_size=2";
    const auto named = [](const std::string& recipe, const std::string& name, Sets keys,
                          const char* text = kGpt) {
        Case made{recipe, layout(recipe + "_" + name, keys), text, {}};
        if (recipe == "blockwise")
            made.model = {"training.sequence_length=128", "model.n_positions=128",
                          "model.n_embd=256", "model.n_layer=2", "layout.global_batch_size=4"};
        if (recipe == "mxfp8") made.model = {"training.sequence_length=32"};
        if (text == kLlama) made.model.emplace_back("model.intermediate_size=128");
        return made;
    };
    std::vector<Case> all;
    for (const char* recipe : {"tensorwise", "rowwise", "blockwise", "mxfp8"}) {
        all.push_back(named(recipe, "alone", {}));
        all.push_back(named(recipe, "tensor", {tp2}));
        all.push_back(
            named(recipe, "shares_of_sequences",
                  {tp2, sp, std::string(recipe) == "blockwise" ? mbs2 : "micro_batch_size=4"}));
        all.push_back(named(recipe, "pipeline_data_zero2", {pp2, dp2, "zero_stage=2"}));
        all.push_back(named(recipe, "zero3", {dp2, "zero_stage=3"}));
        all.push_back(named(recipe, "cast_for_each_use", {mbs2, "training.fp8_weights=use"}));
        all.push_back(named(recipe, "kept_in_16_bits", {mbs2, "training.fp8_stash=bf16"}));
    }
    for (const char* recipe : {"tensorwise", "mxfp8"}) {
        all.push_back(named(recipe, "llama", {}, kLlama));
        all.push_back(named(recipe, "llama_tensor_4_shares",
                            {"tensor_parallel=4", sp, "micro_batch_size=8", "model.hidden_size=128",
                             "model.intermediate_size=256"},
                            kLlama));
        all.push_back(named(recipe, "recomputed", {"recompute=full", pp2}));
        all.push_back(named(recipe, "recomputed_selectively", {"recompute=selective_op", tp2}));
        all.push_back(named(recipe, "halves", {"schedule=zb-h1", pp2}));
        all.push_back(named(recipe, "v", {"schedule=zb-v", pp2, "virtual_pipeline=2"}));
        all.push_back(named(recipe, "context", {"context_parallel=2", mbs2}));
        all.push_back(named(recipe, "exchanged_heads",
                            {"context_parallel=2", "context_algorithm=all_to_all", mbs2}));
        all.push_back(named(recipe, "kept_whole",
                            {tp2, sp, "micro_batch_size=4", "training.gathered_inputs=kept"}));
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Layouts, EightBits, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.layout.name; });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
