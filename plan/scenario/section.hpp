// Reads the keys of one JSON object, each with its type and range, and at the end reports the keys
// that nobody read. Every fault becomes a diagnostic; the value then keeps its default and is
// marked bad. Internal to plan/scenario.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/scenario/reading.hpp"
#include "plan/scenario/schema.hpp"

namespace orrery::plan {

enum class Presence { optional, required };

class Section {
  public:
    enum class Null { is_wrong, is_absent };

    // `pointer` of the object, `field` the prefix of the names of its values ("layout").
    // When nothing or no object stands there, every key is absent and none is missed.
    Section(Reading& reading, std::string pointer, std::string field, Null null = Null::is_wrong);

    Reading& reading() { return reading_; }
    bool exists() const { return object_ != nullptr; }
    bool has(const std::string& key) const { return find(key) != nullptr; }
    const Json* find(const std::string& key) const;
    std::string pointer(const std::string& key) const;

    // Each returns true when the key is there and sound; `out` then has it. `name` is the field's
    // name within `field`, where it differs from the key. Out's value is the default.
    bool integer(const std::string& key, std::int64_t& out, IntegerRange range = {},
                 Presence presence = Presence::optional, const std::string& name = "");
    bool number(const std::string& key, double& out, NumberRange range = {},
                Presence presence = Presence::optional, const std::string& name = "");
    bool boolean(const std::string& key, bool& out, const std::string& name = "");
    bool text(const std::string& key, std::string& out, Presence presence = Presence::optional);
    // A text that is not empty where it is there.
    bool said_text(const std::string& key, std::string& out);

    template <typename Enum>
    bool choice(const std::string& key, Enum& out,
                const std::vector<std::pair<std::string, Enum>>& choices,
                Presence presence = Presence::optional) {
        std::vector<std::string> names;
        std::string word, usual;
        for (const auto& [name, value] : choices) {
            names.push_back(name);
            if (value == out) usual = name;
        }
        if (!word_of(key, word, names, usual, presence)) return false;
        for (const auto& [name, value] : choices) {
            if (name == word) out = value;
        }
        return true;
    }
    // A whole number, or `word`, which stands for `of_word`.
    bool integer_or_word(const std::string& key, std::int64_t& out, IntegerRange range,
                         std::string_view word, std::int64_t of_word,
                         Presence presence = Presence::optional);
    // A string that must be one of `names`; `usual` is the default.
    bool word_of(const std::string& key, std::string& out, const std::vector<std::string>& names,
                 const std::string& usual, Presence presence = Presence::optional);

    bool good(const std::string& key) const { return reading_.good_at(pointer(key)); }
    // Whether every key that was read so far is.
    bool sound() const;
    // Whether somebody has read `key`, or looked for it.
    bool reads(const std::string& key) const;
    // Counts `key` as known without reading it.
    void known(const std::string& key) {
        if (!reads(key)) known_.push_back(key);
    }
    // Counts `key` as known, but not as one to suggest or to list.
    void tolerate(const std::string& key) { tolerated_.push_back(key); }
    // `key` means nothing as things are: it is one `where` ("with a cache").
    void means_nothing(std::string key, std::string_view where) {
        elsewhere_.emplace_back(std::move(key), where);
    }
    // Counts `key` as known and required without reading it.
    void require(const std::string& key) { begin(key, Presence::required, "", "", {}); }

    // Reports required keys that are missing and keys that are not known, the latter with a
    // suggestion; a missing or defaulted key that an unknown one was meant for is not reported.
    void finish();
    // The same where other people's keys are welcome: reports only an unknown key that is a near
    // miss of a known one which is absent, or that was given by --set.
    void finish_tolerant();

    Diagnostic& wrong_type(const std::string& key, const char* expected);

  private:
    const Json* begin(const std::string& key, Presence presence, const std::string& name,
                      const std::string& fallback, KeySpec spec);
    bool is_known(const std::string& key) const;
    // What messages call a key: "value" of a flag says nothing, the flag's name does.
    const std::string& called(const std::string& key) const {
        return key == "value" ? field_ : key;
    }
    Diagnostic& unknown(const std::string& key, const std::string& meant);
    void report_further(std::size_t unknown_keys);
    void report_missing();
    void forget_missing(const std::string& key);

    Reading& reading_;
    std::string pointer_;
    std::string field_;
    Null null_;
    const Json* object_ = nullptr;
    std::vector<std::string> known_;
    std::vector<std::string> tolerated_;
    std::vector<std::string> missing_;
    std::vector<std::pair<std::string, std::string_view>> elsewhere_;  // with where it is a key
};

}  // namespace orrery::plan
