// Which receive each send of a pipeline belongs to, for the arrows of a timeline viewer.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::trace::viewer {

// An op id and the number (from 1) of a transfer that leaves or reaches it.
using TransferEnd = std::pair<std::int32_t, std::uint64_t>;

// By track, in ascending order. "1SEND_F3" goes to "2RECV_F3" of the rank that holds stage 2 and
// has the sender's place among the ranks of its stage; where that rank stands in another's track,
// to the first that receives it.
struct Transfers {
    std::vector<std::vector<TransferEnd>> sent, received;
};

Transfers transfers_of(const Trace& trace);

}  // namespace orrery::trace::viewer
