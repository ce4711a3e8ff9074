// Keys of nanotron, one by one, and YAML as PyYAML reads it.
#include <gtest/gtest.h>

#include "plan/scenario/import/yaml_text.hpp"
#include "tests/plan/import/imports.hpp"

namespace orrery::plan::imports {
namespace ORRERY_TEST_FILE {

const std::string kModel = "model: {model_config: {is_llama_config: true";
const std::string kRest =
    "\ntokens: {sequence_length: 2048, micro_batch_size: 2, batch_accumulation_per_replica: 8, "
    "train_steps: 100}\nparallelism: {dp: 4, tp: 2, pp: 2";

// Keys of the model's config, and of the parallelism.
Imported imported(const std::string& model, const std::string& parallelism = "") {
    return import_text(kModel + model + "}}" + kRest + parallelism + "}", "run.yaml",
                       Format::nanotron, wishes());
}

TEST(Nanotron, EachKeyBecomesItsKey) {
    const Imported result = imported("");
    EXPECT_EQ(format_text(result.errors), "");
    const Expectation all[] = {
        {"", "model.model_type", "\"llama\""},     {"", "model.num_hidden_layers", "32"},
        {"", "layout.data_parallel", "4"},         {"", "layout.schedule", "\"gpipe\""},
        {"", "layout.sequence_parallel", "false"}, {"", "layout.recompute", "\"none\""},
        {"", "layout.global_batch_size", "64"},  // 2 · 8 · 4
        {"", "training.tokens", "13107200"},     // 100 · 64 · 2048
        {"", "training.precision", "\"bf16\""}};
    for (const Expectation& row : all)
        expect(result, row, "");
    EXPECT_EQ(at(imported(", num_hidden_layers: 8"), "model.num_hidden_layers"), "8");
    EXPECT_EQ(at(imported("", ", pp_engine: 1f1b"), "layout.schedule"), "\"1f1b\"");
    EXPECT_EQ(at(imported("", ", tp_mode: reduce_scatter"), "layout.sequence_parallel"), "true");
    const std::string scattered = ", tp_mode: reduce_scatter";
    EXPECT_EQ(at(imported("", scattered), "training.gathered_inputs"), "\"again\"");
    EXPECT_EQ(
        at(imported("", scattered + ", tp_recompute_allgather: false"), "training.gathered_inputs"),
        "\"kept\"");
    EXPECT_EQ(at(imported("", ", recompute_layer: yes"), "layout.recompute"), "\"full\"");
    EXPECT_TRUE(missing(result, "training.framework")) << "the library has no preset of it";
}

// Qwen2's biases are a key in nanotron; Hugging Face's model always has them.
TEST(Nanotron, AQwenWithoutBiasesIsALlama) {
    const auto kind = [](const std::string& keys) {
        return at(
            import_text("model: {model_config: {is_qwen2_config: true" + keys + "}}" + kRest + "}",
                        "run.yaml", Format::nanotron, wishes()),
            "model.model_type");
    };
    EXPECT_EQ(kind(""), "\"llama\"");
    EXPECT_EQ(kind(", attention_bias: true"), "\"qwen2\"");
}

TEST(Nanotron, WhatChangesTheModelIsMarked) {
    const std::pair<const char*, const char*> all[] = {
        {", moe_config: {num_experts: 8}", "model.model_config.moe_config.num_experts"},
        {", sliding_window_size: 4096", "model.model_config.sliding_window_size"},
        {", no_rope_layer: 4", "model.model_config.no_rope_layer"}};
    for (const auto& [text, key] : all) {
        const Imported result = imported(text);
        ASSERT_NE(left(result.unsupported, key), nullptr) << text;
        EXPECT_EQ(left(result.unsupported, key)->changes, Changes::model) << text;
    }
    const Imported masked = imported(", _use_doc_masking: true, banana: 1, pad_token_id: null");
    EXPECT_EQ(left(masked.unsupported, "model.model_config._use_doc_masking")->changes,
              Changes::cost);
    EXPECT_NE(left(masked.unsupported, "model.model_config.banana"), nullptr);
    EXPECT_NE(left(masked.ignored, "model.model_config.pad_token_id"), nullptr);
}

TEST(Nanotron, TheDegreesMakeTheRanks) {
    const Imported result =
        import_text(kModel + "}}" + kRest + "}", "run.yaml", Format::nanotron, wishes(32));
    EXPECT_NE(format_text(result.errors).find("4 × 2 × 2 × 1 = 16, --gpus = 32"), std::string::npos)
        << format_text(result.errors);
}

TEST(Yaml, ReadsScalarsAsPyYaml) {
    std::vector<Diagnostic> errors;
    const std::vector<Setting> read = read_yaml(
        "a: 1\nb: {c: 1e-5, d: '1', e: [1, {f: no}, ~]}\ng:\n  h: True\n  i: null\n  j: x y\n", "f",
        errors);
    ASSERT_TRUE(errors.empty());
    const std::pair<const char*, const char*> all[] = {
        {"a", "1"},      {"b.c", "1e-05"}, {"b.d", "\"1\""},  {"b.e", "[1,{\"f\":false},null]"},
        {"g.h", "true"}, {"g.i", "null"},  {"g.j", "\"x y\""}};
    ASSERT_EQ(read.size(), std::size(all));
    for (std::size_t i = 0; i < read.size(); ++i) {
        EXPECT_EQ(read[i].key, all[i].first);
        EXPECT_EQ(read[i].value.dump(), all[i].second);
    }
    EXPECT_EQ(read.back().line, 6);
}

TEST(Yaml, SaysWhereItStops) {
    for (const std::string text :
         {"a: [1, 2", "a: 1\n b: 2", "- a", "a: &x 1\nb: *x", "a:\n\t- 1", "\xff: 1", ""}) {
        std::vector<Diagnostic> errors;
        EXPECT_TRUE(read_yaml(text, "f", errors).empty()) << text;
        ASSERT_EQ(errors.size(), 1u) << text;
        EXPECT_EQ(errors[0].code, "I001");
        EXPECT_GE(errors[0].line, 1);
    }
    std::vector<Diagnostic> errors;
    std::string deep;
    for (int i = 0; i < 300; ++i)
        deep += "{a: ";
    read_yaml(deep, "f", errors);
    EXPECT_EQ(errors.size(), 1u);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan::imports
