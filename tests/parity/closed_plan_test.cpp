// A plan is closed: what its ops say decides what is computed, and nothing else does. Labels do
// not; every number does, as the plan's text has it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "plan/assemble/build_plan.hpp"
#include "plan/checks/operand_faults.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/text/text.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

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
        {kGpt, layout("added_norms", dropping({"training.norm_kernel=fused_add"}))},
        {kGpt, layout("residuals", {"training.residual_kernel=epilogue"})},
        {kGpt, layout("epilogues", dropping({"training.activation_kernel=epilogue"}))},
        {kGpt, layout("bias_gradients", dropping({"training.bias_gradient_kernel=epilogue"}))},
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
        {kLlama, layout("pipeline", {"pipeline_parallel=2", "schedule=zb-h1",
                                     "training.loss_logits=in_place"})},
        {kLlama, layout("zero3", {"data_parallel=2", "zero_stage=3"})},
        {kLlama, layout("lora", {"tensor_parallel=2", "training.lora.rank=4"})},
        {kLlama, layout("window", {"model.model_type=mistral", "model.sliding_window=5"})},
        {kLlama,
         layout("window_unfused", {"model.model_type=mistral", "model.sliding_window=5", unfused})},
        {kGpt, layout("shared_vocabulary", {"pipeline_parallel=2", "vocabulary_parallel=vocab-1"})},
        {kGpt, layout("one_barrier", {"pipeline_parallel=2", "vocabulary_parallel=vocab-2"})},
        {kLlama, layout("interlaced", {"pipeline_parallel=2", "vocabulary_parallel=interlaced"})},
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
            plan = std::move(*parsed.plan);
        });
        EXPECT_TRUE(built == read) << model.layout.name;
    }
}

// A place in a plan, of one tensor of one use.
struct SlotAt {
    std::size_t program = 0, procedure = 0, use = 0, tensor = 0;
    plan::Slot& in(plan::Plan& plan) const {
        return plan.programs[program].procedures[procedure].uses[use].slots[tensor];
    }
};

std::vector<SlotAt> slots_of(const plan::Plan& plan) {
    std::vector<SlotAt> all;
    for (std::size_t p = 0; p < plan.programs.size(); ++p)
        for (std::size_t q = 0; q < plan.programs[p].procedures.size(); ++q) {
            const auto& uses = plan.programs[p].procedures[q].uses;
            for (std::size_t u = 0; u < uses.size(); ++u)
                for (std::size_t t = 0; t < uses[u].slots.size(); ++t)
                    if (uses[u].slots[t].frame != plan::Frame::none) all.push_back({p, q, u, t});
        }
    return all;
}

// A tensor that one use looks for elsewhere is not found, or the plan is refused.
TEST(ClosedPlan, PlacesDecideBits) {
    const std::vector<Model> models = {
        {kGpt, layout("gpt", {})},
        {kLlama, layout("pipeline", {"pipeline_parallel=2", "schedule=zb-h1",
                                     "training.loss_logits=in_place"})},
        {kGpt, layout("zero3", {"data_parallel=2", "zero_stage=3"})}};
    for (const Model& model : models) {
        const plan::Scenario asked = scenario(model.text, model.layout.sets);
        const plan::Plan plan = plan::build_plan(asked);
        const Bits sound = bits_of(model, {});
        std::vector<SlotAt> slots = slots_of(plan);
        std::mt19937 random(11);
        int performed = 0;
        for (int i = 0; i < 40; ++i) {
            const SlotAt at = slots[random() % slots.size()];
            plan::Plan moved = plan;
            at.in(moved).offset += 256;
            if (!plan::plan_faults(moved, asked).empty()) continue;
            ++performed;
            const auto& use = plan.programs[at.program].procedures[at.procedure].uses[at.use];
            const plan::Block& block = plan.blocks[static_cast<std::size_t>(use.block)];
            const Bits bits =
                bits_of(model, [&](plan::Plan& planned) { at.in(planned).offset += 256; });
            EXPECT_FALSE(bits == sound)
                << model.layout.name << ' ' << block.name << ' ' << block.tensors[at.tensor].name;
        }
        EXPECT_GT(performed, 10) << model.layout.name;
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

std::set<Field> numbers_of(const Model& model) {
    std::set<Field> fields;
    bits_of(model, [&](plan::Plan& plan) {
        for_all_ops(plan, [&](Op& op) {
            plan::walk_spec(op.spec, [&](FieldUse use, std::string_view name, auto&, const auto&) {
                if (use == FieldUse::number) fields.insert({op.kind(), std::string(name)});
            });
        });
    });
    return fields;
}

void mutate(plan::Plan& plan, const Field& field) {
    for_all_ops(plan, [&](Op& op) {
        if (op.kind() != field.first) return;
        plan::walk_spec(op.spec, [&](FieldUse, std::string_view name, auto& value, const auto&) {
            if (name == field.second) mutate(name, value);
        });
    });
}

// What no longer has the operands for what it says is not performed.
bool tells(const Model& model, const Bits& sound, const Field& field) {
    plan::Plan plan = plan::build_plan(scenario(model.text, model.layout.sets));
    mutate(plan, field);
    if (!plan::operand_faults(plan.blocks, plan.mesh).empty()) return true;
    return !(bits_of(model, [&](plan::Plan& built) { mutate(built, field); }) == sound);
}

// What a number says changes what is computed, or asks for other operands, in some of the models
// that have it.
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

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
