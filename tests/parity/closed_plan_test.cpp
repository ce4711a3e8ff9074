// A plan is closed: what its ops say decides what is computed, and nothing else does. Labels do
// not; every number does, as the plan's text has it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "plan/text/text.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace {

using plan::FieldUse;
using plan::Op;
using plan::OpKind;

struct Model {
    const char* text;
    NamedLayout layout;
};

// One of each: models, masks, dropout, precisions, and all that shares work out.
std::vector<Model> worlds() {
    const std::vector<std::string> drops = {"model.resid_pdrop=0.1", "model.embd_pdrop=0.1",
                                            "model.attn_pdrop=0.1"};
    const auto dropping = [&](std::vector<std::string> keys) {
        keys.insert(keys.end(), drops.begin(), drops.end());
        return keys;
    };
    const auto rope = [](const char* scaling) {
        return std::string("model.rope_scaling=") + scaling;
    };
    const std::string unfused = "training.attention_kernel=unfused";
    std::vector<Model> all = {
        {kGpt, layout("gpt", dropping({}))},
        {kGpt, layout("unfused", dropping({unfused, "tensor_parallel=2"}))},
        {kGpt, layout("masks", dropping({unfused, "training.dropout_masks=stored"}))},
        {kGpt, layout("sequence", dropping({"tensor_parallel=2", "sequence_parallel=true"}))},
        {kGpt, layout("ring", dropping({"context_parallel=4"}))},
        {kGpt, layout("exchanged", {"context_parallel=2", "context_algorithm=all_to_all"})},
        {kGpt,
         layout("gathered", dropping({"context_parallel=2", "context_algorithm=all_gather"}))},
        {kGpt, layout("spikes", {"training.loss_spike={\"skip_above\":1.0001,\"window\":2}"})},
        {kGpt, layout("diverging", {"training.loss_spike={\"skip_above\":1.0001,\"window\":2}",
                                    "training.optimizer.learning_rate=0.3"})},
        {kGpt, layout("zero1", {"data_parallel=2", "zero_stage=1"})},
        {kLlama, layout("llama", {})},
        {kLlama, layout("linear", {rope("{\"rope_type\":\"linear\",\"factor\":4}")})},
        {kLlama, layout("llama3", {rope("{\"rope_type\":\"llama3\",\"factor\":8,"
                                        "\"low_freq_factor\":1,\"high_freq_factor\":4,"
                                        "\"original_max_position_embeddings\":8}")})},
        {kLlama, layout("yarn", {"model.num_attention_heads=2", "model.num_key_value_heads=2",
                                 rope("{\"rope_type\":\"yarn\",\"factor\":4,\"beta_fast\":8,"
                                      "\"original_max_position_embeddings\":64}")})},
        {kLlama, layout("tensor", {"tensor_parallel=4", "recompute=full"})},
        {kLlama, layout("pipeline", {"pipeline_parallel=2", "schedule=zb-h1"})},
        {kLlama, layout("zero3", {"data_parallel=2", "zero_stage=3"})},
        {kLlama, layout("window", {"model.model_type=mistral", "model.sliding_window=5"})},
        {kLlama,
         layout("window_unfused", {"model.model_type=mistral", "model.sliding_window=5", unfused})},
        {kBloom, layout("bloom", {})},
        {kBloom, layout("bloom_unfused", {"tensor_parallel=2", unfused})},
    };
    const std::vector<std::vector<std::string>> ways = {
        {"tensor_parallel=2"}, {unfused}, {"context_parallel=2", "tensor_parallel=2"}};
    for (const FamilySets& family : llama_like_families())
        for (const auto& way : ways) {
            NamedLayout named = layout(family.name, way);
            named.sets.insert(named.sets.end(), family.sets.begin(), family.sets.end());
            all.push_back({kLlama, named});
        }
    return all;
}

struct Bits {
    std::vector<double> losses;
    Whole gradients, parameters;
    std::vector<runtime::Skipped> skipped;
    bool operator==(const Bits&) const = default;
};

Bits bits_of(const Model& model, const std::function<void(plan::Plan&)>& change) {
    RunOptions options;
    options.steps = 5;
    options.change_plan = change;
    const Trained trained = train(scenario(model.text, model.layout.sets), options);
    return {trained.losses, trained.gradients, trained.parameters, trained.skipped};
}

Model scaled(double initial, int growth_interval, double minimum) {
    return {kGpt, layout("fp16", {"training.precision=fp16", "data_parallel=2",
                                  fmt::format("training.loss_scale={{\"initial\":{},"
                                              "\"growth_interval\":{},\"hysteresis\":2,"
                                              "\"minimum\":{}}}",
                                              initial, growth_interval, minimum)})};
}

// Loss scales that are near the first one whose gradients overflow: it is grown to, is too large
// for some steps, and falls, or may not fall.
std::vector<Model> scaled_worlds() {
    double scale = 1024;
    while (bits_of(scaled(scale, 1000, 1), {}).skipped.front() == runtime::Skipped::no)
        scale *= 2;
    return {scaled(scale, 1000, 1), scaled(scale / 2, 2, 1), scaled(scale, 1000, scale)};
}

