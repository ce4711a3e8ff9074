// Every message about a bad scenario, to the byte: tests/golden/errors/NAME.json is read (with the
// --set lines of NAME.set, where there is one) and must give NAME.txt.
// ORRERY_REGENERATE=1 rewrites the expected files; read the difference before committing it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "plan/scenario/reader.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(ORRERY_SOURCE_DIR) / "tests/golden/errors";

std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
}

std::vector<std::string> lines(const fs::path& path) {
    std::vector<std::string> out;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        out.push_back(line);
    return out;
}

std::vector<std::string> names() {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(kGolden)) {
        if (entry.path().extension() == ".json") out.push_back(entry.path().stem().string());
    }
    std::sort(out.begin(), out.end());
    return out;
}

ReadResult read(const std::string& name) {
    return read_scenario_text(content(kGolden / (name + ".json")), name + ".json", kGolden.string(),
                              lines(kGolden / (name + ".set")), (kGolden / "library").string());
}

bool regenerating() {
    const char* wish = std::getenv("ORRERY_REGENERATE");
    return wish != nullptr && std::string(wish) == "1";
}

class Errors : public testing::TestWithParam<std::string> {};

TEST_P(Errors, MessageIsAsPublished) {
    const ReadResult result = read(GetParam());
    EXPECT_FALSE(result.scenario.has_value());
    EXPECT_TRUE(result.resolved_json.empty());
    const fs::path expected = kGolden / (GetParam() + ".txt");
    const std::string text = format_text(result.errors);
    if (regenerating()) std::ofstream(expected, std::ios::binary) << text;
    EXPECT_EQ(text, content(expected));
}

// S001, S002 and S026 are about files, exit code 5; all others about values, exit code 3.
TEST_P(Errors, UnreadableExactlyWhenAFileIsAtFault) {
    const ReadResult result = read(GetParam());
    const std::set<std::string> of_files = {"S001", "S002", "S026"};
    const bool file =
        std::any_of(result.errors.begin(), result.errors.end(),
                    [&](const Diagnostic& fault) { return of_files.count(fault.code) != 0; });
    EXPECT_EQ(result.unreadable, file);
}

INSTANTIATE_TEST_SUITE_P(Golden, Errors, testing::ValuesIn(names()),
                         [](const auto& tested) { return tested.param; });

TEST(ErrorsPage, ListsEveryCodeThatAMessageHas) {
    const std::string page = content(fs::path(ORRERY_SOURCE_DIR) / "docs/errors.md");
    for (const std::string& name : names()) {
        for (const Diagnostic& fault : read(name).errors) {
            EXPECT_NE(page.find("| " + fault.code + " |"), std::string::npos) << fault.code;
        }
    }
}

// Qwen3-235B's record of 131,072 tokens in context groups of 8: a rank has an eighth of them.
TEST(SizeRules, CountARanksPartOfTheContext) {
    const auto errors = [](int context) {
        const std::string scenario =
            R"({"model": {"model_type": "megatron", "num_layers": 8, "hidden_size": 65536,
                "num_attention_heads": 512, "vocab_size": 1000, "max_position_embeddings": 33554432,
                "position_embedding_type": "rope"},
                "cluster": {"nodes": 64, "devices_per_node": 8, "device": "h100-sxm"},
                "layout": {"context_parallel": )" +
            std::to_string(context) +
            R"(, "data_parallel": 1, "global_batch_size": 1},
                "training": {"sequence_length": 33554432, "attention_kernel": "flash"}})";
        std::string codes;
        for (const Diagnostic& fault :
             read_scenario_text(scenario, "long.json", "", {}, (kGolden / "library").string())
                 .errors)
            if (fault.code == "S030") codes += fault.message;
        return codes;
    };
    // 33,554,432 tokens · 8 layers · at least (16 + 6·3) · 65,536 elements: 6·10^14.
    EXPECT_EQ(errors(1), "larger activations than can be counted");
    EXPECT_EQ(errors(64), "");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
