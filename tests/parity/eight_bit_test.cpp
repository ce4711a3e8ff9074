// Products of eight bits: a step is, bit for bit, that of bf16 in which the operands of the layers'
// products are rounded as a recipe says, whole matrices at a time, by the definition of the
// numbers; in every layout, whoever casts what, when and for whom. And it learns nearly what bf16
// does.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "runtime/executor/performer.hpp"
#include "runtime/kernels/requests.hpp"
#include "runtime/train/scale_history.hpp"
#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/host_streams.hpp"
#include "tests/parity/random_draw.hpp"
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

class Format {
  public:
    explicit Format(std::vector<double> values) : values_(std::move(values)) {
        for (std::size_t bits = 0; bits < of_bits_.size(); ++bits)
            of_bits_[bits] =
                nearest(runtime::to_float(runtime::BFloat16{static_cast<std::uint16_t>(bits)}));
    }

    double largest() const { return values_.back(); }
    double nearest(double x) const {
        const double magnitude = std::abs(x);
        const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
        if (above == values_.end()) return std::copysign(largest(), x);
        if (above == values_.begin() || *above == magnitude) return std::copysign(*above, x);
        const auto below = above - 1;
        const double up = *above - magnitude, down = magnitude - *below;
        const bool even = (below - values_.begin()) % 2 == 0;
        return std::copysign(down < up || (down == up && even) ? *below : *above, x);
    }
    double nearest(runtime::BFloat16 x) const { return of_bits_[x.bits]; }  // looked up

  private:
    std::vector<double> values_;
    std::vector<double> of_bits_ = std::vector<double>(1 << 16);
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
            // By a power of two: still a number of bf16, or beneath them and 0 here as well.
            each([&](double& x) {
                x = format.nearest(runtime::to_bfloat16(static_cast<float>(x / scale))) * scale;
            });
        }
}

// The layers' sizes are multiples of 16, of the head's one is not.
bool is_of_head(const Gemm& gemm) {
    return gemm.m % 16 != 0 || gemm.n % 16 != 0 || gemm.k % 16 != 0;
}

// A product's operand rounded as a recipe says; `rows`: laid in rows of what is summed, whichever
// way it lay.
struct Rounding {
    std::string recipe;
    bool transposes;

    const Format& of_gradients() const { return recipe == "tensorwise" ? e5m2() : e4m3(); }
    void operator()(const runtime::Buffer& from, std::int64_t across, std::int64_t along,
                    bool by_columns, bool weight, const Format& format,
                    std::vector<runtime::BFloat16>& to) const {
        Operand operand = read_operand(from, across, along, by_columns);
        round(operand, share_of(recipe, weight), format);
        const std::size_t first = to.size();
        to.resize(first + operand.values.size());
        for (std::int64_t i = 0; i < across; ++i)
            for (std::int64_t k = 0; k < along; ++k) {
                const auto value = static_cast<float>(operand.at(i, k));
                const auto narrow = runtime::to_bfloat16(value);
                EXPECT_EQ(runtime::to_float(narrow), value);
                const std::int64_t at = by_columns && !transposes ? k * across + i : i * along + k;
                to[first + static_cast<std::size_t>(at)] = narrow;
            }
    }
};

runtime::Buffer of(std::vector<runtime::BFloat16>& numbers) {
    return {numbers.data(), plan::DType::bf16};
}

// The operands of layers' products rounded; and, where products are of rows alone, as such.
void round_gemm(Gemm& gemm, const Rounding& rounding) {
    if (is_of_head(gemm)) return;
    const bool forward = gemm.form == GemmForm::forward;
    const bool sums_rows = gemm.form == GemmForm::weight_gradient;
    thread_local std::vector<runtime::BFloat16> a, b;
    a.clear();
    b.clear();
    rounding(gemm.a, gemm.m, gemm.k, sums_rows, false, forward ? e4m3() : rounding.of_gradients(),
             a);
    rounding(gemm.b, gemm.n, gemm.k, !forward, !sums_rows, e4m3(), b);
    gemm.a = of(a);
    gemm.b = of(b);
    if (rounding.transposes) gemm.form = GemmForm::forward;
}

