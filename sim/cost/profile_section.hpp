// A strict view of one JSON object of a profile: it remembers which keys were asked for, so that
// the others are errors, and whether a source stands above, so that no number goes without one.
// Private to the profile's reader (it brings the JSON library in).
#pragma once

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/cost/profile.hpp"

namespace orrery::sim {

class ProfileSection {
  public:
    // `object` must outlive the section. `source` is what stands above; a key "source" of the
    // object itself replaces it.
    ProfileSection(const nlohmann::json& object, std::string pointer, std::string file,
                   std::string source);

    bool has(const std::string& key) const { return object_.contains(key); }
    const std::string& source() const { return source_; }
    std::vector<std::string> keys() const;

    ProfileSection section(const std::string& key);
    std::string text(const std::string& key);
    bool flag(const std::string& key);
    // Finite and at least `low`; a plain number or {"value", "source"}.
    Quantity quantity(const std::string& key, double low);
    double number(const std::string& key, double low) { return quantity(key, low).value; }
    double positive(const std::string& key);
    Quantity positive_quantity(const std::string& key);
    Span span(const std::string& key);
    const nlohmann::json& array(const std::string& key);
    const nlohmann::json& raw(const std::string& key) { return at(key); }

    // Throws if a key was never asked for.
    void finish() const;
    [[noreturn]] void fail(const std::string& key, const std::string& what) const;

  private:
    const nlohmann::json& at(const std::string& key);

    const nlohmann::json& object_;
    std::string pointer_;
    std::string file_;
    std::string source_;
    std::set<std::string> asked_;
};

}  // namespace orrery::sim
