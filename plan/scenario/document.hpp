// The tree that a scenario's parts make together, and for each value the place it came from: a
// file, a preset, a --set, or nobody (a default). Internal to plan/scenario.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/diagnostic.hpp"
#include "plan/scenario/json_text.hpp"

namespace orrery::plan {

// Where a subtree came from.
struct Source {
    enum class Kind { file, preset, set };
    Kind kind = Kind::file;
    std::string text;    // the file as typed, or the whole text of the --set
    std::string folder;  // where references inside are looked for first; empty for a --set
};

class Document {
  public:
    // `name` is the scenario file as typed, `folder` where it stands.
    Document(Json root, std::string name, std::string folder);

    Json& root() { return root_; }
    // The value at a pointer, or null when nothing is there.
    const Json* find(const std::string& pointer) const;

    // Replaces what stands at `pointer`, whose parent exists.
    void put(const std::string& pointer, Json value, Source source);

    // Source of the value at `pointer`: that of its nearest ancestor which has one.
    const Source& source(const std::string& pointer) const;
    // Whether a --set gave this very value, rather than a part around it.
    bool set_by_itself(const std::string& pointer) const;
    // The texts of those --set that gave the value at `pointer` or one within it, in the order of
    // pointers.
    std::vector<std::string> sets_at(const std::string& pointer) const;
    // Pointers of what files and --set give, down to single values and arrays; not what a preset
    // gives.
    std::vector<std::string> given() const;
    const std::string& name() const { return name_; }

    // Fills file, pointer, value and origin of a diagnostic for the value at `pointer`. `fallback`
    // is the JSON text of the default that applies when nothing is there.
    void locate(const std::string& pointer, const std::string& fallback, Diagnostic& out) const;

  private:
    std::map<std::string, Source>::const_iterator entry(const std::string& pointer) const;

    Json root_;
    std::string name_;
    std::map<std::string, Source> sources_;  // by pointer; "" is the scenario file
};

}  // namespace orrery::plan
