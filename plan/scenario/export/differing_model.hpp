// Whether two models compute the same, whatever family's words say it. Internal to
// plan/scenario/export.
#pragma once

#include <string>
#include <vector>

#include "plan/scenario/model.hpp"

namespace orrery::plan::exports {

// Names of the parts in which they differ: "attention of layer 0", "vocabulary". Empty: they are
// one model but for their names.
std::vector<std::string> differing_parts(const Model& a, const Model& b);

}  // namespace orrery::plan::exports
