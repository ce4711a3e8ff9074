#include "plan/scenario/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

// Those that every family has; the others are family_keys().
std::vector<KeySpec> model_keys() {
    return {
        {.name = "model_type",
         .type = KeyType::word,
         .words = family_names(),
         .help = "The family, as Hugging Face calls it; what other keys there are depends on it",
         .required = true},
        {.name = "vocab_size",
         .type = KeyType::whole_number,
         .integers = kVocabularySizes,
         .unit = "tokens",
         .help = "Words of the vocabulary, before padding",
         .required = true},
        {.name = "name", .type = KeyType::text, .help = "What reports call it"}};
}

std::string shown(double value) {
    return plain(value).dump();
}

// For names and words that readers make as they go, on whatever threads.
std::string_view kept(std::string_view text) {
    static std::mutex one_at_a_time;
    static std::set<std::string, std::less<>> all;
    const std::lock_guard<std::mutex> held(one_at_a_time);
    return *all.emplace(text).first;
}

std::string quoted_words(const std::vector<std::string_view>& words, const char* last) {
    std::string out;
    for (std::size_t i = 0; i < words.size(); ++i)
        out += fmt::format("{}\"{}\"", i == 0 ? "" : i + 1 < words.size() ? ", " : last, words[i]);
    return out;
}

std::string range_text(const NumberRange& range) {
    const std::string low =
        fmt::format("{} {}", range.open_min ? "above" : "from", shown(range.min));
    if (range.max >= kLargestNumber) return low;
    return fmt::format("{} {} {}", low, range.open_max ? "to below" : "to", shown(range.max));
}

std::string entries_text(const KeySpec& key) {
    switch (key.of) {
        case KeyType::whole_number:
            return "list of whole numbers";
        case KeyType::flag:
            return "list of true or false";
        case KeyType::word:
            return "list of " + quoted_words(key.words, ", ");
        case KeyType::text:
            return key.keys.empty() ? "list of texts" : "list of texts or objects";
        default:
            return key.keys.empty() ? "list" : "list of objects";
    }
}

std::string type_text(const KeySpec& key) {
    switch (key.type) {
        case KeyType::whole_number:
            return key.integers.max >= kLargestCount
                       ? fmt::format("whole number from {}", key.integers.min)
                       : fmt::format("whole number from {} to {}", key.integers.min,
                                     key.integers.max);
        case KeyType::number:
            return "number " + range_text(key.numbers);
        case KeyType::flag:
            return "true or false";
        case KeyType::text:
            return "text";
        case KeyType::word:
            return quoted_words(key.words, " or ");
        case KeyType::object:
            return "object";
        case KeyType::list:
            return entries_text(key);
        case KeyType::any:
            return "anything";
    }
    return "";
}

}  // namespace

std::string values_text(const KeySpec& key) {
    std::string text = type_text(key);
    const bool of_entries = key.type == KeyType::list && key.of == KeyType::word;
    if (key.type != KeyType::word && !of_entries && !key.words.empty())
        text += ", or " + quoted_words(key.words, " or ");
    if (key.type != KeyType::object && key.type != KeyType::list && !key.keys.empty())
        text += ", or an object";
    if (!key.unit.empty()) text += fmt::format(" [{}]", key.unit);
    return text;
}

const Keys<Scenario>& scenario_keys() {
    static const Keys<Scenario> keys = {
        passed_text<Scenario>("$schema", "Where an editor finds the JSON Schema of this file"),
        passed_text<Scenario>("description", "For people"),
        own<Scenario>("imported", KeyType::object,
                      "What another tool's settings became, and what had no counterpart",
                      imported_keys()),
        own<Scenario>("model", KeyType::text,
                      "A file of the library or of Hugging Face's (config.json), its folder, a "
                      "model of the local cache (\"org/name\"), or the keys of such a file",
                      model_keys())
            .required()
            .open(),
        own<Scenario>("cluster", KeyType::text, "A file of the library or of yours, or its keys",
                      specs(cluster_keys()))
            .required(),
        own<Scenario>("layout", KeyType::object,
                      "How the model and the batch are spread over devices", specs(layout_keys()))
            .required(),
        own<Scenario>("training", KeyType::object, "What is trained, and by what software",
                      specs(training_keys()))
            .required(),
        own<Scenario>("run", KeyType::object, "What training needs beside the step itself",
                      specs(run_keys())),
        own<Scenario>("reliability", KeyType::text,
                      "How often a run fails and what it then takes, for orrery goodput: a preset "
                      "of the library (\"meta-rsc\"), or its keys",
                      specs(reliability_keys())),
        own<Scenario>("storage", KeyType::text,
                      "What all nodes share for checkpoints and data, for orrery goodput: a preset "
                      "of the library (\"llama3-tectonic\"), or its keys",
                      specs(shared_storage_keys())),
    };
    return keys;
}

const std::vector<KeySpec>& scenario_schema() {
    static const std::vector<KeySpec> schema = [] {
        std::vector<KeySpec> keys;
        for (const Key<Scenario>& key : scenario_keys())
            keys.push_back(key.spec);
        return keys;
    }();
    return schema;
}

const KeySpec* key_at(std::string_view path) {
    const std::vector<KeySpec>* keys = &scenario_schema();
    const KeySpec* found = nullptr;
    while (!path.empty()) {
        const std::size_t dot = std::min(path.find('.'), path.size());
        std::string_view name = path.substr(0, dot);
        if (name.ends_with("[]")) name.remove_suffix(2);
        const auto it = std::find_if(keys->begin(), keys->end(),
                                     [&](const KeySpec& key) { return key.name == name; });
        if (it == keys->end()) return nullptr;
        found = &*it;
        keys = &found->keys;
        path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return found;
}

std::vector<KeySpec> family_keys(std::string_view family) {
    Reading reading(Document({{"model", {{"model_type", std::string(family)}}}}, "", ""));
    std::vector<KeySpec> keys;
    const std::string here = "/model/";
    reading.observer = [&](const std::string& pointer, KeySpec spec) {
        if (!pointer.starts_with(here) || pointer.find('/', here.size()) != std::string::npos)
            return;
        spec.name = kept(std::string_view(pointer).substr(here.size()));
        for (std::string_view& word : spec.words)
            word = kept(word);
        const auto same = std::find_if(keys.begin(), keys.end(),
                                       [&](const KeySpec& key) { return key.name == spec.name; });
        if (same == keys.end()) keys.push_back(std::move(spec));
    };
    Model model;
    read_model(reading, model);
    return keys;
}

}  // namespace orrery::plan
