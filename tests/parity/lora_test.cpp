// Low-rank adaptation. y + f·(x·Aᵀ)·Bᵀ is what a linear of the weight W + f·B·A computes, so that a
// model with adapters is one without, whose own gradients say what those of A and B are:
// dA = f·Bᵀ·dW and dB = f·dW·Aᵀ. Every layout trains the model of one rank, and none changes what
// is frozen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "runtime/random.hpp"
#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/run.hpp"
#include "tests/runtime/checkpoint/faulty_files.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kRank = 4;
constexpr double kAlpha = 12;
constexpr double kFactor = kAlpha / kRank;

Sets with_lora(Sets sets, const std::string& targets = "") {
    sets.push_back("training.lora.rank=" + std::to_string(kRank));
    sets.push_back("training.lora.alpha=12");
    if (!targets.empty()) sets.push_back("training.lora.target_modules=" + targets);
    return sets;
}

bool is_adapter(const std::string& name) {
    return name.find(".lora_") != std::string::npos;
}

// Norms start from 1. Everything else, B included, from numbers of a name of their own, so that all
// gradients are there from the first step on.
double first_weight(const plan::Parameter& parameter, const std::string& name,
                    std::int64_t element) {
    if (parameter.start == plan::Start::one) return 1;
    std::uint64_t site = 7;
    for (const char c : name)
        site = site * 31 + static_cast<unsigned char>(c);
    const runtime::RandomKey key{site, 0, 0};
    return (is_adapter(name) ? 0.1 : 0.05) *
           runtime::normal(key, static_cast<std::uint64_t>(element));
}

Trained adapted(const char* text, const Sets& sets, std::int64_t steps = usual_steps()) {
    RunOptions options;
    options.steps = steps;
    options.first_weights = first_weight;
    return train(scenario(text, with_lora(sets)), options);
}

struct Matrix {
    std::int64_t rows, columns;
    std::vector<double> values;
    double at(std::int64_t row, std::int64_t column) const {
        return values[static_cast<std::size_t>(row * columns + column)];
    }
};

Matrix product(const Matrix& a, const Matrix& b, double factor) {
    Matrix c{a.rows, b.columns, {}};
    for (std::int64_t i = 0; i < a.rows; ++i)
        for (std::int64_t j = 0; j < b.columns; ++j) {
            double sum = 0;
            for (std::int64_t k = 0; k < a.columns; ++k)
                sum += a.at(i, k) * b.at(k, j);
            c.values.push_back(factor * sum);
        }
    return c;
}

Matrix transposed(const Matrix& a) {
    Matrix t{a.columns, a.rows, {}};
    for (std::int64_t j = 0; j < a.columns; ++j)
        for (std::int64_t i = 0; i < a.rows; ++i)
            t.values.push_back(a.at(i, j));
    return t;
}

// A or B as it starts, of the linear "layer.3/qkv".
Matrix adapter(const std::string& linear, bool a, std::int64_t side) {
    Matrix made{a ? kRank : side, a ? side : kRank, {}};
    const std::string name = linear + (a ? ".lora_A" : ".lora_B");
    for (std::int64_t i = 0; i < kRank * side; ++i)
        made.values.push_back(first_weight({}, name, i));
    return made;
}

// The same model without adapters, its adapted weights merged with them.
Trained merged(const char* text, const std::string& precision) {
    RunOptions options;
    options.steps = 1;
    std::map<std::string, Matrix> changes;
    std::mutex mutex;  // weights are filled by threads
    options.first_weights = [&](const plan::Parameter& parameter, const std::string& name,
                                std::int64_t element) {
        const double own = first_weight(parameter, name, element);
        if (name.find("layer.") != 0 || parameter.dims.size() < 2) return own;
        const std::lock_guard lock(mutex);
        auto found = changes.find(name);
        if (found == changes.end()) {
            const std::string linear = name.substr(0, name.rfind(".weight"));
            found = changes
                        .emplace(name, product(adapter(linear, false, parameter.dims[0]),
                                               adapter(linear, true, parameter.dims[1]), kFactor))
                        .first;
        }
        return own + found->second.values[static_cast<std::size_t>(element)];
    };
    return train(scenario(text, {"training.precision=" + precision}), options);
}