void for_all_ops(plan::Plan& plan, const std::function<void(Op&)>& visit) {
    for (plan::Block& block : plan.blocks)
        for (Op& op : block.ops)
            visit(op);
}

TEST(ClosedPlan, LabelsDecideNothing) {
    for (const Model& model : worlds()) {
        std::mt19937 random(7);
        const Bits sound = bits_of(model, {});
        const Bits scrambled = bits_of(model, [&](plan::Plan& plan) {
            for_all_ops(plan, [&](Op& op) {
                op.label.clear();
                for (int i = 0; i < 8; ++i)
                    op.label += static_cast<char>('a' + random() % 26);
            });
        });
        EXPECT_TRUE(sound == scrambled) << model.layout.name;
    }
}

TEST(ClosedPlan, ItsTextIsWhatIsTrained) {
    for (const Model& model : worlds()) {
        const Bits built = bits_of(model, {});
        const Bits read = bits_of(model, [&](plan::Plan& plan) {
            plan::ParsedPlan parsed = plan::parse_plan(plan::to_text(plan));
            ASSERT_TRUE(parsed.plan) << parsed.error;
            plan.tokens = parsed.plan->tokens;
            plan.blocks = std::move(parsed.plan->blocks);
        });
        EXPECT_TRUE(built == read) << model.layout.name;
    }
}

// Another value, that kernels can still compute with.
void mutate(std::string_view, double& value) {
    value = value == 0 ? 0.25 : value / 2;
}
void mutate(std::string_view field, std::int64_t& value) {
    if (field == "total_heads")
        value *= 2;  // a rank's heads are among them
    else
        value = value > 1 ? value / 2 : value + 1;
}
void mutate(std::string_view, bool& value) {
    value = !value;
}
template <typename Enum>
requires std::is_enum_v<Enum>
void mutate(std::string_view, Enum& value) {
    const auto next = static_cast<std::size_t>(value) + 1;
    value = static_cast<Enum>(next % plan::Spelling<Enum>::names.size());
}

using Field = std::pair<OpKind, std::string>;

// Numbers that say how many operands there are: an op that says otherwise is not performed at all.
bool counts_operands(const Op& op, const std::string& field) {
    if (const auto* rearrange = std::get_if<plan::Rearrange>(&op.spec))
        return rearrange->form == plan::Rearrangement::keys ||
               rearrange->form == plan::Rearrangement::gradients;
    if (op.is<plan::Normalize>() || op.is<plan::NormalizeBackward>()) return field == "centred";
    if (field == "sinks" || field == "of_gradients") return true;
    if (const auto* norm = std::get_if<plan::NormalizeQk>(&op.spec))
        return field == "ranks" && norm->ranks == 0;
    if (const auto* norm = std::get_if<plan::NormalizeQkBackward>(&op.spec))
        return field == "ranks" && norm->ranks == 0;
    if (const auto* softmax = std::get_if<plan::SoftmaxBackward>(&op.spec))
        return field == "soft_cap" && softmax->soft_cap == 0;
    return op.is<plan::AdamW>() && field.starts_with("skips_");
}

std::set<Field> numbers_of(const Model& model) {
    std::set<Field> fields;
    bits_of(model, [&](plan::Plan& plan) {
        for_all_ops(plan, [&](Op& op) {
            plan::walk_spec(op.spec, [&](FieldUse use, std::string_view name, auto&, const auto&) {
                if (use == FieldUse::number && !counts_operands(op, std::string(name)))
                    fields.insert({op.kind(), std::string(name)});
            });
        });
    });
    return fields;
}

bool tells(const Model& model, const Bits& sound, const Field& field) {
    const Bits mutated = bits_of(model, [&](plan::Plan& plan) {
        for_all_ops(plan, [&](Op& op) {
            if (op.kind() != field.first) return;
            plan::walk_spec(op.spec,
                            [&](FieldUse, std::string_view name, auto& value, const auto&) {
                                if (name == field.second) mutate(name, value);
                            });
        });
    });
    return !(mutated == sound);
}

// What a number says changes what is computed, in some of the models that have it.
TEST(ClosedPlan, EveryNumberDecidesBits) {
    std::map<Field, bool> told;
    std::vector<Model> models = worlds();
    for (Model& model : scaled_worlds())
        models.push_back(std::move(model));
    for (const Model& model : models) {
        const Bits sound = bits_of(model, {});
        for (const Field& field : numbers_of(model)) {
            bool& found = told[field];
            found = found || tells(model, sound, field);
        }
    }
    // The largest logit only keeps the exponentials in range.
    told.erase({OpKind::cross_entropy_max, "vocabulary"});
    for (const auto& [field, found] : told)
        EXPECT_TRUE(found) << plan::name(field.first) << ' ' << field.second;
    EXPECT_GT(told.size(), 60u);
}

}  // namespace
}  // namespace orrery::parity
