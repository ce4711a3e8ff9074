// Of every shipped run: each key that its files give, set to other valid values, changes a figure
// of the report, or the report lists it as unused; and what is listed changes nothing. Runs of more
// than one node take minutes: `./orrery test --nightly`, which sets ORRERY_EVERY_RUN, has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/report.hpp"
#include "plan/scenario/reader.hpp"

namespace orrery::property {
namespace ORRERY_TEST_FILE {

using Json = nlohmann::json;

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

std::vector<std::string> shipped_runs() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(kLibrary + "/runs"))
        if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

plan::ReadResult read(const std::string& run, const std::vector<std::string>& sets) {
    return plan::read_scenario(kLibrary + "/runs/" + run + ".json", sets, kLibrary);
}

// Every figure that is printed; the scenario itself, which repeats the keys, is none.
Json figures(const plan::ReadResult& read) {
    const sim::Profile profile = sim::load_profiles(read.scenario->cluster);
    const sim::Prediction prediction =
        sim::simulate(*read.scenario, profile, {false, nullptr, false}, "");
    const cli::ScenarioInput arguments;
    Json json = Json::parse(
        cli::report_json({*read.scenario, profile, prediction, arguments, read.resolved_json}));
    json.erase("scenario");
    return json;
}

std::string set_of(const std::string& pointer, const Json& value) {
    std::string key = pointer.substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    return key + '=' + value.dump();
}

// The words that the reader itself says it knows for a key.
std::vector<Json> known_words(const std::string& run, const std::string& pointer) {
    std::vector<Json> words;
    for (const plan::Diagnostic& fault : read(run, {set_of(pointer, "no such word")}).errors)
        for (const std::string& help : fault.help) {
            if (help.rfind("known: ", 0) != 0) continue;
            const Json known = Json::parse('[' + help.substr(7) + ']', nullptr, false);
            if (known.is_array()) words.insert(words.end(), known.begin(), known.end());
        }
    return words;
}

// Whether they are valid is for the reader to say.
std::vector<Json> other_values(const std::string& run, const std::string& pointer,
                               const Json& value) {
    std::vector<Json> others;
    if (value.is_boolean()) {
        others = {!value.get<bool>()};
    } else if (value.is_number_integer()) {
        const auto number = value.get<std::int64_t>();
        others = {number * 2, number / 2, number + 1, 0};
    } else if (value.is_number()) {
        const double number = value.get<double>();
        others = {number * 2, number / 2, number + 1, 0};
    } else if (value.is_string()) {
        others = known_words(run, pointer);
    }
    others.erase(std::remove(others.begin(), others.end(), value), others.end());
    return others;
}

class KeysOfARun : public testing::TestWithParam<std::string> {};

TEST_P(KeysOfARun, ChangeAFigureOrAreListedAsUnused) {
    const std::string run = GetParam();
    const plan::ReadResult usual = read(run, {});
    ASSERT_TRUE(usual.scenario) << plan::format_text(usual.errors);
    if (usual.scenario->cluster.nodes > 1 && std::getenv("ORRERY_EVERY_RUN") == nullptr)
        GTEST_SKIP() << "several nodes: in ./orrery test --nightly";
    const Json expected = figures(usual);
    const sim::Profile profile = sim::load_profiles(usual.scenario->cluster);
    const sim::Prediction prediction =
        sim::simulate(*usual.scenario, profile, {false, nullptr, false}, "");
    std::set<std::string> unused;
    for (const sim::UnusedKey& key : sim::unused_keys(usual, prediction))
        unused.insert(key.pointer);
    const Json resolved = Json::parse(usual.resolved_json);
    std::size_t changed = 0;
    for (const std::string& pointer : usual.given) {
        const Json::json_pointer where(pointer);
        if (!resolved.contains(where)) continue;
        const bool listed = unused.count(pointer) != 0;
        bool valid = false, moved = false;
        for (const Json& other : other_values(run, pointer, resolved.at(where))) {
            const plan::ReadResult perturbed = read(run, {set_of(pointer, other)});
            if (!perturbed.scenario) continue;
            valid = true;
            moved = figures(perturbed) != expected;
            EXPECT_FALSE(moved && listed) << pointer << " is listed, yet " << other << " counts";
            if (moved) break;
        }
        EXPECT_TRUE(!valid || listed || moved) << pointer << " changes nothing and is not listed";
        changed += moved ? 1 : 0;
    }
    EXPECT_GE(changed, 10u);  // the batch, the model's sizes, the links: the property is not idle
    EXPECT_FALSE(unused.empty());
}

// Only tensor ranks that share out the tokens gather what they multiply.
TEST(UnusedKey, IsHowGatheredInputsWaitWhereNoneAreGathered) {
    const auto lists = [](const char* sequence_parallel) {
        const plan::ReadResult asked =
            read("tiny-gpt", {"training.gathered_inputs=kept",
                              std::string("layout.sequence_parallel=") + sequence_parallel});
        const sim::Prediction prediction =
            sim::simulate(*asked.scenario, sim::load_profiles(asked.scenario->cluster),
                          {false, nullptr, false}, "");
        const std::vector<sim::UnusedKey> unused = sim::unused_keys(asked, prediction);
        return std::any_of(unused.begin(), unused.end(), [](const sim::UnusedKey& key) {
            return key.pointer == "/training/gathered_inputs";
        });
    };
    EXPECT_TRUE(lists("false"));
    EXPECT_FALSE(lists("true"));
}

INSTANTIATE_TEST_SUITE_P(Shipped, KeysOfARun, testing::ValuesIn(shipped_runs()),
                         [](const testing::TestParamInfo<std::string>& run) {
                             std::string name = run.param;
                             std::replace_if(
                                 name.begin(), name.end(),
                                 [](char c) { return c == '-' || c == '.'; }, '_');
                             return name;
                         });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::property
