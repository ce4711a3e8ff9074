// Input that no person wrote: so many keys, options, cells or parts that anything which looks at
// each of them for each other one would not end. What is said of it stays short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "plan/scenario/import/import.hpp"
#include "plan/scenario/reader.hpp"
#include "plan/schedule/csv.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;

constexpr int kMany = 200'000;
constexpr std::size_t kNamed = 50;  // unknown keys that are named one by one

const std::string kLibrary = ORRERY_SOURCE_DIR "/tests/golden/errors/library";

// A sound scenario but for `keys` and what is inside its layout.
ReadResult read(const std::string& keys, const std::string& in_layout = "") {
    return read_scenario_text(
        fmt::format(R"({{{} "model": "models/gpt-96.json", "cluster": "clusters/a100-128.json",
  "layout": {{{} "tensor_parallel": 8, "pipeline_parallel": 4, "global_batch_size": 64}},
  "training": {{"sequence_length": 2048}}}})",
                    keys, in_layout),
        "run.json", "", {}, kLibrary);
}

std::string many_keys() {
    std::string keys;
    for (int i = 0; i < kMany; ++i)
        keys += fmt::format("\"strange{}\": {},", i, i);
    return keys;
}

TEST(FloodedInput, UnknownKeysAreNamedUpToAPointAndThenCounted) {
    for (const bool inside : {false, true}) {
        const ReadResult result = inside ? read("", many_keys()) : read(many_keys());
        ASSERT_EQ(result.errors.size(), kNamed + 1);
        EXPECT_EQ(result.errors[0].pointer, inside ? "/layout/strange0" : "/strange0");
        EXPECT_EQ(result.errors.back().pointer, inside ? "/layout" : "");
        EXPECT_EQ(result.errors.back().message,
                  fmt::format("{} has {} further keys that are not known",
                              inside ? "layout" : "a scenario", kMany - kNamed));
        EXPECT_LT(format_text(result.errors).size(), 100'000U);
        EXPECT_LT(format_json(result.errors).size(), 200'000U);
    }
}

// What others keep in a model's config.json is passed over; not what no model has.
TEST(FloodedInput, AModelMayHaveSomeKeysThatNobodyReads) {
    const auto with_keys = [](int count) {
        std::string keys;
        for (int i = 0; i < count; ++i)
            keys += fmt::format(", \"strange{}\": {}", i, i);
        return read_scenario_text(
            fmt::format(R"({{"model": {{"model_type": "gpt2", "n_layer": 4, "n_embd": 64,
                            "n_head": 4, "vocab_size": 256, "n_positions": 2048 {}}},
                         "cluster": "clusters/a100-128.json", "layout": {{"global_batch_size": 128}},
                         "training": {{"sequence_length": 2048}}}})",
                        keys),
            "run.json", "", {}, kLibrary);
    };
    EXPECT_EQ(format_text(with_keys(1000).errors), format_text({}));
    const ReadResult refused = with_keys(1001);
    ASSERT_EQ(refused.errors.size(), kNamed + 1);
    EXPECT_EQ(refused.errors.back().message, "model has 951 further keys that are not known");
}

TEST(FloodedInput, AKeyThatStandsTwiceIsFoundAmongMany) {
    const ReadResult result = read(many_keys() + "\"strange7\": 1,");
    EXPECT_EQ(result.errors[0].code, "S003");
    EXPECT_EQ(result.errors[0].pointer, "/strange7");
}

TEST(FloodedInput, MoreErrorsThanAPersonReadsAreCounted) {
    std::vector<Diagnostic> many(1000);
    for (std::size_t i = 0; i < many.size(); ++i)
        many[i].message = fmt::format("fault {}", i);
    const std::string text = format_text(many);
    EXPECT_THAT(text, HasSubstr("fault 199"));
    EXPECT_THAT(text, testing::Not(HasSubstr("fault 200")));
    EXPECT_THAT(text, HasSubstr("1000 errors, of which the first 200 are shown; nothing was run."));
    const auto json = nlohmann::json::parse(format_json(many));
    EXPECT_EQ(json["errors"].size(), 200U);
    EXPECT_EQ(json["errors_left_out"], 800);
}

