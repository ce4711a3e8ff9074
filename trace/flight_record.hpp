// What the NCCL flight recorder of a rank of PyTorch holds: the last collectives that it had
// enqueued, when the job hung. Numbers of collectives count within a process group, alike on all of
// its ranks.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::trace {

enum class FlightState : std::uint8_t { scheduled, started, completed };
inline constexpr std::array kFlightStates = {FlightState::scheduled, FlightState::started,
                                             FlightState::completed};
std::string_view name(FlightState state);

struct FlightOp {
    std::string group;        // its name in FlightDump::groups
    std::int64_t seq = 0;     // of the group's collectives; of messages, of the group's messages
    bool is_message = false;  // a send or receive, which the other members have no part in
    std::string name;         // "all_reduce", "send 0->1"
    std::vector<std::vector<std::int64_t>> input_sizes, output_sizes;
    std::vector<std::string> input_dtypes, output_dtypes;
    FlightState state = FlightState::scheduled;
};

struct FlightGroup {
    std::string description;          // "default_pg"
    std::vector<std::int64_t> ranks;  // of the job, ascending
    bool operator==(const FlightGroup&) const = default;
};

struct FlightDump {
    std::string file;
    std::int64_t rank = -1;
    std::map<std::string, FlightGroup> groups;  // by PyTorch's name
    std::vector<FlightOp> ops;                  // as they were recorded
};

}  // namespace orrery::trace
