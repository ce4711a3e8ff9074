// What a step adds up to: how long each op is in progress, what is sent, where each rank's time
// goes. Whole picoseconds and whole messages, so that it does not matter in which order events are
// counted: a trace that was kept and events that were counted as they ended (ForwardAccounts) have
// the same sums, and every mean that is printed is computed from these.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/accounts.hpp"
#include "trace/copies.hpp"
#include "trace/trace.hpp"

namespace orrery::trace {

// Over ranks: a step of days, times a thousand ranks, is more than 64 bits.
__extension__ using Wide = __int128;

struct StepSums {
    // By op (Trace::ops), of those that start within the window, summed over ranks.
    std::vector<Wide> busy;
    std::vector<std::int64_t> messages;  // sent; of a copy or collective one each
    // By track, within the window.
    std::vector<Accounts> accounts;
    std::vector<std::array<Picoseconds, kCopyKinds>> copy_waits;
    bool operator==(const StepSums&) const = default;
};

StepSums sums_of(const Trace& trace);

// By program and step: messages that an exchange sends there.
std::vector<std::vector<std::int64_t>> messages_sent(const Trace& trace);

// Means over ranks. Of `trace` its ops are read, and of its tracks whom they represent.
std::array<double, kAccounts> mean_accounts(const Trace& trace, const StepSums& sums);
std::array<CommunicationSums, kAccounts> communication_sums(const Trace& trace,
                                                            const StepSums& sums);
CopySums copy_sums(const Trace& trace, const StepSums& sums);

}  // namespace orrery::trace