TEST(Lora, IsTheModelOfMergedWeights) {
    for (const char* text : {kGpt, kLlama}) {
        const Trained whole = merged(text, "fp64");
        const Trained parts = adapted(text, {"training.precision=fp64"}, 1);
        EXPECT_NEAR(parts.losses[0], whole.losses[0], 1e-12 * whole.losses[0]);
        Whole expected;
        for (const auto& [name, values] : parts.gradients) {
            ASSERT_TRUE(is_adapter(name)) << name << " is frozen, and has a gradient";
            if (name.find(".lora_A") == std::string::npos) continue;
            const std::string linear = name.substr(0, name.rfind(".lora_A"));
            const std::vector<double>& dw = whole.gradients.at(linear + ".weight");
            const auto in = static_cast<std::int64_t>(values.size()) / kRank;
            const Matrix gradient{static_cast<std::int64_t>(dw.size()) / in, in, dw};
            expected[name] =
                product(transposed(adapter(linear, false, gradient.rows)), gradient, kFactor)
                    .values;
            expected[linear + ".lora_B"] =
                product(gradient, transposed(adapter(linear, true, in)), kFactor).values;
        }
        EXPECT_EQ(expected.size(), 4u * 4u * 2u);  // layers, linears, A and B
        EXPECT_EQ(parts.gradients.size(), expected.size());
        const Difference worst = difference(parts.gradients, expected);
        EXPECT_LE(worst.relative, 1e-12) << worst.name;
    }
}

struct Case {
    const char* text;
    std::string precision;
    NamedLayout layout;
};
void PrintTo(const Case& c, std::ostream* os) {
    *os << c.precision << ' ' << c.layout.name;
}

const Trained& alone(const Case& c) {
    static std::map<std::string, Trained> runs;
    Sets sets = {"training.precision=" + c.precision};
    for (const std::string& set : c.layout.sets)
        if (set.starts_with("model") || set.starts_with("layout.global_batch_size=") ||
            set.find("clip_norm") != std::string::npos ||
            set.find("target_modules") != std::string::npos)
            sets.push_back(set);
    std::string key = c.text;
    for (const std::string& set : sets)
        key += set;
    const auto found = runs.find(key);
    return found != runs.end() ? found->second : runs[key] = adapted(c.text, sets);
}

// Of Mixtral: adapters beside its attention, experts and router frozen.
constexpr const char* kAttention = R"(training.lora.target_modules=["linear_qkv","linear_proj"])";

class LoraLayouts : public testing::TestWithParam<Case> {};

TEST_P(LoraLayouts, TrainTheModelOfOneRank) {
    const Case& c = GetParam();
    const Trained& reference = alone(c);
    Sets sets = c.layout.sets;
    sets.push_back("training.precision=" + c.precision);
    const Trained run = adapted(c.text, sets);
    const double loss_tolerance = c.precision == "fp64" ? 1e-13 : 5e-6;
    const double gradient_tolerance = c.precision == "fp64" ? 1e-12 : 1e-5;
    ASSERT_EQ(run.losses.size(), reference.losses.size());
    for (std::size_t i = 0; i < run.losses.size(); ++i)
        EXPECT_LE(std::abs(run.losses[i] / reference.losses[i] - 1), loss_tolerance)
            << "step " << i + 1 << ": " << run.losses[i] << " and " << reference.losses[i];
    const Difference worst = difference(run.gradients, reference.gradients);
    EXPECT_LE(worst.relative, gradient_tolerance) << worst.name;
    EXPECT_EQ(run.gradients.size(), reference.gradients.size());
    EXPECT_EQ(run.disagreement, "");
    EXPECT_LT(run.losses.back(), run.losses.front()) << "nothing is learned";
    for (const auto& [name, values] : run.parameters) {
        const bool same = values == reference.parameters.at(name);
        if (is_adapter(name))
            EXPECT_EQ(run.gradients.count(name), 1u) << name;
        else
            EXPECT_TRUE(same) << name << " is frozen, and has changed";
    }
    for (const runtime::RankMemory& memory : run.result.memory)
        EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
}

