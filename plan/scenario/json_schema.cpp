// The schema of scenarios as a JSON Schema.
#include "plan/scenario/json_schema.hpp"

#include <fmt/format.h>

#include "plan/scenario/json_text.hpp"
#include "plan/scenario/schema.hpp"

namespace orrery::plan {
namespace {

Json object_of(const std::vector<KeySpec>& keys, bool open, const Json* besides);

Json words_of(const std::vector<std::string_view>& words) {
    Json out = Json::array();
    for (const std::string_view word : words)
        out.push_back(word);
    return {{"enum", std::move(out)}};
}

Json whole_number(const IntegerRange& range) {
    return {{"type", "integer"}, {"minimum", range.min}, {"maximum", range.max}};
}

Json number_in(const NumberRange& range) {
    Json out = {{"type", "number"},
                {range.open_min ? "exclusiveMinimum" : "minimum", plain(range.min)}};
    if (range.max < kLargestNumber)
        out[range.open_max ? "exclusiveMaximum" : "maximum"] = plain(range.max);
    return out;
}

Json entries_of(const KeySpec& key) {
    if (!key.keys.empty()) {
        Json object = object_of(key.keys, key.open, nullptr);
        if (key.of != KeyType::text) return object;
        return {{"anyOf", Json::array({{{"type", "string"}}, std::move(object)})}};
    }
    switch (key.of) {
        case KeyType::whole_number:
            return {{"type", "integer"}, {"minimum", 0}};
        case KeyType::word:
            return words_of(key.words);
        case KeyType::text:
            return {{"type", "string"}};
        case KeyType::flag:
            return {{"type", "boolean"}};
        case KeyType::number:
        case KeyType::object:
        case KeyType::list:
        case KeyType::any:
            return Json::object();
    }
    return Json::object();
}

Json value_of(const KeySpec& key) {
    switch (key.type) {
        case KeyType::whole_number:
            return whole_number(key.integers);
        case KeyType::number:
            return number_in(key.numbers);
        case KeyType::flag:
            return {{"type", "boolean"}};
        case KeyType::text: {
            Json out = {{"type", "string"}};
            if (key.required || key.non_empty) out["minLength"] = 1;
            return out;
        }
        case KeyType::word:
            return words_of(key.words);
        case KeyType::object:
            return object_of(key.keys, key.open, nullptr);
        case KeyType::list:
            return {{"type", "array"}, {"items", entries_of(key)}};
        case KeyType::any:
            return Json::object();
    }
    return Json::object();
}

// What may stand at a key, each on its own; `besides`, where it is not null, may at any.
Json alternatives(const KeySpec& key, const Json* besides) {
    Json all = Json::array({value_of(key)});
    const bool of_entries = key.type == KeyType::list && key.of == KeyType::word;
    if (key.type != KeyType::word && !of_entries)
        for (const std::string_view word : key.words)
            all.push_back({{"const", word}});
    if (key.type != KeyType::object && key.type != KeyType::list && !key.keys.empty())
        all.push_back(object_of(key.keys, key.open, nullptr));
    if (besides != nullptr) all.push_back(*besides);
    if (all.size() == 1) return all[0];
    return {{"anyOf", std::move(all)}};
}

std::string description(const KeySpec& key) {
    std::string text(key.help);
    if (!key.unit.empty()) text += fmt::format(" [{}]", key.unit);
    if (!key.where.empty()) text += fmt::format("; {}", key.where);
    return text;
}

Json object_of(const std::vector<KeySpec>& keys, bool open, const Json* besides) {
    Json properties = Json::object();
    Json required = Json::array();
    for (const KeySpec& key : keys) {
        Json value = alternatives(key, besides);
        if (const std::string text = description(key); !text.empty()) value["description"] = text;
        if (!key.initial.empty()) value["default"] = Json::parse(key.initial);
        properties[std::string(key.name)] = std::move(value);
        if (key.required && key.where.empty()) required.push_back(key.name);
    }
    Json out = {{"type", "object"}, {"properties", std::move(properties)}};
    if (!required.empty()) out["required"] = std::move(required);
    out["additionalProperties"] = open;
    return out;
}

Json schema_of(const std::vector<KeySpec>& keys, const std::string& title,
               const std::string& description) {
    Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                {"title", title},
                {"description", description}};
    out.update(object_of(keys, false, nullptr));
    return out;
}

}  // namespace

std::string json_schema() {
    Json out = schema_of(scenario_schema(), "Orrery scenario",
                         "A model, a cluster, a layout and a training run.");
    // A search settles what is left to it.
    const Json left = {{"const", "auto"}, {"description", "left to orrery search"}};
    out["properties"]["layout"].update(object_of(key_at("layout")->keys, false, &left));
    return out.dump(2) + '\n';
}

std::string json_schema_of(const std::vector<KeySpec>& keys, const std::string& title,
                           const std::string& description) {
    return schema_of(keys, title, description).dump(2) + '\n';
}

}  // namespace orrery::plan
