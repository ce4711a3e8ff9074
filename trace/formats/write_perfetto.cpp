// From the trace to packets. Each is one slice's begin or end, a counter's value or a track's
// description; names are written once and then referred to by number.
#include <algorithm>
#include <optional>
#include <protozero/pbf_writer.hpp>

#include <unordered_map>

#include "trace/atomic_file.hpp"
#include "trace/formats/perfetto.hpp"
#include "trace/formats/perfetto_fields.hpp"
#include "trace/formats/rank_view.hpp"
#include "trace/formats/tables.hpp"
#include "trace/formats/transfers.hpp"
#include "trace/sound.hpp"

namespace orrery::trace {
namespace {

using namespace viewer;
using protozero::pbf_writer;

constexpr std::uint32_t kSequence = 1;
constexpr std::size_t kFlushPackets = std::size_t{1} << 20;
constexpr std::int32_t kOrderStep = 0;  // the track of the step stands first,
constexpr std::int32_t kOrderData = 1;  // then ours
constexpr std::int32_t kOrderRanks = 2;

template <typename Field>
constexpr protozero::pbf_tag_type tag(Field field) {
    return static_cast<protozero::pbf_tag_type>(field);
}

// Texts of one table of InternedData. A text that is new is put into the packet under way.
class InternedTexts {
  public:
    InternedTexts(Interned table, std::string& interned) : table_(table), interned_(&interned) {}

    std::uint64_t iid(const std::string& text) {
        const auto [entry, is_new] = iids_.try_emplace(text, iids_.size() + 1);
        if (is_new) {
            std::string bytes;
            pbf_writer string(bytes);
            string.add_uint64(tag(InternedString::iid), entry->second);
            string.add_string(tag(InternedString::text), text);
            pbf_writer(*interned_).add_message(tag(table_), bytes);
        }
        return entry->second;
    }

  private:
    Interned table_;
    std::string* interned_;
    std::unordered_map<std::string, std::uint64_t> iids_;
};

class Packets {
  public:
    explicit Packets(const std::string& path) : file_(path) {}

    std::string interned;  // InternedData of the packet under way

    void add(std::optional<std::int64_t> ns, Packet kind, const std::string& content) {
        packet_.clear();
        pbf_writer packet(packet_);
        packet.add_uint32(tag(Packet::sequence_id), kSequence);
        packet.add_uint32(tag(Packet::sequence_flags), first_ ? kStateCleared : kNeedsState);
        first_ = false;
        if (ns) packet.add_uint64(tag(Packet::timestamp), static_cast<std::uint64_t>(*ns));
        if (!interned.empty()) packet.add_message(tag(Packet::interned_data), interned);
        interned.clear();
        packet.add_message(tag(kind), content);
        pbf_writer(out_).add_message(tag(TraceField::packet), packet_);
        if (out_.size() < kFlushPackets) return;
        file_.append(out_);
        out_.clear();
    }
    void finish() {
        file_.append(out_);
        file_.commit();
    }

  private:
    native::AtomicFile file_;
    std::string out_, packet_;
    bool first_ = true;
};

// A TrackEvent of the kind that has annotations.
class EventBytes {
  public:
    void begin(EventType type, std::uint64_t track) {
        bytes.clear();
        writer().add_enum(tag(TrackEvent::type), static_cast<std::int32_t>(type));
        writer().add_uint64(tag(TrackEvent::track_uuid), track);
    }
    pbf_writer writer() { return pbf_writer(bytes); }
    void note(Note note, std::int64_t value) {
        named(note).add_int64(tag(Annotation::int_value), value);
        close();
    }
    void note_iid(Note note, std::uint64_t iid) {
        named(note).add_uint64(tag(Annotation::string_value_iid), iid);
        close();
    }
    void note_text(Note note, const std::string& text) {
        named(note).add_string(tag(Annotation::string_value), text);
        close();
    }
    // An amount, whole where it is, for viewers print a double as 98304.0; 0 says nothing.
    void note_amount(Note note, double value) {
        constexpr double kExact = 9007199254740992;  // 2^53
        if (value == 0) return;
        if (value > -kExact && value < kExact && value == static_cast<double>(whole(value)))
            named(note).add_int64(tag(Annotation::int_value), whole(value));
        else
            named(note).add_double(tag(Annotation::double_value), value);
        close();
    }

    std::string bytes;

  private:
    static std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }
    pbf_writer named(Note note) {
        annotation_.clear();
        pbf_writer writer(annotation_);
        writer.add_uint64(tag(Annotation::name_iid), static_cast<std::uint64_t>(note) + 1);
        return writer;
    }
    void close() { writer().add_message(tag(TrackEvent::debug_annotations), annotation_); }

