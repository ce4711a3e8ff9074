// What slices of a foreign format cannot hold of a trace, as one JSON object that the Perfetto and
// the Chrome file carry along: ops, programs, tracks, the window. docs/formats.md lists its keys.
// Internal to trace/.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::trace::viewer {

// Something else than expected was found in a file; readers add where.
class Unexpected : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct Tables {
    Trace trace;                     // its tracks have no events yet
    std::vector<std::int32_t> pids;  // by track: the process that shows it
};

// JSON text of one line. A string that is not UTF-8 is {"hex": "…"}.
std::string tables_text(const Trace& trace, const std::vector<std::int32_t>& pids,
                        Picoseconds origin_ps);
// A string as JSON for people's eyes: what is not UTF-8 is replaced.
std::string display_text(std::string_view text);

// Throws Unexpected. All is checked but the events; memory is bounded by a multiple of the JSON.
Tables read_tables(const nlohmann::json& json);
Tables read_tables(std::string_view text);

// An event as a file gives it; what is absent keeps its default.
struct EventFields {
    std::optional<std::int64_t> op_id, ready_ps, start_ps, end_ps;
    std::int64_t blocker = kNothing;
    std::int64_t late_track = -1;
};

// Puts events into their places, which have to be filled once each.
class Assembler {
  public:
    // Throws Unexpected if a file of so many bytes cannot hold the events that the tables need.
    Assembler(Tables tables, std::uint64_t file_bytes);
    // Throws Unexpected if there is no such process.
    std::size_t track_of(std::int64_t pid) const;
    // Throws Unexpected if the event is not sound or was there before.
    void add(std::size_t track, const EventFields& fields);
    // The whole trace; throws Unexpected if an event is missing.
    Trace finish();

  private:
    Trace trace_;
    std::vector<std::vector<Event>> events_;                          // by track
    std::vector<std::pair<std::int32_t, std::size_t>> track_by_pid_;  // sorted
    std::vector<std::vector<bool>> seen_;
};

}  // namespace orrery::trace::viewer