TEST(FloodedInput, AHugeValueIsNotEchoed) {
    std::string list = "[1";
    for (int i = 0; i < kMany; ++i)
        list += ",1";
    const ReadResult array = read("", "\"schedule\": " + list + "],");
    ASSERT_FALSE(array.errors.empty());
    EXPECT_LT(format_json(array.errors).size(), 10'000U);
    const ReadResult number = read("", "\"zero_stage\": 1" + std::string(kMany, '0') + ",");
    ASSERT_FALSE(number.errors.empty());
    EXPECT_LT(format_json(number.errors).size(), 10'000U);
    const ReadResult key = read("\"" + std::string(kMany, 'k') + "\": 1,");
    ASSERT_FALSE(key.errors.empty());
}

TEST(FloodedInput, UnknownOptionsAreCountedOneByOne) {
    std::string script = "python pretrain_gpt.py --num-layers 32";
    for (int i = 0; i < kMany / 10; ++i)
        script += fmt::format(" --strange-{} {}", i, i);
    const auto imported =
        imports::import_text(script, "run.sh", imports::Format::megatron, imports::Wishes{});
    EXPECT_GE(imported.unsupported.size(), static_cast<std::size_t>(kMany / 10));
    EXPECT_THAT(imported.unsupported.front().why, HasSubstr("nearest: --"));
}

TEST(FloodedInput, AKeyOfTooManyPartsIsRefusedWhereItStands) {
    std::string parts = "a";
    for (int i = 0; i < kMany; ++i)
        parts += ".a";
    const auto read = [](const std::string& text) {
        return imports::import_text(text, "run.toml", imports::Format::torchtitan,
                                    imports::Wishes{});
    };
    for (const std::string& text :
         {"[model]\nname = 1\n" + parts + " = 1\n", "[model]\n\n[" + parts + "]\n"}) {
        const auto imported = read(text);
        ASSERT_EQ(imported.errors.size(), 1U);
        EXPECT_EQ(imported.errors[0].line, 3);
        EXPECT_EQ(imported.errors[0].message, "a key of more than 64 parts at line 3");
    }
    // Dots of a value are no parts of a key.
    for (const Diagnostic& fault : read("[job]\ndump_folder = \"" + parts + "\"\n").errors)
        EXPECT_THAT(fault.message, testing::Not(HasSubstr("parts")));
}

TEST(FloodedInput, CellsThatAreNoActionsAreNotAllKept) {
    std::string row = "1Q";
    for (int i = 0; i < kMany; ++i)
        row += ",1Q";
    for (const auto& rows :
         {std::vector<std::string>{row}, std::vector<std::string>(kMany, "1Q,0F0")}) {
        const ImportedGrid grid = read_grid(rows);
        ASSERT_EQ(grid.faults.size(), kMostGridFaults);
        for (const GridFault& fault : grid.faults)
            EXPECT_THAT(fault.drawing, HasSubstr("^^"));
    }
}

// To the system a name ends there: another file would be opened than the one that is written.
TEST(HostileText, ACharacterOfValueZeroIsRefusedInKeysAndStrings) {
    const ReadResult string = read(R"("run": {"data": "sample.txt\u0000x"},)");
    ASSERT_FALSE(string.errors.empty());
    EXPECT_EQ(string.errors[0].code, "S006");
    EXPECT_EQ(string.errors[0].pointer, "/run/data");
    EXPECT_EQ(string.errors[0].value, R"("sample.txt\u0000x")");
    const ReadResult key = read(R"("a\u0000b": 1,)");
    ASSERT_FALSE(key.errors.empty());
    EXPECT_EQ(key.errors[0].code, "S006");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
