// The part that commands about many layouts share: from a scenario file and what is varied to the
// bases and spaces of a search.
#pragma once

#include <map>
#include <memory>
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
};

// `input` with `changes` after its own overrides. Where neither a key of the layout is "auto" nor
// one varied, all usual ones are. Keys that are not of the layout are varied by reading the
// scenario again for each combination. Throws UsageError and what load_profile() throws.
LayoutSearch layout_search(const ScenarioInput& input, const std::vector<Vary>& varies,
                           const std::vector<std::string>& changes = {});

}  // namespace orrery::cli
