// NCCL's tuning constants, as the "algorithms" object of a profile's collectives.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace orrery::fit {

nlohmann::json nccl_algorithms(bool hierarchical);

}  // namespace orrery::fit
