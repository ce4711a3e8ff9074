// The schema is what readers do: a key takes what its declaration says and nothing else, an absent
// one means its default, and docs/scenario.md is what the declarations say.
// ORRERY_REGENERATE=1 writes that page anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "plan/scenario/json_text.hpp"
#include "plan/scenario/reader.hpp"
#include "plan/scenario/schema.hpp"
#include "plan/scenario/suggest.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

Json least_scenario() {
    return {{"model", "models/tiny-gpt.json"},
            {"cluster", "clusters/cpu-8.json"},
            {"layout", {{"global_batch_size", 8}}},
            {"training", {{"sequence_length", 64}}}};
}

ReadResult read(const Json& scenario) {
    return read_scenario_text(scenario.dump(), "s.json", ".", {}, ORRERY_SOURCE_DIR "/scenarios");
}

Json sample(const KeySpec& key);

// With what it must have.
Json least_object(const KeySpec& key) {
    Json out = Json::object();
    for (const KeySpec& below : key.keys)
        if (below.required && below.where.empty()) out[std::string(below.name)] = sample(below);
    return out;
}

// Something that may stand there.
Json sample(const KeySpec& key) {
    switch (key.type) {
        case KeyType::whole_number:
            return key.integers.min;
        case KeyType::number:
            return key.numbers.open_min ? (key.numbers.min + std::min(key.numbers.max, 10.0)) / 2
                                        : key.numbers.min;
        case KeyType::flag:
            return true;
        case KeyType::text:
            return "some text";
        case KeyType::word:
            return key.words.front();
        case KeyType::object:
            return least_object(key);
        case KeyType::list:
            return Json::array();
        case KeyType::any:
            return "a note";
    }
    return nullptr;
}

struct Place {
    std::string path, pointer;
    const KeySpec* key = nullptr;
    Json scenario;  // in which the key may be set
};

// Every key that a scenario can be given as it is: not those of models, of a preset's object, or of
// the entries of a list.
std::vector<Place> places() {
    std::vector<Place> all;
    for_each_key(scenario_schema(), "", [&](const std::string& path, const KeySpec& key) {
        if (path.find('.') == std::string::npos || path.find("[]") != std::string::npos ||
            path.starts_with("model.") || path.starts_with("training.framework."))
            return;
        Place place{path, "", &key, least_scenario()};
        if (path.starts_with("cluster.")) {
            std::ifstream file(ORRERY_SOURCE_DIR "/scenarios/clusters/cpu-8.json");
            place.scenario["cluster"] = Json::parse(file);
        }
        Json* at = &place.scenario;
        std::string above;
        for (std::size_t start = 0, dot = path.find('.'); dot != std::string::npos;
             start = dot + 1, dot = path.find('.', start)) {
            const std::string name = path.substr(start, dot - start);
            above += (above.empty() ? "" : ".") + name;
            place.pointer += '/' + name;
            at = &(*at)[name];
            if (!at->is_object()) *at = least_object(*key_at(above));
        }
        place.pointer += '/' + std::string(key.name);
        all.push_back(std::move(place));
    });
    return all;
}

void set(Place& place, Json value) {
    place.scenario[Json::json_pointer(place.pointer)] = std::move(value);
}

// Of what is wrong at this very place.
std::set<std::string> codes_at(const Place& place) {
    std::set<std::string> codes;
    for (const Diagnostic& fault : read(place.scenario).errors)
        if (fault.pointer == place.pointer) codes.insert(fault.code);
    return codes;
}

bool is_of_form(const std::string& code) {
    return code == "S004" || code == "S006" || code == "S007" || code == "S008";
}

// The values at the ends of what is allowed, all words, and what may stand in the place of either.
std::vector<Json> allowed(const KeySpec& key) {
    std::vector<Json> values = {sample(key)};
    if (key.type == KeyType::whole_number) values.emplace_back(key.integers.max);
    if (key.type == KeyType::number && !key.numbers.open_max) values.emplace_back(key.numbers.max);
    if (key.type == KeyType::flag) values.emplace_back(false);
    if (key.type == KeyType::list && key.of == KeyType::word)
        values.push_back(Json::array({key.words.front()}));
    else
        for (const std::string_view word : key.words)
            values.emplace_back(word);
    return values;
}

TEST(Schema, AKeyTakesWhatItsDeclarationSays) {
    for (const Place& place : places()) {
        // A schedule is named by a word, a file, or its rows.
        if (!place.key->where.empty() || place.path == "layout.schedule") continue;
        for (const Json& value : allowed(*place.key)) {
            Place with = place;
            set(with, value);
            for (const std::string& code : codes_at(with))
                EXPECT_FALSE(is_of_form(code)) << place.path << " = " << value << ": " << code;
        }
    }
}