    std::string annotation_;
};

class PerfettoWriter {
  public:
    PerfettoWriter(const Trace& trace, const std::string& path)
        : trace_(trace),
          clock_(trace),
          transfers_(transfers_of(trace)),
          packets_(path),
          categories_(Interned::event_categories, packets_.interned),
          names_(Interned::event_names, packets_.interned),
          notes_(Interned::annotation_names, packets_.interned),
          strings_(Interned::annotation_strings, packets_.interned) {}

    void run() {
        const std::vector<std::int32_t> pids = process_ids(trace_);
        describe_root();
        const std::uint64_t step = describe("step", std::nullopt, kOrderStep);
        const std::uint64_t data = describe("orrery", std::nullopt, kOrderData);
        for (const std::string_view note : kNoteNames)
            notes_.iid(std::string(note));
        event_.begin(EventType::instant, data);
        name_event(std::string(kDataEvent));
        event_.note_text(Note::tables, tables_text(trace_, pids, clock_.origin_ps()));
        put(trace_.step_start);
        event_.begin(EventType::begin, step);
        name_event("step");
        event_.note_text(Note::origin,
                         trace_.origin == Origin::predicted ? "predicted" : "measured");
        event_.note_text(Note::scenario, trace_.scenario_json);
        event_.note(Note::start_ps, trace_.step_start);
        event_.note(Note::end_ps, trace_.step_end);
        put(trace_.step_start);
        for (std::size_t t = 0; t < trace_.tracks.size(); ++t)
            put_rank(t, pids[t]);
        // Last of all: a file without it is not whole.
        event_.begin(EventType::end, step);
        put(trace_.step_end);
        packets_.finish();
    }

  private:
    void put(Picoseconds time) { packets_.add(clock_.ns(time), Packet::track_event, event_.bytes); }

    void name_event(const std::string& name) {
        event_.writer().add_uint64(tag(TrackEvent::name_iid), names_.iid(name));
    }

    void describe_root() {
        std::string bytes;
        pbf_writer root(bytes);
        root.add_uint64(tag(Descriptor::uuid), 0);
        root.add_enum(tag(Descriptor::child_ordering), kExplicitChildren);
        root.add_enum(tag(Descriptor::process_ordering), kExplicitProcesses);
        packets_.add(std::nullopt, Packet::track_descriptor, bytes);
    }

    // The uuid of a new track; `more` adds fields.
    template <typename More>
    std::uint64_t describe(const std::string& name, std::optional<std::uint64_t> parent,
                           std::int32_t order, More more) {
        std::string bytes;
        pbf_writer track(bytes);
        track.add_uint64(tag(Descriptor::uuid), ++last_uuid_);
        track.add_string(tag(Descriptor::name), name);
        if (parent) track.add_uint64(tag(Descriptor::parent_uuid), *parent);
        track.add_int32(tag(Descriptor::sibling_order_rank), order);
        more(track);
        packets_.add(std::nullopt, Packet::track_descriptor, bytes);
        return last_uuid_;
    }
    std::uint64_t describe(const std::string& name, std::optional<std::uint64_t> parent,
                           std::int32_t order) {
        return describe(name, parent, order, [](pbf_writer&) {});
    }

    void put_rank(std::size_t t, std::int32_t pid) {
        const Track& track = trace_.tracks[t];
        const RankView view = rank_view(trace_, track);
        const std::uint64_t process =
            describe(view.name, std::nullopt, kOrderRanks + static_cast<std::int32_t>(t),
                     [&](pbf_writer& descriptor) {
                         std::string bytes;
                         pbf_writer writer(bytes);
                         writer.add_int32(tag(Process::pid), pid);
                         writer.add_string(tag(Process::process_name), view.name);
                         descriptor.add_message(tag(Descriptor::process), bytes);
                         descriptor.add_enum(tag(Descriptor::child_ordering), kExplicitChildren);
                     });
        std::int32_t order = 0;
        slice_names_.clear();
        for (const Lane& lane : view.lanes) {
            const std::uint64_t uuid = describe(lane.name, process, order++);
            for (const Slice& slice : lane.slices) {
                if (lane.of_actions)
                    put_action(track, slice, uuid);
                else
                    put_op(t, slice, uuid);
            }
        }
        put_memory(view, process, order);
    }

    void put_action(const Track& track, const Slice& slice, std::uint64_t uuid) {
        const auto& program = trace_.programs[static_cast<std::size_t>(track.program)];
        const auto step = static_cast<std::size_t>(slice.index);
        event_.begin(EventType::begin, uuid);
        name_event(to_text(program.actions[step]));
        event_.note(Note::live_bytes, program.live_bytes[step]);
        put(slice.start);
        event_.begin(EventType::end, uuid);
        put(slice.end);
    }

