// Constants of a stack that nobody measured, from those of stacks that somebody did: partial
// pooling over the population of fitted stacks (scenarios/priors/stacks.json), by generation.
//
//   { "format": "orrery stack priors", "version": 1, "members": [
//       { "stack": "fsdp-2023", "generation": "fused", "fitted_to": ["llm-foundry"],
//         "constants": [ { "constant": "attention_factor", "value": 1.11, "sd": 0.03, "rows": 67,
//                          "devices": ["h100-sxm"], "source": "…" }, … ] }, … ] }
//
// "estimates" are entries that no runs inform: what is known of launches beside them, with a wide
// sd and a generation.
//
// With y = ln value and v = sd² of member i: the spread τ² between stacks is DerSimonian and
// Laird's moment estimate (1986), at least kLeastSpread²; a member weighs w = 1 ÷ (v + τ²). The
// mean of a generation is that of its members and of one pseudo-stack at the mean of all, of weight
// 1 ÷ τ²: few members of its own leave a generation near the others. Where entries name the device
// at hand ("devices"), only those count. A constant that fewer than kFewestRows rows inform is a
// prior itself, and no member.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace orrery::compare {

inline constexpr std::int64_t kFewestRows = 5;
inline constexpr double kLeastSpread = 0.05;  // no two stacks are closer than their releases are

struct Pooled {
    double value = 1;
    double sd = 0;  // of its logarithm, for one more stack of the generation
    int stacks = 0;
};

class StackPopulation {
  public:
    // Throws nlohmann::json's exceptions where the file is not shaped so.
    explicit StackPopulation(const nlohmann::json& file);

    std::vector<std::string> constants() const;  // each once, in the order of the file
    // Without members that were fitted to `left_out`, a source in its own words; empty: with all.
    // Nothing where no member is left.
    std::optional<Pooled> pooled(const std::string& constant, const std::string& generation,
                                 const std::string& device, const std::string& left_out) const;

  private:
    struct Entry {
        std::string constant;
        std::string generation;
        std::vector<std::string> fitted_to;
        std::vector<std::string> devices;
        double log_value = 0;
        double variance = 0;
    };
    void take(const nlohmann::json& constant, Entry entry);

    std::vector<Entry> entries_;
};

// Whether one of the words of the list stands in the source's name.
bool fitted_to(const std::vector<std::string>& words, const std::string& source);

// Whether the preset's constants were fitted to runs of the source.
bool was_fitted_to(const nlohmann::json& preset, const std::string& source);

// What the stack's constants are without the runs of `source`: into `training`, a scenario's
// section, those that it does not state itself, where the preset was fitted to the source, or takes
// them from the population. A flag's own "prior", where it has one, goes before the population:
// what kernel timings or publications say. Says whether the preset's own fits stand aside.
bool leave_out_stack(const StackPopulation& population, const nlohmann::json& preset,
                     const std::string& device, const std::string& source,
                     nlohmann::json& training);

}  // namespace orrery::compare