// What is beyond it, and by what code.
std::vector<std::pair<Json, std::string>> refused(const KeySpec& key) {
    std::vector<std::pair<Json, std::string>> values;
    const Json nothing = Json::array({Json::array()});
    switch (key.type) {
        case KeyType::whole_number:
            return {{key.integers.min - 1, "S007"},
                    {key.integers.max + 1, "S007"},
                    {0.5, "S006"},
                    {"many", "S006"},
                    {nothing, "S006"}};
        case KeyType::number:
            values = {{key.numbers.min - 1, "S007"}, {"many", "S006"}, {nothing, "S006"}};
            if (key.numbers.open_min) values.emplace_back(key.numbers.min, "S007");
            if (key.numbers.open_max) values.emplace_back(key.numbers.max, "S007");
            return values;
        case KeyType::flag:
            return {{1, "S006"}, {"yes", "S006"}};
        case KeyType::text:
            return {{1, "S006"}};
        case KeyType::word:
            return {{"no such word", "S008"}, {1, "S008"}};
        case KeyType::object:
        case KeyType::list:
            return {{1, "S006"}, {"no such word", "S006"}};
        case KeyType::any:
            return {};
    }
    return {};
}

TEST(Schema, AKeyTakesNothingElse) {
    for (const Place& place : places()) {
        if (!place.key->where.empty() || place.path == "layout.schedule") continue;
        for (const auto& [value, code] : refused(*place.key)) {
            Place with = place;
            set(with, value);
            const std::set<std::string> codes = codes_at(with);
            EXPECT_TRUE(codes.contains(code))
                << place.path << " = " << value << " is not refused by " << code;
        }
    }
}

TEST(Schema, AnAbsentKeyMeansItsDefault) {
    int told = 0;
    for (const Place& place : places()) {
        if (place.key->initial.empty() || !place.key->where.empty()) continue;
        Place with = place;
        set(with, Json::parse(place.key->initial));
        ReadResult said = read(with.scenario);
        Place without = place;
        const std::size_t end = place.pointer.rfind('/');
        without.scenario[Json::json_pointer(place.pointer.substr(0, end))].erase(
            std::string(place.key->name));
        const ReadResult unsaid = read(without.scenario);
        // What its object needs besides may not be there; then both lack it.
        EXPECT_EQ(said.errors.size(), unsaid.errors.size()) << place.path;
        if (!said.scenario || !unsaid.scenario) continue;
        // Only of a stack that nobody named it is told that it was assumed.
        if (place.path == "training.framework") said.scenario->training.framework.assumed = true;
        EXPECT_TRUE(*said.scenario == *unsaid.scenario) << place.path;
        ++told;
    }
    EXPECT_GE(told, 60);
}

TEST(Schema, WhatAnotherStackCallsAKeySuggestsIt) {
    for_each_key(scenario_schema(), "", [&](const std::string& path, const KeySpec& key) {
        if (path.find("[]") != std::string::npos) return;
        const std::size_t dot = path.rfind('.');
        std::vector<std::string> beside;
        const auto& keys =
            dot == std::string::npos ? scenario_schema() : key_at(path.substr(0, dot))->keys;
        for (const KeySpec& other : keys)
            beside.emplace_back(other.name);
        for (const std::string_view alias : key.aliases)
            EXPECT_EQ(nearest(alias, beside), key.name) << path << ", alias " << alias;
    });
}

TEST(Schema, EveryKeyHasHelpAndIsFoundByItsPath) {
    for_each_key(scenario_schema(), "", [&](const std::string& path, const KeySpec& key) {
        EXPECT_EQ(key_at(path), &key) << path;
        const bool constants_value = path.starts_with("training.framework.flags.");
        EXPECT_TRUE(constants_value || !key.help.empty()) << path;
        EXPECT_FALSE(key.help.ends_with('.')) << path;
    });
    EXPECT_EQ(key_at("layout.tensor_parallels"), nullptr);
    EXPECT_EQ(key_at("cluster.slow_devices[].factor")->numbers.max, 10);
}