    void put_op(std::size_t t, const Slice& slice, std::uint64_t uuid) {
        const Track& track = trace_.tracks[t];
        const auto i = static_cast<std::size_t>(slice.index);
        const OpName& op = trace_.op_of(track, i);
        event_.begin(EventType::begin, uuid);
        event_.writer().add_uint64(tag(TrackEvent::name_iid), names_.iid(name_of(track, i)));
        for (const std::string_view category : categories_of(op))
            event_.writer().add_uint64(tag(TrackEvent::category_iids),
                                       categories_.iid(std::string(category)));
        put_flows(transfers_.sent[t], slice.index, TrackEvent::flow_ids);
        note_times(track, i);
        note_op(track, i, op);
        put(slice.start);
        // The arrow arrives at the end: send and receive start together, often both ways.
        event_.begin(EventType::end, uuid);
        put_flows(transfers_.received[t], slice.index, TrackEvent::terminating_flow_ids);
        put(slice.end);
    }

    void put_flows(const std::vector<TransferEnd>& ends, std::int32_t op_id, TrackEvent field) {
        for (auto end = std::lower_bound(ends.begin(), ends.end(), TransferEnd{op_id, 0});
             end != ends.end() && end->first == op_id; ++end)
            event_.writer().add_fixed64(tag(field), end->second);
    }

    void note_times(const Track& track, std::size_t i) {
        const Event event = track.events[i];
        event_.note(Note::op_id, static_cast<std::int64_t>(i));
        event_.note(Note::ready_ps, event.ready);
        event_.note(Note::start_ps, event.start);
        event_.note(Note::end_ps, event.end);
        if (event.blocker != kNothing) {
            event_.note(Note::blocker, event.blocker);
            const bool host = event.blocker == kHost;
            event_.note_iid(
                Note::waited_for,
                strings_.iid(host ? waited_for(trace_, track, i)
                                  : name_of(track, static_cast<std::size_t>(event.blocker))));
        }
        if (event.late_track < 0) return;
        event_.note(Note::late_track, event.late_track);
        event_.note(Note::late_rank,
                    trace_.tracks[static_cast<std::size_t>(event.late_track)].rank);
    }

    void note_op(const Track& track, std::size_t i, const OpName& op) {
        const auto& program = trace_.programs[static_cast<std::size_t>(track.program)];
        event_.note_iid(Note::action, strings_.iid(to_text(program.actions[program.step[i]])));
        if (program.layer[i] >= 0) event_.note(Note::layer, program.layer[i]);
        event_.note_iid(Note::block, strings_.iid(op.block));
        if (op.group != plan::GroupKind::none)
            event_.note_iid(Note::group, strings_.iid(std::string(plan::name(op.group))));
        event_.note_amount(Note::flops, op.flops);
        event_.note_amount(Note::bytes, op.bytes);
        event_.note_amount(Note::sent_bytes, op.sent_bytes);
    }

    void put_memory(const RankView& view, std::uint64_t process, std::int32_t order) {
        const std::uint64_t uuid =
            describe("planned memory", process, order, [](pbf_writer& descriptor) {
                std::string bytes;
                pbf_writer(bytes).add_enum(tag(Counter::unit), kUnitBytes);
                descriptor.add_message(tag(Descriptor::counter), bytes);
            });
        for (const MemoryChange& change : view.memory) {
            event_.begin(EventType::counter, uuid);
            event_.writer().add_int64(tag(TrackEvent::counter_value), change.live_bytes);
            put(change.at);
        }
    }

    // Of an op of the rank under way; a step and an op of the plan have one name.
    const std::string& name_of(const Track& track, std::size_t i) {
        const auto& program = trace_.programs[static_cast<std::size_t>(track.program)];
        const auto [entry, is_new] = slice_names_.try_emplace(std::uint64_t{program.step[i]} << 32 |
                                                              std::uint64_t{program.op[i]});
        if (is_new) entry->second = slice_name(trace_, program, i);
        return entry->second;
    }

    const Trace& trace_;
    ViewerClock clock_;
    Transfers transfers_;
    Packets packets_;
    InternedTexts categories_, names_, notes_, strings_;
    EventBytes event_;
    std::unordered_map<std::uint64_t, std::string> slice_names_;
    std::uint64_t last_uuid_ = 0;
};

}  // namespace

void write_perfetto(const Trace& trace, const std::string& path) {
    check_sound(trace);
    PerfettoWriter(trace, path).run();
}

}  // namespace orrery::trace
