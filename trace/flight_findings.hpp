// Where a job hangs, from the flight recorders of its ranks: for each process group which ranks
// wait in a collective that others have not called, or called as another op or with other sizes;
// and, since ranks may be missing in one group because they wait in another, on whom all wait at
// last.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/flight_record.hpp"

namespace orrery::trace {

// A call that ranks made alike: op, sizes and types.
struct FlightCall {
    std::string op;     // "all_reduce"; several that were issued as one: "all_gather, all_gather"
    std::string sizes;  // "Float [4096, 1024] -> [4096, 1024]"
    bool operator==(const FlightCall&) const = default;
    auto operator<=>(const FlightCall&) const = default;
};

enum class FlightFault : std::uint8_t {
    missing,      // some ranks wait in it, and others have not called it
    other_op,     // ranks called different ops as the same collective
    other_sizes,  // … the same op with sizes or types that do not go together
    not_ended     // all called it alike, and on some ranks it has not ended
};
std::string_view name(FlightFault fault);

struct FlightFinding {
    FlightFault fault = FlightFault::missing;
    std::string group;
    std::int64_t seq = 0;
    std::map<FlightCall, std::vector<std::int64_t>> calls;  // by what was called, the ranks
    std::vector<std::int64_t> waiting;                      // called it, and it has not ended there
    std::vector<std::int64_t> ended;                        // called it, and it has
    std::vector<std::int64_t> missing;                      // have a dump, and have not called it
    std::vector<std::int64_t> unknown;                      // members of whom there is no dump
};

// Where a rank is: the first op that has not ended, of any group.
struct FlightPlace {
    std::int64_t rank = 0;
    std::string file;
    std::optional<FlightOp> waits_in;  // nothing: it waits for no op of NCCL
    std::optional<FlightOp> last;      // that it had enqueued; nothing: none is recorded
};

struct FlightFindings {
    std::map<std::string, FlightGroup> groups;
    std::vector<FlightFinding> findings;     // by group, then by number
    std::vector<FlightPlace> places;         // by rank
    std::vector<std::int64_t> without_dump;  // members of groups
    // Those that are missing somewhere and wait for nothing themselves, or of whom there is no
    // dump; where there are none, those whose calls differ from most others'.
    std::vector<std::int64_t> suspects;
};

// Of one job; ranks differ.
FlightFindings find_hang(const std::vector<FlightDump>& dumps);

// "Float [4096] -> [4096]"; lists of one kind once.
FlightCall call_of(const std::vector<const FlightOp*>& ops);

}  // namespace orrery::trace
