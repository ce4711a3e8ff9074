// Calls that have been put into streams and not been seen to end, so that a fault can be told with
// what was under way. A call's time begins when its stream has come to it, not when it is issued: a
// host runs a whole step ahead.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime {

using Instant = std::chrono::steady_clock::time_point;

struct PendingCall {
    using Party = std::size_t;  // which of a rank's communicators (GroupCommunicator)

    std::string what;   // "all_reduce"
    std::string label;  // of the op
    Party party = 0;
    std::int64_t number = 0;  // of this rank's calls there, from 1
    std::chrono::milliseconds allowed{0};
    Event before, after;
    std::optional<Instant> begun;  // when it was first seen to have been reached
};

class PendingCalls {
  public:
    explicit PendingCalls(StreamDriver& driver) : driver_(driver) {}

    // A mark behind what the stream has been given so far.
    Event mark(Stream stream);

    // Later calls of a stream end later.
    void add(Stream stream, PendingCall call);

    // Forgets what has ended, and gives a call that has been under way for longer than it may; null
    // where there is none. The call lives until the next advance().
    const PendingCall* advance(Instant now);

    // The first issued to a party, of those that have not been seen to end; null: none.
    const PendingCall* first_of(PendingCall::Party party) const;

    // Of those that are under way the one that began first; null: none is known to be.
    const PendingCall* longest() const;

    void clear() { streams_.clear(); }

  private:
    StreamDriver& driver_;
    std::vector<Event> free_;  // marks of calls that have ended
    std::map<void*, std::deque<PendingCall>, std::less<>> streams_;
};

}  // namespace orrery::runtime
