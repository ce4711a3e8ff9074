// How scenarios, profiles and datasheets spell the kinds of links.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

template <typename Kind>
using Spellings = std::vector<std::pair<std::string, Kind>>;

const Spellings<IntraNodeKind>& intra_node_kinds();
const Spellings<InterNodeKind>& inter_node_kinds();

template <typename Kind>
std::string spelling(const Spellings<Kind>& all, Kind wanted) {
    for (const auto& [name, kind] : all)
        if (kind == wanted) return name;
    return "";
}

// Null where no kind is spelled so.
template <typename Kind>
const Kind* kind_of(const Spellings<Kind>& all, const std::string& wanted) {
    for (const auto& [name, kind] : all)
        if (name == wanted) return &kind;
    return nullptr;
}

}  // namespace orrery::plan
