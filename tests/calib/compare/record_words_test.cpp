// Facts are read by meaning: the words of records, however spelled, and numbers as people write
// them.
#include "calib/compare/record_words.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>

#include "calib/compare/record_fabric.hpp"
#include "calib/compare/validate.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

json json_of(const std::string& path) {
    std::ifstream file(kLibrary + path);
    return json::parse(file);
}

const json& rules() {
    static const json rules = json_of("/validation/rules.json");
    return rules;
}

TEST(Words, AreTheSameButForCaseSpacesAndPunctuation) {
    EXPECT_TRUE(same_word("NVIDIA A100-SXM4-80GB", "nvidia_a100 sxm4 80 GB"));
    EXPECT_FALSE(same_word("a100-80gb-sxm", "a100-40gb-sxm"));
    EXPECT_TRUE(holds_words("dgx_h100 (8 x)", "DGX-H100"));
    EXPECT_TRUE(holds_words("GB200 NVL72", "NVL72"));
    EXPECT_FALSE(holds_words("videos", "Eos"));  // not from the start of a word
    EXPECT_FALSE(holds_words("(release 25.04.1)", "(release 25.04)"));
}

TEST(Words, OfNumbersAreNumbers) {
    const struct {
        const char* text;
        double thousand;
        std::optional<double> number;
    } cases[] = {
        {"2,048", 1000, 2048},
        {"~ 2048", 1000, 2048},
        {"1_000_000", 1000, 1e6},
        {"8/3", 1000, 8.0 / 3},
        {"1.5k", 1000, 1500},
        {"4k", 1024, 4096},
        {"1M", 1000, 1e6},
        {"-1", 1000, -1},
        {"12,34", 1000, std::nullopt},
        {"1/0", 1000, std::nullopt},
        {"k", 1000, std::nullopt},
        {"", 1000, std::nullopt},
        {"1e3", 1000, std::nullopt},
        {"nan", 1000, std::nullopt},
        {"4 nodes", 1000, std::nullopt},
    };
    for (const auto& c : cases)
        EXPECT_EQ(number_in(c.text, c.thousand), c.number) << c.text;
}

// Every spelling that the rules list leads to its own word and to no other's.
TEST(Words, OfTheRulesNameOneThingEach) {
    for (const auto& [path, words] : rules().at("words").items())
        for (const auto& [word, spellings] : words.items())
            for (const json& spelling : spellings)
                for (const auto& [other, others] : words.items()) {
                    if (other == word) continue;
                    EXPECT_FALSE(same_word(spelling, other)) << path << ": " << spelling;
                    for (const json& one : others)
                        EXPECT_FALSE(same_word(spelling, one)) << path << ": " << spelling;
                }
}

TEST(Words, OfFabricsSayAdaptersAndSpeeds) {
    const struct {
        const char* text;
        const char* kind;
        std::int64_t nics;
        double Gbps;
    } cases[] = {
        {"JUWELS Booster: 4x HDR200 InfiniBand per node", "infiniband", 4, 200},
        {"8x IB NDR", "infiniband", 8, 400},
        {"NVLink4; 2x HDR100, dragonfly", "infiniband", 2, 100},
        {"8 x 400 Gb/s", "infiniband", 8, 400},
        {"Omni-Path 4x100 Gb/s per node", "omni_path", 4, 100},
        {"GPUDirect-TCPX 4x 200 Gb/s", "ethernet", 4, 200},
        {"RoCE, 200 Gb/s per GPU", "roce", 8, 200},
    };
    for (const auto& c : cases) {
        const std::optional<Fabric> fabric = read_fabric(c.text, 8);
        ASSERT_TRUE(fabric) << c.text;
        EXPECT_EQ(fabric->kind, c.kind) << c.text;
        EXPECT_EQ(fabric->nics_per_node, c.nics) << c.text;
        EXPECT_EQ(fabric->bandwidth_Gbps, c.Gbps) << c.text;
    }
    for (const char* text : {"InfiniBand", "InfiniBand 200 Gb/s (per port or node not said)",
                             "8x A100-80GB SXM4 400 W, NVLink", "carrier pigeons", ""})
        EXPECT_FALSE(read_fabric(text, 8)) << text;
}

