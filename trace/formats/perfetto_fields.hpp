// Field numbers of the Perfetto trace format that we use, and the annotations that are ours.
// Source: protos/perfetto/trace/{trace,trace_packet}.proto, track_event/*.proto and
// interned_data.proto of github.com/google/perfetto. Internal to trace/.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace orrery::trace::viewer {

enum class TraceField : std::uint32_t { packet = 1 };

enum class Packet : std::uint32_t {
    timestamp = 8,  // ns
    sequence_id = 10,
    track_event = 11,
    interned_data = 12,
    sequence_flags = 13,
    track_descriptor = 60
};
inline constexpr std::uint32_t kStateCleared = 1;
inline constexpr std::uint32_t kNeedsState = 2;

enum class Descriptor : std::uint32_t {
    uuid = 1,
    name = 2,
    process = 3,
    parent_uuid = 5,
    counter = 8,
    child_ordering = 11,
    sibling_order_rank = 12,
    process_ordering = 19  // of uuid 0: whether processes are ordered by sibling_order_rank
};
inline constexpr std::int32_t kExplicitChildren = 3;
inline constexpr std::int32_t kExplicitProcesses = 1;

enum class Process : std::uint32_t { pid = 1, process_name = 6 };
enum class Counter : std::uint32_t { unit = 3 };
inline constexpr std::int32_t kUnitBytes = 3;

enum class TrackEvent : std::uint32_t {
    category_iids = 3,
    debug_annotations = 4,
    type = 9,
    name_iid = 10,
    track_uuid = 11,
    counter_value = 30,
    flow_ids = 47,
    terminating_flow_ids = 48
};
enum class EventType : std::int32_t { begin = 1, end = 2, instant = 3, counter = 4 };

enum class Annotation : std::uint32_t {
    name_iid = 1,
    int_value = 4,
    double_value = 5,
    string_value = 6,
    string_value_iid = 17
};

enum class Interned : std::uint32_t {
    event_categories = 1,
    event_names = 2,
    annotation_names = 3,
    annotation_strings = 29
};
enum class InternedString : std::uint32_t { iid = 1, text = 2 };

// Our annotations; iid = position + 1. Those that the reader needs come first.
enum class Note : std::uint8_t {
    tables,
    op_id,
    ready_ps,
    start_ps,
    end_ps,
    blocker,
    late_track,
    origin,
    scenario,
    action,
    layer,
    block,
    group,
    flops,
    bytes,
    sent_bytes,
    waited_for,
    late_rank,
    live_bytes
};
inline constexpr std::size_t kNotes = 19;
inline constexpr std::array<std::string_view, kNotes> kNoteNames = {
    "tables", "op_id",      "ready_ps",   "start_ps",  "end_ps",    "blocker", "late_track",
    "origin", "scenario",   "action",     "layer",     "block",     "group",   "flops",
    "bytes",  "sent_bytes", "waited_for", "late_rank", "live_bytes"};

}  // namespace orrery::trace::viewer
