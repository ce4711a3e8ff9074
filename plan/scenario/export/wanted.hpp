// What the other tool's settings have to say: the resolved scenario key by key, its model under
// Megatron-LM's names, constants of its framework as the keys of `training` that override them.
// Internal to plan/scenario/export.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/scenario/json_text.hpp"
#include "plan/scenario/reader.hpp"

namespace orrery::plan::exports {

using Values = std::map<std::string, Json>;  // "layout.tensor_parallel" → 8; lists are values

// Of a resolved scenario.
Values flat_values(const std::string& resolved_json);

class Wanted {
  public:
    explicit Wanted(const ReadResult& read);

    const Scenario& scenario() const { return scenario_; }
    const Layout& layout() const { return scenario_.layout; }
    const Training& training() const { return scenario_.training; }
    const Model& model() const { return scenario_.model; }

    const Values& values() const { return values_; }
    bool has(const std::string& key) const { return values_.count(key) > 0; }
    Json at(const std::string& key) const;  // null: it is not said
    bool flag(const std::string& key) const { return at(key) == true; }
    bool is(const std::string& key, const char* word) const { return at(key) == word; }
    // The scenario's files and --set say it, not a preset or a default.
    bool given(const std::string& key) const { return given_.count(key) > 0; }

    // Steps of the run: run.steps, or those of training.tokens, begun ones counted; 0: not said.
    std::int64_t steps() const;
    // As many of a node's devices as start ranks alike on all nodes.
    std::int64_t ranks_per_node() const;
    std::int64_t nodes() const { return layout().ranks() / ranks_per_node(); }

  private:
    const Scenario& scenario_;
    Values values_;
    std::set<std::string> given_;
};

// A tool's settings in the order in which they are written.
struct Written {
    std::string key;
    Json value = true;
};
using Settings = std::vector<Written>;

}  // namespace orrery::plan::exports