// Of experts, each rounded by itself. Sums over their rows are not laid out anew.
void round_grouped(runtime::GroupedGemm& gemm, Rounding rounding) {
    const bool forward = gemm.form == GemmForm::forward;
    const bool sums_rows = gemm.form == GemmForm::weight_gradient;
    if (sums_rows) rounding.transposes = false;
    thread_local std::vector<runtime::BFloat16> a, b;
    a.clear();
    b.clear();
    const runtime::ExpertPlaces& places = gemm.places;
    std::int64_t first = 0;
    for (std::int64_t i = 0; i < places.local(); ++i) {
        const std::int64_t rows = places.rows_of(places.first_of(places.member) + i);
        const Format& format = forward ? e4m3() : rounding.of_gradients();
        if (sums_rows) {
            rounding(from_element(gemm.a, first * gemm.m), gemm.m, rows, true, false, format, a);
            rounding(from_element(gemm.b, first * gemm.n), gemm.n, rows, true, false, e4m3(), b);
        } else {
            rounding(from_element(gemm.a, first * gemm.k), rows, gemm.k, false, false, format, a);
            rounding(from_element(gemm.b, i * gemm.n * gemm.k), gemm.n, gemm.k, !forward, true,
                     e4m3(), b);
        }
        first += rows;
    }
    gemm.a = of(a);
    gemm.b = of(b);
    if (rounding.transposes) gemm.form = GemmForm::forward;
}

