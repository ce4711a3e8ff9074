#include "plan/schedule/placement.hpp"

namespace orrery::plan {

StagePlacement place(Placement placement, std::int32_t pipeline, std::int32_t virtual_stages) {
    std::vector<std::int32_t> ranks;
    for (std::int32_t chunk = 0; chunk < virtual_stages; ++chunk)
        for (std::int32_t i = 0; i < pipeline; ++i) {
            const bool descends = placement == Placement::v && chunk % 2 == 1;
            ranks.push_back(descends ? pipeline - 1 - i : i);
        }
    return StagePlacement(std::move(ranks));
}

}  // namespace orrery::plan