TEST(Words, OfRatiosMakeTheWidthOfAnMlp) {
    json record = json_of("/published/megatron-2021.json").front();
    record["model"].erase("ffn_hidden");
    const auto width = [&](const char* ratio) {
        record["model"]["mlp_ratio"] = ratio;
        return translate(record, rules(), Fitted::all_sources).model.ffn_hidden;
    };
    const auto hidden = record["model"]["hidden"].get<std::int64_t>();
    EXPECT_EQ(width("4"), 4 * hidden);
    ASSERT_EQ(hidden % 3, 0);
    EXPECT_EQ(width("8/3"), hidden / 3 * 8);
    EXPECT_EQ(width("2.7"), (hidden * 27 + 2559) / 2560 * 256);  // up to a multiple of 256

    record["model"].erase("mlp_ratio");
    record["model"]["hidden"] = 512;
    record["model"]["ffn_hidden"] = "megatron default int((4*h*2/3)/64)*64";
    EXPECT_EQ(translate(record, rules(), Fitted::all_sources).model.ffn_hidden,
              static_cast<int>(4 * 512 * 2 / 3.0 / 64) * 64);
}

// --- a record as another author would have written it

std::string loud(std::string text) {
    for (char& c : text) {
        c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        if (c == '-' || c == '_') c = ' ';
    }
    return text;
}

// 2048 as "2,048"; what is small stays.
std::string with_commas(std::int64_t number) {
    std::string digits = std::to_string(number);
    for (std::size_t i = digits.size(); i > 3; i -= 3)
        digits.insert(i - 3, ",");
    return digits;
}

// A synonym where the rules know one, by turns; another case and other hyphens where not.
void garble(json& value, const std::string& path, std::size_t turn) {
    if (value.is_number_integer()) value = with_commas(value.get<std::int64_t>());
    if (!value.is_string()) return;
    const std::string word = value.get<std::string>();
    const json& words = rules().at("words");
    if (words.contains(path) && words.at(path).contains(word) && !words.at(path).at(word).empty()) {
        const json& spellings = words.at(path).at(word);
        value = spellings.at(turn % spellings.size());
    }
    value = loud(value.get<std::string>());
}

json garbled(json record, std::size_t turn) {
    for (const char* key : {"gpu", "gpus", "gpus_per_node", "interconnect", "source", "notes"})
        if (record.contains(key)) garble(record[key], std::string("/") + key, turn);
    for (const char* part : {"model", "layout"})
        for (auto& [key, value] : record[part].items())
            garble(value, std::string("/") + part + "/" + key, turn);
    return record;
}

// What decides whether a row is predicted, and as what, is the scenario it amounts to: the same as
// before, for every published record, under three garblings.
TEST(Words, GarbledBySynonymsPredictTheSameRuns) {
    std::size_t predicted = 0;
    for (const char* file : {"aleph-alpha-2023", "llm-foundry", "megatron-2020", "megatron-2021",
                             "nvidia-dgxc", "torchtitan", "vtrain-multi-node", "zero-bubble"}) {
        const json records = json_of(std::string("/published/") + file + ".json");
        for (const json& record : records)
            for (std::size_t turn = 0; turn < 3; ++turn) {
                const Translation before = translate(record, rules(), Fitted::all_sources);
                const json spelled = garbled(record, turn);
                ASSERT_NE(spelled, record);
                const Translation after = translate(spelled, rules(), Fitted::all_sources);
                EXPECT_EQ(after.scenario_json, before.scenario_json)
                    << record.at("id") << ": " << after.why;
                predicted += before.scenario_json.empty() ? 0 : 1;
            }
    }
    EXPECT_GT(predicted, 1000u);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