// What lora excludes (S037).
bool excluded(const NamedLayout& layout) {
    return std::any_of(layout.sets.begin(), layout.sets.end(), [](const std::string& set) {
        return set.find("selective_op") != std::string::npos ||
               set.find("loss_chunks") != std::string::npos ||
               set.find("tensor_overlap_parts") != std::string::npos ||
               set.find("layers_per_stage=[0") != std::string::npos;
    });
}

std::vector<Case> cases() {
    std::vector<Case> all;
    bool turn = false;
    for (const auto& layouts : {all_layouts(), zero_bubble_layouts(), context_layouts()})
        for (const NamedLayout& layout : layouts) {
            if (excluded(layout)) continue;
            turn = !turn;
            all.push_back({turn ? kGpt : kLlama, "fp64", layout});
        }
    for (NamedLayout named : offload_layouts()) {
        named.name = "offload_" + named.name;
        for (const char* text : {kGpt, kLlama})
            all.push_back({text, "fp64", named});
    }
    const std::vector<std::string> validated = {"pipeline_parallel=2", "data_parallel=2",
                                                "zero_stage=2", "schedule=zb-h1",
                                                "optimizer_post_validation=true"};
    all.push_back({kLlama, "fp64", layout("validated_later", validated)});
    for (const FamilySets& family : llama_like_families())
        for (NamedLayout named : layer_layouts()) {
            const std::string name = family.name;
            if (name == "gpt_oss" || name.starts_with("deepseek")) continue;  // refused
            const bool some = named.name == "sequence_4" || named.name == "zero3_tensor" ||
                              named.name == "zb_v_sequence" || named.name == "every_2";
            if (!some) continue;
            named.sets.insert(named.sets.end(), family.sets.begin(), family.sets.end());
            named.name = name + "_" + named.name;
            all.push_back({kLlama, "fp64", named});
        }
    const std::string attention = kAttention,
                      mlp = R"(training.lora.target_modules=["linear_fc2"])";
    const std::vector<std::string> spread = {"tensor_parallel=2", "sequence_parallel=true",
                                             "pipeline_parallel=2", "schedule=zb-h1"};
    for (const auto& [name, targets] : {std::pair{"attention", attention}, {"fc2", mlp}})
        for (const char* text : {kGpt, kLlama}) {
            std::vector<std::string> keys = spread;
            keys.push_back(targets);
            all.push_back(
                {text, "fp64",
                 layout(std::string("targets_") + name + (text == kGpt ? "_gpt" : "_llama"),
                        keys)});
        }
    all.push_back({kGpt, "fp32",
                   layout("fp32", {"tensor_parallel=2", "data_parallel=2", "zero_stage=1",
                                   "pipeline_parallel=2"})});
    all.push_back(
        {kLlama, "fp32", layout("parallel_fp32", {"tensor_parallel=4", "sequence_parallel=true"})});
    return all;
}

