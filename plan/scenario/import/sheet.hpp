// The settings of another tool's file, and what becomes of each: a key of a scenario, nothing
// because it changes no step, or nothing because Orrery has no counterpart. Whoever maps a format
// asks for settings by name; what nobody has asked for is looked up in the format's table of keys
// without a counterpart, and what stands in no table is reported with its nearest neighbours.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plan/scenario/import/imported.hpp"

namespace orrery::plan::imports {

// One key and its value as the file spells them.
struct Setting {
    std::string key;    // "--num-layers", "zero_optimization.stage"
    Json value;         // words of a command line are strings, a flag alone is true
    int line = 0;       // 0: the format's parser does not say
    bool open = false;  // holds what only the shell that runs the line knows, as "$1"
};

// A setting that becomes a key of a scenario as it is.
struct Direct {
    enum class Kind { whole, number, flag, text };
    const char* key;
    const char* to;
    Kind kind;
    const char* usual = nullptr;  // JSON text of what stands where the key is absent
};

// A key without a counterpart. One that ends in '*' stands for all that begin so.
struct Row {
    const char* key;
    const char* why;
    const char* neutral = nullptr;  // JSON text of the value at which it changes no step
    Changes changes = Changes::cost;
};

// Whether a text can be said in messages and written as JSON. Parsers of JSON, TOML and YAML see to
// it themselves.
bool is_utf8(std::string_view text);

class Sheet {
  public:
    using Keys = std::initializer_list<const char*>;  // spellings of one setting

    // Of several settings with one key the last counts, as for every tool read here.
    // `automatic`: the word "auto" leaves a value to another program.
    Sheet(std::string file, std::vector<Setting> settings, Imported& out, bool automatic = false);

    // Each counts its keys as known and what it finds as used; nothing where nothing is found, or
    // where its value is of another type, which is reported.
    std::optional<std::int64_t> whole(Keys keys);
    std::optional<double> number(Keys keys);
    std::optional<bool> boolean(Keys keys);
    std::optional<std::string> text(Keys keys);
    // Among `words`, in any case; another one is reported.
    std::optional<std::string> word(Keys keys, const std::vector<std::string>& words);
    const Setting* find(Keys keys);
    bool flag(Keys keys) { return boolean(keys).value_or(false); }
    // Whether it stands there; neither known nor used by that.
    bool has(const std::string& key) const { return last(key) != nullptr; }
    bool used(const std::string& key) const { return used_.count(key) > 0; }

    // Whether the value is left to another program; then the readers above return nothing.
    bool automatic(Keys keys);

    // Writes `value` to a key of the scenario, "layout.tensor_parallel".
    void put(const std::string& to, Json value, const std::string& from,
             const std::string& note = "");
    // The same for what the other tool does where nothing is said.
    void put_usual(const std::string& to, Json value, const std::string& from,
                   const std::string& note = "");
    // Reads and writes; returns what was written, null if nothing was.
    Json copy(const Direct& direct);
    void copy(std::span<const Direct> all);

    void ignore(const std::string& key, const std::string& why);
    void refuse(const std::string& key, const std::string& why, Changes changes = Changes::cost);
    void miss(const std::string& to, const std::string& why, const std::string& otherwise = "");
    void state(const std::string& key, const std::string& what);
    // Starts an error at a setting; at the file where there is none.
    Diagnostic& report(const char* code, const std::string& key, const std::string& message);
    // A setting that a condition may add, known or not; `otherwise`: what it changes where no row
    // says so.
    void settle_undecided(const Setting& setting, const std::string& condition,
                          std::span<const Row> ignored, std::span<const Row> unsupported,
                          Changes otherwise);
    // What nobody asked for.
    void settle(std::span<const Row> ignored, std::span<const Row> unsupported);

    bool failed() const { return !out_.errors.empty(); }

  private:
    const Setting* last(const std::string& key) const;
    bool named(const std::string& key) const;
    void leave(std::vector<Left>& list, const std::string& key, const std::string& why,
               Changes changes = Changes::cost);
    void write(const std::string& to, Json value, const std::string& from, bool usual,
               const std::string& note);
    void settle_one(const Setting& setting, std::span<const Row> ignored,
                    std::span<const Row> unsupported);
    bool is_auto(const Setting& setting) const { return automatic_ && setting.value == "auto"; }
    void wrong(const Setting& setting, const std::string& expected);
    std::vector<std::string> neighbours(const std::string& key) const;

    std::string file_;
    std::vector<Setting> settings_;
    std::unordered_map<std::string, std::size_t> place_;  // in settings_, by key
    int strangers_ = 0;                                   // keys that nobody knows
    Imported& out_;
    bool automatic_;
    std::set<std::string> known_;
    std::set<std::string> used_;
    std::set<std::string> wrong_;
};

}  // namespace orrery::plan::imports