TEST(Schema, TheJsonSchemaHasEveryKey) {
    const Json schema = Json::parse(json_schema());
    for_each_key(scenario_schema(), "", [&](const std::string& path, const KeySpec& key) {
        const Json* at = &schema;
        std::string rest = path;
        while (!rest.empty()) {
            const std::size_t dot = std::min(rest.find('.'), rest.size());
            std::string name = rest.substr(0, dot);
            const bool list = name.ends_with("[]");
            if (list) name.resize(name.size() - 2);
            rest.erase(0, std::min(dot + 1, rest.size()));
            // Where several things may stand, the one that has keys.
            const auto with_keys = [](const Json& value) -> const Json* {
                if (value.contains("properties") || value.contains("items")) return &value;
                if (!value.contains("anyOf")) return nullptr;
                for (const Json& each : value["anyOf"])
                    if (each.contains("properties") || each.contains("items")) return &each;
                return nullptr;
            };
            const Json& property = at->at("properties").at(name);
            if (rest.empty()) {
                EXPECT_TRUE(key.help.empty() || property.contains("description")) << path;
                break;
            }
            at = with_keys(property);
            ASSERT_NE(at, nullptr) << path;
            if (list) at = &at->at("items");
            if (list && at->contains("anyOf")) at = with_keys(*at);
            ASSERT_NE(at, nullptr) << path;
        }
    });
    EXPECT_EQ(schema["properties"]["layout"]["additionalProperties"], false);
    EXPECT_EQ(schema["required"], Json({"model", "cluster", "layout", "training"}));
}

std::string cell(std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
        text.insert(at, "\\");
    return text;
}

std::string default_text(const KeySpec& key) {
    if (key.required) return "required";
    return key.initial.empty() ? "" : '`' + key.initial + '`';
}

void write_table(const std::vector<KeySpec>& keys, std::string& page) {
    page += "| key | value | default | |\n|---|---|---|---|\n";
    for (const KeySpec& key : keys) {
        std::string help(key.help);
        if (!key.where.empty()) help += fmt::format("{}{}", help.empty() ? "" : "; ", key.where);
        page += fmt::format("| `{}` | {} | {} | {} |\n", key.name, cell(values_text(key)),
                            cell(default_text(key)), cell(help));
    }
}

void write_sections(const std::vector<KeySpec>& keys, const std::string& above, std::string& page) {
    for (const KeySpec& key : keys) {
        const std::string path =
            above.empty() ? std::string(key.name) : above + '.' + std::string(key.name);
        // Constants of a preset are those of training, each with its source.
        if (key.keys.empty() || path == "model" || path == "training.framework" ||
            path == "run.elastic_layouts")
            continue;
        if (path == "cluster.other_nodes") {
            page += fmt::format("\n## {}[]\n\n{}. As in `cluster`:", path, key.help);
            for (const KeySpec& same : key.keys)
                page += fmt::format("{} `{}`", &same == &key.keys.front() ? "" : ",", same.name);
            page += ".\n";
            continue;
        }
        page += fmt::format("\n## {}{}\n\n{}.\n\n", path, key.type == KeyType::list ? "[]" : "",
                            key.help);
        write_table(key.keys, page);
        write_sections(key.keys, path, page);
    }
}

std::string page() {
    std::string text =
        "# Scenarios\n"
        "\n"
        "Every key of a scenario, as readers declare it (`plan/scenario/schema.hpp`). `orrery "
        "schema` prints\n"
        "the same as a JSON Schema for editors (name it by `\"$schema\"`), `orrery schema KEY` one "
        "of them.\n"
        "`--set PATH=VALUE` changes any by its path. In `layout`, `\"auto\"` leaves a key to "
        "`orrery search`.\n"
        "Rules across keys are in [errors.md](errors.md), what keys do to a step in "
        "[model.md](model.md).\n"
        "\n"
        "## The top\n\n";
    write_table(scenario_schema(), text);
    text +=
        "\n## model\n"
        "\n"
        "The keys of a `config.json` of Hugging Face, by its family. Keys that change nothing here "
        "may stand\n"
        "beside them; one that would change the computation in a way that is not modelled is "
        "refused.\n\n";
    write_table(key_at("model")->keys, text);
    for (const std::string_view family : key_at("model.model_type")->words) {
        text += fmt::format("\n**{}**: ", family);
        std::string keys;
        for (const KeySpec& key : family_keys(family)) {
            if (key_at(fmt::format("model.{}", key.name)) != nullptr) continue;
            keys += fmt::format("{}`{}`{}", keys.empty() ? "" : ", ", key.name,
                                key.required          ? " (required)"
                                : key.initial.empty() ? ""
                                                      : fmt::format(" ({})", key.initial));
        }
        text += keys + ".\n";
    }
    write_sections(scenario_schema(), "", text);
    return text;
}

TEST(Schema, TheReferenceIsTheSchema) {
    const std::string path = ORRERY_SOURCE_DIR "/docs/scenario.md";
    const char* wish = std::getenv("ORRERY_REGENERATE");
    if (wish != nullptr && std::string(wish) == "1") {
        std::ofstream(path, std::ios::binary) << page();
        return;
    }
    std::ifstream file(path, std::ios::binary);
    const std::string written{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(written, page());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
