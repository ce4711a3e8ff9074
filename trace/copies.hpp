// What a trace moves between tiers of memory, and how much of it compute waits for. Such waits are
// part of Account::other.
#pragma once

#include <array>

#include "trace/accounts.hpp"

namespace orrery::trace {

// Means over ranks, by kind of copy.
using CopySums = std::array<CommunicationSums, kCopyKinds>;
CopySums copy_sums(const Trace& trace);

}  // namespace orrery::trace
