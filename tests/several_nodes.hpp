// Whether a scenario takes several nodes. A sanitizer sees the same code in those of one, in a
// tenth of the time.
#pragma once

#include <string>

#include "plan/scenario/reader.hpp"

namespace orrery {

inline bool on_several_nodes(const std::string& path) {
    const plan::ReadResult read =
        plan::read_scenario(path, {}, std::string(ORRERY_SOURCE_DIR) + "/scenarios");
    return read.scenario->cluster.nodes > 1;
}

}  // namespace orrery