ChangeRequest rounding(const std::string& recipe, bool transposes) {
    return [rounding = Rounding{recipe, transposes}](runtime::KernelRequest& request) {
        if (auto* const gemm = std::get_if<Gemm>(&request)) round_gemm(*gemm, rounding);
        if (auto* const gemm = std::get_if<runtime::GroupedGemm>(&request))
            round_grouped(*gemm, rounding);
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

// Shared out over 1, 2, 4 or 8 ranks and padded to eights, an odd number of them.
constexpr const char* kVocabulary = "model.vocab_size=130";

Sets joined(Sets sets, const Sets& more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

// What `sets` trains in eight bits, and bf16 with rounded operands.
void expect_rounded_bf16(const char* text, const Sets& sets, const std::string& recipe,
                         bool transposes, const RunOptions& options) {
    const Sets eight_bit =
        joined(sets, {"training.precision=fp8", "training.fp8_recipe=" + recipe,
                      std::string("training.fp8_transposes=") + (transposes ? "true" : "false")});
    Sets bf16;
    for (const std::string& set : sets)
        if (!set.starts_with("training.fp8_") && !set.starts_with("training.precision"))
            bf16.push_back(set);
    bf16.emplace_back("training.precision=bf16");
    runtime::StreamBackend backend(host_devices(8, rounding(recipe, transposes)), std::nullopt, {});
    RunOptions oracle;
    oracle.steps = options.steps;
    oracle.backend = &backend;
    const Trained expected = train(scenario(text, bf16), oracle);
    const Trained run = train(scenario(text, eight_bit), options);
    EXPECT_EQ(run.losses, expected.losses);
    EXPECT_EQ(run.norms, expected.norms);
    EXPECT_EQ(run.parameters, expected.parameters);
    EXPECT_EQ(run.disagreement, "");
    for (const runtime::RankMemory& memory : run.result.memory)
        EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
    // They do differ from bf16's.
    RunOptions one;
    one.steps = 1;
    EXPECT_NE(run.losses.front(), train(scenario(text, bf16), one).losses.front());
}

class EightBits : public testing::TestWithParam<Case> {};

TEST_P(EightBits, AreBf16WithRoundedOperands) {
    const Case& c = GetParam();
    RunOptions options;
    options.steps = sanitized() ? 1 : 2;
    options.cpu.poison = true;
    for (const bool transposes : {false, true}) {
        if (transposes && c.recipe == "mxfp8") continue;
        SCOPED_TRACE(transposes ? "transposed" : "as they lie");
        expect_rounded_bf16(c.text, joined(joined(c.model, {kVocabulary}), c.layout.sets), c.recipe,
                            transposes, options);
    }
}

// Experts of whole blocks; tokens, too, of a sequence on a rank.
Sets experts_of_eight_bits(const std::string& recipe) {
    if (recipe == "blockwise")
        return {"training.sequence_length=256", "model.hidden_size=256",
                "model.intermediate_size=256",  "model.num_hidden_layers=2",
                "model.num_local_experts=4",    "layout.global_batch_size=2"};
    return {"training.sequence_length=64", "model.num_hidden_layers=2",
            "model.intermediate_size=64", "layout.global_batch_size=4"};
}

std::vector<NamedLayout> expert_layouts_of_eight_bits() {
    const std::string dp2 = "data_parallel=2", ep2 = "expert_parallel=2";
    return {layout("alone", {}),
            layout("spread", {dp2, ep2}),
            layout("spread_zero2", {dp2, ep2, "zero_stage=2"}),
            layout("spread_shares", {"tensor_parallel=2", "sequence_parallel=true", ep2}),
            layout("copies", {dp2, ep2, "expert_dispatcher=deduplicated", "recompute=full"}),
            layout("split_use", {dp2, "expert_tensor_parallel=2", "training.fp8_weights=use"}),
            layout("halves", {dp2, ep2, "pipeline_parallel=2", "schedule=zb-h1"})};
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
                          "model.n_embd=256", "model.n_layer=2", "layout.global_batch_size=2"};
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
    for (const char* recipe : {"tensorwise", "rowwise", "blockwise", "mxfp8"})
        for (const NamedLayout& experts : expert_layouts_of_eight_bits()) {
            Case made{recipe, experts, kMixtral, experts_of_eight_bits(recipe)};
            made.layout.name = std::string(recipe) + "_experts_" + experts.name;
            all.push_back(made);
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
    // Blocks of 128 need matrices that are slow under sanitizers: one of each kind is enough there.
    if (sanitized())
        std::erase_if(all, [](const Case& c) {
            return c.recipe == "blockwise" && !c.layout.name.ends_with("alone");
        });
    return all;
}

INSTANTIATE_TEST_SUITE_P(Layouts, EightBits, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.layout.name; });

// Drawn at random, as in random_layouts_test.cpp.
class RandomEightBits : public testing::TestWithParam<const char*> {};

TEST_P(RandomEightBits, AreBf16WithRoundedOperands) {
    const std::string recipe = GetParam();
    const std::size_t draws = sanitized()                                  ? 2
                              : std::getenv("ORRERY_EVERY_RUN") != nullptr ? 200
                                                                           : 8;
    const Sets model = {kVocabulary, "model.n_positions=128", "training.sequence_length=128",
                        "training.precision=fp8", "training.fp8_recipe=" + recipe};
    const Sets always = {
        R"(cluster.host_memory={"capacity_GB": 1, "bandwidth_GBps": 10, "latency_us": 1})",
        R"(cluster.storage={"capacity_GB": 1, "read_GBps": 1, "write_GBps": 1, "latency_us": 10})"};
    std::size_t trained = 0;
    for (std::size_t seed = 1; seed <= draws; ++seed) {
        Draw draw(seed);
        const Sets fixed = joined(always, draw.degrees(false));
        Sets drawn = draw.others();
        for (const char* key : {"fp8_weights=use", "fp8_stash=bf16"})
            if (draw.below(3) == 0) drawn.push_back(std::string("training.") + key);
        // Parts of a matrix are refused where a backend is asked, not by a rule.
        std::erase_if(drawn, [](const std::string& set) {
            return set.starts_with("training.tensor_overlap_parts");
        });
        const bool transposes = recipe != "mxfp8" && draw.below(2) == 0;
        const std::optional<Sets> sets = accepted(kGpt, model, fixed, drawn);
        if (!sets) continue;
        SCOPED_TRACE(fmt::format("{}", fmt::join(*sets, " ")));
        RunOptions options;
        options.steps = 2;
        options.cpu.poison = true;
        options.cpu.delay_seed = seed;
        expect_rounded_bf16(kGpt, *sets, recipe, transposes, options);
        ++trained;
        if (HasFailure()) return;
    }
    EXPECT_GE(2 * trained, draws) << "most draws are refused";
}

INSTANTIATE_TEST_SUITE_P(Recipes, RandomEightBits,
                         testing::Values("tensorwise", "rowwise", "mxfp8"),
                         [](const auto& tested) { return std::string(tested.param); });

// Of delayed scaling the oracle knows a product by its number among those of the layers in a step,
// of one micro-batch on one rank: each operand is scaled by the largest magnitude that it had there
// in the steps before, 1 in the first.
class DelayedRounding {
  public:
    explicit DelayedRounding(std::size_t products) : products_(products) {}

    void operator()(Gemm& gemm) {
        if (is_of_head(gemm)) return;
        const bool forward = gemm.form == GemmForm::forward;
        const bool sums_rows = gemm.form == GemmForm::weight_gradient;
        const std::size_t product = calls_++ % products_;
        gemm.a = rounded(gemm.a, gemm.m, gemm.k, sums_rows, forward ? e4m3() : e5m2(), 2 * product);
        gemm.b = rounded(gemm.b, gemm.n, gemm.k, !forward, e4m3(), 2 * product + 1);
    }

  private:
    runtime::Buffer rounded(const runtime::Buffer& from, std::int64_t across, std::int64_t along,
                            bool by_columns, const Format& format, std::size_t operand) {
        Operand read = read_operand(from, across, along, by_columns);
        const double before = most_.count(operand) > 0 ? most_[operand] : 0;
        double scale = before > 0 ? std::ldexp(1, -126) : 1;
        while (before > scale * format.largest())
            scale *= 2;
        std::vector<runtime::BFloat16>& to = space_[operand % 2];
        to.resize(read.values.size());
        for (std::int64_t i = 0; i < across; ++i)
            for (std::int64_t k = 0; k < along; ++k) {
                const double value = read.at(i, k);
                most_[operand] = std::max(most_[operand], std::abs(value));
                to[static_cast<std::size_t>(by_columns ? k * across + i : i * along + k)] =
                    runtime::to_bfloat16(static_cast<float>(format.nearest(value / scale) * scale));
            }
        return of(to);
    }

    std::size_t products_, calls_ = 0;
    std::map<std::size_t, double> most_;  // by operand, of all steps so far
    std::array<std::vector<runtime::BFloat16>, 2> space_;
};

Sets delayed(Sets sets) {
    return joined(std::move(sets), {"training.precision=fp8", "training.fp8_recipe=delayed",
                                    "training.fp8_transposes=false"});
}

TEST(DelayedScales, FollowFromTheLargestMagnitudesOfTheStepsBefore) {
    const Sets sets = {kVocabulary, "layout.micro_batch_size=8",
                       "training.optimizer.learning_rate=1e-2"};
    // Of a layer four products, each with two of its backward.
    const auto oracle = std::make_shared<DelayedRounding>(std::size_t{4 * 4 * 3});
    runtime::StreamBackend backend(
        host_devices(1,
                     [oracle](runtime::KernelRequest& request) {
                         if (auto* const gemm = std::get_if<Gemm>(&request)) (*oracle)(*gemm);
                     }),
        std::nullopt, {});
    RunOptions options;
    options.steps = 6;
    RunOptions rounded = options;
    rounded.backend = &backend;
    const Trained expected =
        train(scenario(kGpt, joined(sets, {"training.precision=bf16"})), rounded);
    options.cpu.poison = true;
    const Trained run = train(scenario(kGpt, delayed(sets)), options);
    EXPECT_EQ(run.losses, expected.losses);
    EXPECT_EQ(run.parameters, expected.parameters);
}

// What was noted is agreed on by all ranks that share a tensor, or its shards: by name and number
// each has the same, of every layout, and what one rank alone has but for roundings in bf16.
TEST(DelayedScales, AreTheSameOnAllRanks) {
    const auto histories = [](const Sets& sets) {
        std::map<std::string, std::vector<float>> all;
        std::mutex mutex;
        std::string differs;
        RunOptions options;
        options.steps = 3;
        options.after_step = [&](plan::Rank, runtime::Device& device,
                                 const runtime::BoundProgram& program, const plan::Program&,
                                 std::int64_t step) {
            if (step != 3) return;
            for (const runtime::ScaleHistory& history : runtime::scale_histories(program)) {
                std::vector<float> values(static_cast<std::size_t>(history.elements));
                device.read(history.offset, std::as_writable_bytes(std::span(values)));
                const std::lock_guard lock(mutex);
                const auto [known, is_new] = all.try_emplace(history.tensor, values);
                if (!is_new && known->second != values) differs += history.tensor + ' ';
            }
        };
        const Trained run = train(scenario(kGpt, delayed(sets)), options);
        EXPECT_EQ(run.disagreement, "");
        EXPECT_EQ(differs, "");
        return all;
    };
    const Sets model = {kVocabulary, "training.sequence_length=32"};
    const auto alone = histories(model);
    EXPECT_EQ(alone.size(), 4u * 4 * 3 * 2);  // layers, products, operands, what is noted beside
    for (const Sets& layout :
         {Sets{"layout.tensor_parallel=2"}, Sets{"layout.data_parallel=4", "layout.zero_stage=2"},
          Sets{"layout.tensor_parallel=2", "layout.sequence_parallel=true",
               "layout.data_parallel=2"},
          Sets{"layout.pipeline_parallel=2", "layout.schedule=zb-h1", "layout.data_parallel=2"},
          Sets{"layout.data_parallel=4", "layout.zero_stage=1", "layout.zero_group_size=2"}}) {
        SCOPED_TRACE(layout.front());
        const auto found = histories(joined(model, layout));
        ASSERT_EQ(found.size(), alone.size());
        for (const auto& [name, values] : alone)
            for (std::size_t i = 0; i < values.size(); ++i)
                ASSERT_NEAR(found.at(name)[i], values[i], 0.1 * values[i]) << name << ' ' << i;
    }
}

// Each token follows from the one before it, but for three in ten, which are any.
void read_chain(std::int64_t sample, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets) {
    constexpr std::uint64_t kTokens = 125;
    const runtime::RandomKey key{11, 0, static_cast<std::uint32_t>(sample)};
    std::uint64_t token = runtime::random_word(key, 0) % kTokens;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<std::int32_t>(token);
        const bool any = runtime::random_word(key, 2 * i + 1) % 10 < 3;
        token = (any ? runtime::random_word(key, 2 * i + 2) : 31 * token + 7) % kTokens;
        targets[i] = static_cast<std::int32_t>(token);
    }
}

double mean_of_last(const std::vector<double>& losses, std::size_t count) {
    return std::accumulate(losses.end() - static_cast<std::ptrdiff_t>(count), losses.end(), 0.0) /
           static_cast<double>(count);
}

// From the same weights and on the same tokens. What is stated of the method: less than 0.25 % of
// the loss of bf16 apart over trillions of tokens (DeepSeek-V3, arXiv 2412.19437, section 3.3;
// Micikevicius et al. 2022, arXiv 2209.05433). That is held, of the mean of the last 50, over the
// 1,000 steps of `./orrery test --nightly`, after which little is left to learn: two runs that
// round differently part at random, and where the loss still falls, by when each learns what. So by
// day, after 80 steps, it is a percent.
TEST(EightBitTraining, LearnsWhatBf16Learns) {
    const bool nightly = std::getenv("ORRERY_EVERY_RUN") != nullptr && !sanitized();
    const Sets model = {"training.sequence_length=128",
                        "model.n_positions=128",
                        "model.n_embd=128",
                        "model.n_layer=2",
                        "layout.global_batch_size=2",
                        "training.optimizer.learning_rate=3e-3"};
    RunOptions options;
    options.steps = nightly ? 1000 : 80;
    options.samples = read_chain;
    const std::size_t last = nightly ? 50 : 20;
    const double bound = nightly ? 0.0025 : 0.01;
    const Trained bf16 = train(scenario(kGpt, joined(model, {"training.precision=bf16"})), options);
    const double expected = mean_of_last(bf16.losses, last);
    ASSERT_LT(expected, 0.5 * bf16.losses.front());
    for (const char* recipe : {"delayed", "tensorwise", "rowwise", "blockwise", "mxfp8"}) {
        const Trained run =
            train(scenario(kGpt, joined(model, {"training.precision=fp8",
                                                std::string("training.fp8_recipe=") + recipe})),
                  options);
        const double found = mean_of_last(run.losses, last);
        EXPECT_NEAR(found, expected, bound * expected) << recipe;
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
