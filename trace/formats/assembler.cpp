#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trace/formats/tables.hpp"
#include "trace/sound.hpp"

namespace orrery::trace::viewer {
namespace {

// No format spells an event in less; one takes 32 bytes and a bit in memory.
constexpr std::uint64_t kLeastEventBytes = 16;

Picoseconds time_of(const std::optional<std::int64_t>& value, const char* key) {
    if (!value || *value < -kTimeLimit || *value > kTimeLimit)
        throw Unexpected(fmt::format("expected \"{}\" within 2^61 ps", key));
    return *value;
}

}  // namespace

Assembler::Assembler(Tables tables, std::uint64_t file_bytes) : trace_(std::move(tables.trace)) {
    std::uint64_t left = file_bytes / kLeastEventBytes;
    for (const Track& track : trace_.tracks) {
        const std::size_t events =
            trace_.programs[static_cast<std::size_t>(track.program)].op.size();
        if (events > left)
            throw Unexpected(
                "expected fewer tracks or ops than a file of this size can hold events");
        left -= events;
    }
    for (std::size_t t = 0; t < trace_.tracks.size(); ++t) {
        const auto program = static_cast<std::size_t>(trace_.tracks[t].program);
        events_.emplace_back(trace_.programs[program].op.size());
        seen_.emplace_back(events_[t].size(), false);
        track_by_pid_.push_back({tables.pids[t], t});
    }
    std::sort(track_by_pid_.begin(), track_by_pid_.end());
    for (std::size_t i = 1; i < track_by_pid_.size(); ++i)
        if (track_by_pid_[i].first == track_by_pid_[i - 1].first)
            throw Unexpected(
                fmt::format("expected one track of process {}", track_by_pid_[i].first));
}

std::size_t Assembler::track_of(std::int64_t pid) const {
    const auto found = std::lower_bound(
        track_by_pid_.begin(), track_by_pid_.end(), pid,
        [](const auto& entry, std::int64_t wanted) { return entry.first < wanted; });
    if (found == track_by_pid_.end() || found->first != pid)
        throw Unexpected(fmt::format("expected a process of the tables, found {}", pid));
    return found->second;
}

void Assembler::add(std::size_t track, const EventFields& fields) {
    std::vector<Event>& events = events_[track];
    if (!fields.op_id || *fields.op_id < 0 ||
        *fields.op_id >= static_cast<std::int64_t>(events.size()))
        throw Unexpected(fmt::format("expected \"op_id\" below {}", events.size()));
    const auto op_id = static_cast<std::size_t>(*fields.op_id);
    if (seen_[track][op_id])
        throw Unexpected(fmt::format("expected op {} of track {} once", op_id, track));
    seen_[track][op_id] = true;
    Event event;
    event.ready = time_of(fields.ready_ps, "ready_ps");
    event.start = time_of(fields.start_ps, "start_ps");
    event.end = time_of(fields.end_ps, "end_ps");
    if (event.ready > event.start || event.start > event.end)
        throw Unexpected("expected ready_ps <= start_ps <= end_ps");
    if (fields.blocker < kNothing || fields.blocker >= *fields.op_id)
        throw Unexpected(fmt::format("expected \"blocker\" before op {}", op_id));
    event.blocker = static_cast<std::int32_t>(fields.blocker);
    if (fields.late_track < -1 ||
        fields.late_track >= static_cast<std::int64_t>(trace_.tracks.size()))
        throw Unexpected(fmt::format("expected \"late_track\" below {}", trace_.tracks.size()));
    event.late_track = static_cast<std::int32_t>(fields.late_track);
    events[op_id] = event;
}

Trace Assembler::finish() {
    for (std::size_t t = 0; t < seen_.size(); ++t) {
        const auto missing = std::find(seen_[t].begin(), seen_[t].end(), false);
        if (missing != seen_[t].end())
            throw Unexpected(fmt::format("expected op {} of track {}, which is missing",
                                         missing - seen_[t].begin(), t));
        trace_.tracks[t].events = std::exchange(events_[t], {});
    }
    return std::move(trace_);
}

}  // namespace orrery::trace::viewer