// Where experts lie on several ranks and ZeRO-3 would share out what is frozen, it is refused
// (S037).
std::vector<Case> expert_cases() {
    std::vector<Case> all;
    for (NamedLayout named : expert_layouts()) {
        const auto has = [&](const char* text) {
            return named.name.find(text) != std::string::npos;
        };
        const bool spread = has("spread") || has("split") || has("copies");
        if (has("overlapped") || (spread && has("zero3"))) continue;
        named.sets.emplace_back(kAttention);
        all.push_back({kMixtral, "fp64", named});
    }
    for (const char* degree : {"data_parallel=2", "pipeline_parallel=2"}) {
        NamedLayout named = layout(std::string("biased_router_") + degree, {degree});
        std::replace(named.name.begin(), named.name.end(), '=', '_');
        named.sets.insert(named.sets.end(), biased_router_model().begin(),
                          biased_router_model().end());
        named.sets.emplace_back(kAttention);
        all.push_back({kMixtral, "fp64", named});
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Experts, LoraLayouts, testing::ValuesIn(expert_cases()),
                         [](const auto& tested) { return tested.param.layout.name; });

INSTANTIATE_TEST_SUITE_P(All, LoraLayouts, testing::ValuesIn(cases()), [](const auto& tested) {
    return tested.param.layout.name + (tested.param.text == kGpt ? "_gpt" : "_llama");
});

// In 16 bits too, and after all steps: what is frozen is what it started as.
TEST(Lora, LeavesFrozenWeightsAsTheyWere) {
    for (const char* precision : {"fp32", "bf16", "fp16"}) {
        const std::string sets = std::string("training.precision=") + precision;
        const Trained begun = adapted(kLlama, {sets, "layout.data_parallel=2"}, 1);
        const Trained trained =
            adapted(kLlama, {sets, "layout.data_parallel=2", "layout.zero_stage=3"}, usual_steps());
        std::size_t frozen = 0, changed = 0;
        for (const auto& [name, values] : trained.parameters) {
            if (is_adapter(name))
                changed += values != begun.parameters.at(name);
            else
                EXPECT_EQ(values, begun.parameters.at(name)) << precision << ' ' << name;
            frozen += !is_adapter(name);
        }
        EXPECT_EQ(frozen, 3u + 4u * 6u);  // both ends and the last norm; four linears, two norms
        EXPECT_EQ(changed, 4u * 4u * 2u);
    }
}

// B starts as zeros: the model begins as the one that is adapted.
TEST(Lora, BeginsAsTheModelWithout) {
    RunOptions once;
    once.steps = 1;
    const Trained without = train(scenario(kLlama, {"training.precision=fp64"}), once);
    const Trained with = train(scenario(kLlama, with_lora({"training.precision=fp64"})), once);
    EXPECT_EQ(with.losses, without.losses);
}

struct ResumeCase {
    const char* text;
    NamedLayout layout;
    Sets elsewhere{"training.precision=fp64", "layout.tensor_parallel=2"};
};
void PrintTo(const ResumeCase& c, std::ostream* os) {
    *os << c.layout.name;
}

class ResumedLora : public testing::TestWithParam<ResumeCase> {};

TEST_P(ResumedLora, IsTheRunThatWasNeverStopped) {
    const std::string path = testing::TempDir() + "lora-" + GetParam().layout.name;
    std::filesystem::remove_all(path);
    runtime::UnsynchronisedFiles unsynchronised;
    const auto run = [&](const Sets& sets, std::int64_t steps, const std::string& to, bool resume) {
        RunOptions options;
        options.steps = steps;
        options.checkpoint.emplace();
        options.checkpoint->path = to;
        options.checkpoint->every_steps = 3;
        options.checkpoint->resume = resume;
        options.checkpoint->files = &unsynchronised;
        return train(scenario(GetParam().text, with_lora(sets)), options);
    };
    const Sets& sets = GetParam().layout.sets;
    const Trained whole = run(sets, 6, path + "/whole", false);
    run(sets, 3, path + "/parts", false);
    const Trained rest = run(sets, 6, path + "/parts", true);
    EXPECT_EQ(rest.losses, std::vector(whole.losses.begin() + 3, whole.losses.end()));
    EXPECT_EQ(rest.parameters, whole.parameters);
    EXPECT_EQ(rest.moments, whole.moments);
    for (const auto& [name, values] : rest.moments)
        EXPECT_TRUE(is_adapter(name)) << name;
    // A checkpoint of any layout is one of any other.
    run(sets, 3, path + "/moved", false);
    const Trained elsewhere = run(GetParam().elsewhere, 6, path + "/moved", true);
    EXPECT_NEAR(elsewhere.losses.front(), whole.losses[3], 1e-2);
    std::filesystem::remove_all(path);
}

INSTANTIATE_TEST_SUITE_P(
    Lora, ResumedLora,
    testing::Values(
        ResumeCase{kGpt, layout("alone_bf16", {"training.precision=bf16"})},
        ResumeCase{kLlama, layout("zero1_bf16",
                                  {"data_parallel=2", "zero_stage=1", "training.precision=bf16"})},
        ResumeCase{kGpt, layout("tied_pipeline_zero2",
                                {"pipeline_parallel=2", "data_parallel=2", "zero_stage=2"})},
        ResumeCase{kLlama, layout("sequence_zero3", {"tensor_parallel=2", "sequence_parallel=true",
                                                     "data_parallel=2", "zero_stage=3"})},
        ResumeCase{kMixtral,
                   layout("spread_experts",
                          {"data_parallel=2", "expert_parallel=2", "zero_stage=1", kAttention}),
                   {"training.precision=fp64", "layout.pipeline_parallel=2", kAttention}}),
    [](const auto& tested) { return tested.param.layout.name; });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
