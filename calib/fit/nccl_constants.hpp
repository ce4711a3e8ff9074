// Constants of collective algorithms, as the "algorithms" object of a profile's collectives:
// NCCL's, and those of rings about which only the links are known.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace orrery::fit {

nlohmann::json nccl_algorithms(bool hierarchical);
nlohmann::json link_algorithms();

}  // namespace orrery::fit
