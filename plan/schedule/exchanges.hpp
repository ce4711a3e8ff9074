// What lowering makes one transfer of, for whoever asks for nothing else of it.
#pragma once

#include <vector>

#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

// Two transfers of a rank that are issued together.
struct SentAndReceived {
    Action sent, received;
};

// All of these on any rank, as add_transfers(grid, placement) has them.
std::vector<SentAndReceived> exchanges_of(const ActionGrid& grid, const StagePlacement& placement);

}  // namespace orrery::plan
