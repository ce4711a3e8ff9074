// The part that commands about many layouts share: from a scenario file and what is varied to the
// bases and spaces of a search.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/scenario_input.hpp"
#include "cli/vary.hpp"
#include "sim/cost/profile.hpp"
#include "sim/search/search.hpp"

namespace orrery::cli {

struct LayoutSearch {
    std::vector<sim::SearchBase> bases;
    std::map<std::string, std::unique_ptr<sim::Profile>> profiles;  // by path; of the bases
    std::vector<plan::Diagnostic> errors;  // not empty: there is nothing to search
    bool unreadable = false;
    // Of layout_search_of_each, by number of the combination, and of the combination by base.
    std::vector<std::vector<plan::Diagnostic>> errors_of_each;
    std::vector<std::size_t> number_of_base;
};

// Where neither a key of the layout is "auto" nor
// one varied, all usual ones are. Keys that are not of the layout are varied by reading the
// scenario again for each combination. Throws UsageError and what load_profile() throws.
LayoutSearch layout_search(const ScenarioInput& input, const std::vector<Vary>& varies);

// A base for each combination of `varies`, whatever their keys, that can be read; the layout is
// searched as if nothing had been varied.
LayoutSearch layout_search_of_each(const ScenarioInput& input, const std::vector<Vary>& varies);
// The same of combinations that are said one by one.
LayoutSearch layout_search_of_each(const ScenarioInput& input,
                                   const std::vector<std::vector<std::string>>& combinations);

// The layout that the file says, simulated and, where its schedule has a name, priced as a search
// does; nothing where it leaves something open or is not sound.
std::optional<sim::FoundLayout> own_layout(const ScenarioInput& input);

}  // namespace orrery::cli
