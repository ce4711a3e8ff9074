// What published records leave unsaid, and what their words mean here: one data file,
// scenarios/validation/rules.json, of rules over a record's facts. A rule never asks which
// collection a record came in.
//
//   { "when": [ {"path": "/layout/precision", "equals": "fp8"}, … ], "skip": "why" }
//   { "when": [ … ], "training": {…}, "layout": {…}, "cluster": {…}, "model": {…}, "why": "…" }
//
// "left_out" holds rules that apply where a source is predicted without what was fitted to it:
// "what" stands there instead, "profile" sets places of the profile. "gigabytes" says of how many
// "bytes". "causes": why sources without what was fitted to them are met worse than others, by
// source. "taken" maps paths to keys of a scenario which take the fact as it is.
//
// "memory_alone": runs whose step time says nothing of what is predicted, and "why"; their peak
// does.
//
// "kept_scores": stacks whose attention's scores have a buffer of their own, which stays.
//
// The lists "default_…" are for facts that no rule knows: "what" is said of
// the row, and what it could have been "otherwise", as patches of the scenario, widens its
// interval.
//
// "default_words" is for switches and free text of the layout that no rule knows: named as "what",
// with what such switches may do "otherwise", unless one of the words of "physics" is in them.
//
// Conditions, all of which must hold: equals, one_of (a list), contains (a part of a text, or
// one of a list of them, from the start of a word on), lacks (the opposite, also of what is not
// stated), at_least, at_most (numbers), absent (true or false). A fact that is null is absent. Of
// texts, case, spaces and punctuation do not count (record_words.hpp).
#pragma once

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace orrery::compare {

// Why a record cannot be predicted. Thrown and caught within the translation of records.
struct Skip : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A list of rules asked about one record. Every path that a rule which holds has asked for is
// settled: a rule knows what it means.
class RecordRules {
  public:
    // without_fits: a rule that was fitted to the record's own source ("fitted_to", words of it)
    // does not hold.
    RecordRules(const nlohmann::json& rules, const nlohmann::json& record,
                bool without_fits = false)
        : rules_(rules), record_(record), without_fits_(without_fits) {}

    // The first rule of the list that holds; null where none does. Throws Skip where it says so.
    const nlohmann::json* first(const char* list);
    // All rules of the list that hold.
    std::vector<const nlohmann::json*> all(const char* list);

    // The fact itself, which is settled by it; null where the record does not state it.
    const nlohmann::json* fact(const std::string& path);

    bool settled(const std::string& path) const { return settled_.count(path) > 0; }

  private:
    bool holds(const nlohmann::json& rule);

    const nlohmann::json& rules_;
    const nlohmann::json& record_;
    bool without_fits_;
    std::set<std::string> settled_;
};

// A value as a record spells it.
std::string shown(const nlohmann::json& value);

// Whole numbers of an object of a record; `of` is its name. Throws Skip where the key is not
// stated, or is no whole number of at least 1.
std::int64_t whole(const nlohmann::json& object, const char* key, const char* of);
std::int64_t whole_or(const nlohmann::json& object, const char* key, const char* of,
                      std::int64_t otherwise);

// Whether the object states the key: it is there and not null.
bool states(const nlohmann::json& object, const char* key);

}  // namespace orrery::compare
