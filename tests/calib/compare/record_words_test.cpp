// Facts are read by meaning: the words of records, however spelled, and numbers as people write
// them.
#include "calib/compare/record_words.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "calib/compare/record_fabric.hpp"
#include "calib/compare/record_rules.hpp"
#include "calib/compare/record_slice.hpp"
#include "calib/compare/validate.hpp"
#include "tests/calib/compare/library_records.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

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
        {"one InfiniBand EDR adapter of 100 Gb/s per node", "infiniband", 1, 100},
        {"NVLink; a single HDR adapter", "infiniband", 1, 200},
        {"one HDR adapter per GPU", "infiniband", 8, 200},
        {"two RoCE adapters of 200 Gb/s", "roce", 2, 200},
        {"EFA, 3,200 Gb/s per node", "efa", 8, 400},
        {"RoCE, 1.6 Tb/s per host", "roce", 8, 200},
        {"EFA 400 Gb/s per node", "efa", 4, 100},
        {"NVLink 900 GB/s per GPU; RoCE, 100 Gb/s per GPU", "roce", 8, 100},
        {"ROCE, 200 GB/S PER GPU", "roce", 8, 200},
        {"8x ConnectX-7 NDR 400 Gb/s InfiniBand per node", "infiniband", 8, 400},
        {"4x Slingshot-11 200 Gb/s per node", "slingshot", 4, 200},
    };
    for (const auto& c : cases) {
        const std::optional<Fabric> fabric = read_fabric(c.text, 8);
        ASSERT_TRUE(fabric) << c.text;
        EXPECT_EQ(fabric->kind, c.kind) << c.text;
        EXPECT_EQ(fabric->nics_per_node, c.nics) << c.text;
        EXPECT_EQ(fabric->bandwidth_Gbps, c.Gbps) << c.text;
    }
    for (const char* text : {"InfiniBand", "InfiniBand 200 Gb/s (per port or node not said)",
                             "8x A100-80GB SXM4 400 W, NVLink", "NVLink 900 GB/s per GPU",
                             "single node NVLink 400 GB/s",
                             "8x E810 (Columbiaville) 100 Gb/s per node", "carrier pigeons", ""})
        EXPECT_FALSE(read_fabric(text, 8)) << text;
}

// Which axes of a slice are rings: How To Scale Your Model, part 2.
TEST(Words, OfASliceSayItsTorus) {
    const json cubes = {{"axes", 3}, {"wraps", {{"multiples_of", 4}}}};
    const json dies = {{"axes", 3}, {"wraps", {{"multiples_of", 4}}}, {"devices_per_chip", 2}};
    const json plane = {{"axes", 2}, {"wraps", {{"from", 16}}}};
    const struct {
        json torus;
        const char* text;
        std::int64_t devices, first;
        std::vector<int> shape;
        std::vector<bool> wraps;
    } cases[] = {
        {cubes, "slice of 64 chips", 64, 1, {4, 4, 4}, {true, true, true}},
        {cubes, "", 128, 8, {8, 4, 4}, {true, true, true}},
        {cubes, "", 192, 1, {4, 4, 12}, {true, true, true}},
        {cubes, "", 32, 1, {2, 4, 4}, {false, false, false}},
        {plane, "", 256, 16, {16, 16}, {true, true}},
        {plane, "", 128, 16, {16, 8}, {true, false}},
        {plane, "", 8, 1, {2, 4}, {false, false}},
        {dies, "slice 4x4x8 of 128 chips", 256, 1, {8, 4, 8}, {true, true, true}},
    };
    for (const auto& c : cases) {
        const json torus = torus_of_slice(c.torus, c.text, c.devices, c.first);
        EXPECT_EQ(torus.at("shape"), json(c.shape)) << c.devices;
        EXPECT_EQ(torus.at("wraparound"), json(c.wraps)) << c.devices;
    }
    EXPECT_EQ(chips_of_slice("TPU v4 pod slice of 192 chips, 3D torus ICI; 2 slice(s) joined"),
              192);
    EXPECT_EQ(chips_of_slice("TPU v5e pods of 256 chips, 2D torus ICI; 32 pod(s) joined"), 256);
    EXPECT_EQ(chips_of_slice("TPU v7x (Ironwood) slice 4x8x8 of 256 chips, 3D torus ICI"), 256);
    EXPECT_FALSE(chips_of_slice("TPU v6e pod, 2D torus ICI of 8 chips"));
}

// "lacks" holds of what is not stated, too.
TEST(Words, OfARuleMayBeLacking) {
    const json lacking = json::parse(
        R"({"facts": [{"when": [{"path": "/layout/words", "lacks": "minimal"}], "why": ""}]})");
    const auto holds = [&](const json& layout) {
        const json record = {{"layout", layout}};
        return RecordRules(lacking, record).first("facts") != nullptr;
    };
    EXPECT_TRUE(holds({{"words", "full"}}));
    EXPECT_TRUE(holds(json::object()));
    EXPECT_FALSE(holds({{"words", "remat_policy=minimal_flash"}}));
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

// FlashAttention 2 takes longer than the kernels that profiles of Hopper have (forward and 2.5
// times as many products backward at 333 and 318 TFLOP/s in place of 552 and 414), and no longer
// than those that profiles of Ampere have.
TEST(Words, OfAttentionSayWhatItTakes) {
    json record = json_of("/published/megatron-2021.json").front();
    record["layout"]["framework"] = "Megatron-LM core_v0.6.0";
    const auto factor = [&](const char* gpu, const char* attention) {
        record["gpu"] = gpu;
        record["layout"]["attention"] = attention;
        const Translation found = translate(record, rules(), Fitted::all_sources);
        EXPECT_FALSE(found.scenario_json.empty()) << found.why;
        return json::parse(found.scenario_json).at("training").value("attention_factor", 1.0);
    };
    const double slower = (1 / 333.0 + 2.5 / 318) / (1 / 552.0 + 2.5 / 414);
    for (const char* second : {"flash_attention2", "FlashAttention-2 (2.5.8)", "flash-attn 2"}) {
        EXPECT_NEAR(factor("h100-sxm", second), slower, 0.005) << second;
        EXPECT_NEAR(factor("h800", second), slower, 0.005) << second;
        EXPECT_EQ(factor("a100-80gb-sxm", second), 1) << second;
    }
    EXPECT_EQ(factor("h100-sxm", "cudnn_flash_te"), 1);
    EXPECT_EQ(factor("h100-sxm", "flash_attention"), 1);
}

// DeepSpeed of optimum-habana reduces gradients behind backward below ZeRO-3.
TEST(Words, OfAStackSayWhatOverlaps) {
    json record = json_of("/published/megatron-2021.json").front();
    const auto overlaps = [&](const char* framework, int zero_stage) {
        record["layout"]["framework"] = framework;
        record["layout"]["zero_stage"] = zero_stage;
        const Translation found = translate(record, rules(), Fitted::all_sources);
        EXPECT_FALSE(found.scenario_json.empty()) << found.why;
        return json::parse(found.scenario_json)
            .at("training")
            .value("overlap_gradient_reduce", true);
    };
    EXPECT_FALSE(overlaps("optimum-habana (HF Trainer, DeepSpeed)", 1));
    EXPECT_FALSE(overlaps("optimum-habana (HF Trainer, DeepSpeed)", 2));
    EXPECT_TRUE(overlaps("optimum-habana (HF Trainer, DeepSpeed)", 3));
    EXPECT_TRUE(overlaps("optimum-habana (HF Trainer, DDP)", 1));
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
