// Where values of a JSON text stand, and what changes when one is set.
#include "gui/scenario/json_places.hpp"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gui/scenario/offers.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

const std::string kText = R"({
  "model": "gpt",
  "layout": { "tensor_parallel": 8, "odd/key~": [1, {"x": "a\"b"}] },
  "empty": {}
})";

std::string at(const std::string& text, const std::string& pointer) {
    const auto places = json_places(text);
    const auto found = places.find(pointer);
    if (found == places.end()) return "nothing";
    return text.substr(found->second.begin, found->second.end - found->second.begin);
}

// Every value of the parsed text is where its place says.
TEST(JsonPlaces, EveryValueIsFoundByItsPointer) {
    const auto flat = nlohmann::json::parse(kText).flatten();
    for (const auto& [pointer, value] : flat.items())
        EXPECT_EQ(nlohmann::json::parse(at(kText, pointer)).flatten(), value.flatten()) << pointer;
    EXPECT_EQ(at(kText, "/layout/odd~1key~0/1/x"), R"("a\"b")");
    EXPECT_EQ(at(kText, ""), kText);
}

TEST(JsonPlaces, WhatStandsBeforeAFaultIsFound) {
    const std::string broken = R"({"a": 1, "b": {"c": 2, )";
    EXPECT_EQ(at(broken, "/a"), "1");
    EXPECT_EQ(at(broken, "/b/c"), "2");
    EXPECT_EQ(at(broken, "/b"), "nothing");
    EXPECT_FALSE(nearest_place("", "/a"));
    const auto around = nearest_place(kText, "/layout/pipeline_parallel");
    ASSERT_TRUE(around);
    EXPECT_EQ(around->begin, kText.find("{ \"tensor"));
}

// The rest of the text stays as a person wrote it, byte by byte.
TEST(JsonPlaces, ASettingChangesOneValue) {
    std::string expected = kText;
    expected.replace(expected.find("8,"), 1, "16");
    EXPECT_EQ(with_setting(kText, "layout.tensor_parallel", "16"), expected);
    expected = kText;
    expected.replace(expected.find("\"gpt\""), 5, "\"llama\"");
    EXPECT_EQ(with_setting(kText, "model", "llama"), expected);
}

TEST(JsonPlaces, ANewKeyComesBehindTheOthers) {
    for (const char* key : {"layout.schedule", "empty.a", "training.optimizer.kind", "run"}) {
        const auto changed = with_setting(kText, key, "gpipe");
        ASSERT_TRUE(changed) << key;
        nlohmann::json expected = nlohmann::json::parse(kText);
        std::string pointer = std::string("/") + key;
        std::replace(pointer.begin(), pointer.end(), '.', '/');
        expected[nlohmann::json::json_pointer(pointer)] = "gpipe";
        EXPECT_EQ(nlohmann::json::parse(*changed), expected) << *changed;
    }
}

TEST(JsonPlaces, NothingIsSetWithinAReference) {
    EXPECT_FALSE(with_setting(kText, "model.layers", "4"));
    EXPECT_FALSE(with_setting("{", "model", "4"));
}

plan::Diagnostic diagnostic(const std::string& code, const std::string& pointer,
                            const std::string& value, const std::vector<std::string>& help) {
    plan::Diagnostic made;
    made.code = code;
    made.file = "f";
    made.pointer = pointer;
    made.value = value;
    made.help = help;
    return made;
}

// A reader for which layout.p divides 96.
std::vector<plan::Diagnostic> divides(const std::string& text) {
    const auto json = nlohmann::json::parse(text);
    const int p = json["layout"]["p"];
    if (p > 0 && 96 % p == 0) return {};
    return {
        diagnostic("S012", "/layout/p", std::to_string(p), {"p: 1, 2, 5, 6, 8 or 12 with v 1"})};
}

TEST(Offers, TheNearestValuesThatTheReaderAcceptsComeFirst) {
    const std::string text = R"({"layout": {"p": 7}})";
    const auto offers = offers_for(text, "f", divides(text), divides);
    ASSERT_EQ(offers.size(), 1U);
    std::vector<std::string> labels;
    for (const Offer& offer : offers[0])
        labels.push_back(offer.label);
    EXPECT_EQ(labels, (std::vector<std::string>{"p: 6", "p: 8", "p: 2"}));  // 5 is refused
    EXPECT_EQ(offers[0][0].text, R"({"layout": {"p": 6}})");
}

TEST(Offers, AnUnknownKeyIsRenamedAndNothingElse) {
    const std::string text = R"({"layout": {"q" : 7}})";
    const auto read = [](const std::string& changed) {
        if (nlohmann::json::parse(changed)["layout"].contains("p"))
            return std::vector<plan::Diagnostic>{};
        return std::vector{diagnostic("S004", "/layout/q", "7", {"did you mean \"p\"?"})};
    };
    const auto offers = offers_for(text, "f", read(text), read);
    ASSERT_EQ(offers[0].size(), 1U);
    EXPECT_EQ(offers[0][0].text, R"({"layout": {"p" : 7}})");
}

TEST(Offers, WhatBringsAnotherErrorIsNotOffered) {
    const std::string text = R"({"layout": {"p": 7}})";
    const auto read = [](const std::string& changed) {
        if (changed.find("7") != std::string::npos) return divides(changed);
        return std::vector{diagnostic("S015", "/layout", "", {})};
    };
    EXPECT_TRUE(offers_for(text, "f", read(text), read)[0].empty());
}

TEST(JsonPlaces, AReferenceGivesWayToItsContent) {
    const auto read = [](const std::string& reference) -> std::optional<std::string> {
        if (reference != "c.json") return std::nullopt;
        return R"({"nodes": 2, "device": "x"})";
    };
    const std::string text = R"({
  "cluster": "c.json",
  "model": "m.json"
})";
    EXPECT_EQ(with_setting(text, "cluster.nodes", "4"), std::nullopt);
    const auto whole = with_content_of_reference(text, "cluster.nodes", read);
    ASSERT_TRUE(whole);
    EXPECT_EQ(*whole, R"({
  "cluster": {
    "nodes": 2,
    "device": "x"
  },
  "model": "m.json"
})");
    EXPECT_TRUE(with_setting(*whole, "cluster.nodes", "4"));
    // No such file; no reference; the reference itself.
    EXPECT_FALSE(with_content_of_reference(text, "model.layers", read));
    EXPECT_FALSE(with_content_of_reference(*whole, "cluster.nodes", read));
    EXPECT_FALSE(with_content_of_reference(text, "cluster", read));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
