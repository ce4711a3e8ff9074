// What may stand in a scenario: every key with its type, range, words, unit, default and one
// sentence of help. The very declarations by which scenarios are read and written
// (plan/scenario/key.hpp), as data: for the JSON Schema that editors take, the reference page of
// keys, forms, and "did you mean".
//
// Keys of the model are those of the config.json of its family; they are as each family's reader
// asks for them, and have no help here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::plan {

constexpr std::int64_t kLargestCount = 1'000'000'000;  // for counts without a closer bound
constexpr double kLargestNumber = 1e30;

struct IntegerRange {
    std::int64_t min = 1;
    std::int64_t max = kLargestCount;
};

// Bounds are included unless they are open.
struct NumberRange {
    double min = 0;
    double max = kLargestNumber;
    bool open_min = false;
    bool open_max = false;
};

inline constexpr std::int64_t kLargestSeed =
    9'007'199'254'740'991;  // as a double of JSON still exact
inline constexpr NumberRange kPositive = {0, kLargestNumber, true, false};
inline constexpr NumberRange kAboveOne = {1, kLargestNumber, true, false};

enum class KeyType : std::uint8_t {
    whole_number,
    number,
    flag,  // true or false
    text,
    word,    // one of `words`
    object,  // with `keys`
    list,    // of objects with `keys`; without, of entries of type `of`
    any,     // notes of the user's, carried along
};

struct KeySpec {
    std::string_view name{};
    KeyType type = KeyType::any;
    IntegerRange integers{};  // of a whole number
    NumberRange numbers{};    // of a number
    // Of a word all there are; of another type what may stand in its place ("auto"), the first of
    // which is what an absent key means.
    std::vector<std::string_view> words{};
    std::string_view unit{};   // "GB/s", "µs"; empty: none
    std::string_view help{};   // one sentence, or more, without a full stop at the end
    std::string_view where{};  // when it is a key at all: "with \"kind\": \"rail\""; empty: always
    bool required = false;     // wherever the object that it is a key of stands
    bool non_empty = false;    // a text that says something
    std::vector<std::string_view> aliases{};  // what other stacks and people call it
    std::string initial{};        // JSON text of the default; empty: none, or not always the same
    KeyType of = KeyType::any;    // type of a list's entries; words of theirs are in `words`
    std::vector<KeySpec> keys{};  // of an object, of a list's entries, or of the object that may
                                  // stand in the place of another type
    bool open = false;            // such an object may have other keys, too
};

// Keys of the top level, each with those below it. Made once.
const std::vector<KeySpec>& scenario_schema();

// By its path from the top, "cluster.intra_node.bandwidth_GBps"; entries of a list are "[]":
// "cluster.slow_devices[].factor". Null: there is none.
const KeySpec* key_at(std::string_view path);

// What a model of this family is asked for (model.model_type), the defaults included; no help.
std::vector<KeySpec> family_keys(std::string_view family);

// Calls visit(path, key) for every key, depth first, in the order of the declarations.
template <typename Visit>
void for_each_key(const std::vector<KeySpec>& keys, const std::string& above, Visit&& visit) {
    for (const KeySpec& key : keys) {
        const std::string path =
            above.empty() ? std::string(key.name) : above + '.' + std::string(key.name);
        visit(path, key);
        for_each_key(key.keys, key.type == KeyType::list ? path + "[]" : path, visit);
    }
}

// What may stand at a key, for people: "whole number from 1 to 4096, or \"auto\"".
std::string values_text(const KeySpec& key);

// A JSON Schema (draft 2020-12) that every scenario fits which reads without a fault; ends in a
// newline. It knows keys, types, ranges and words; rules across keys are the reader's alone.
std::string json_schema();

}  // namespace orrery::plan
