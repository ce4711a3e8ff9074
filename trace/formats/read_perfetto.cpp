// From packets to the trace. Nothing in the file is believed: the wire type of a field is looked at
// before its value, messages are walked to a fixed depth, and all that is allocated is in the file.
#include <fmt/format.h>

#include <optional>
#include <protozero/pbf_reader.hpp>
#include <unordered_map>

#include "trace/formats/perfetto.hpp"
#include "trace/formats/perfetto_fields.hpp"
#include "trace/formats/tables.hpp"

namespace orrery::trace {
namespace {

using namespace viewer;
using protozero::data_view;
using protozero::pbf_reader;
using protozero::pbf_wire_type;

// Calls visit(field, reader) for the fields of a message whose wire type is the one given, so that
// the visitor may get a value of that type. Others are skipped.
template <typename Field, typename Visit>
void for_each(pbf_reader message, std::initializer_list<std::pair<Field, pbf_wire_type>> wanted,
              Visit visit) {
    while (message.next()) {
        bool taken = false;
        for (const auto& [field, type] : wanted) {
            if (message.tag() != static_cast<protozero::pbf_tag_type>(field) ||
                message.wire_type() != type)
                continue;
            visit(field, message);
            taken = true;
            break;
        }
        if (!taken) message.skip();
    }
}

struct EventMessage {
    EventType type{};
    std::uint64_t track = 0;
    EventFields fields;
    data_view tables;
    bool has_tables = false;
};

class PerfettoReader {
  public:
    PerfettoReader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

    Trace run() {
        try {
            pbf_reader trace(bytes_.data(), bytes_.size());
            while (at_ = offset_of(trace), trace.next()) {
                if (trace.tag() != tag(TraceField::packet) ||
                    trace.wire_type() != pbf_wire_type::length_delimited)
                    throw Unexpected("expected a packet");
                read_packet(trace.get_message());
            }
            if (!assembler_) throw Unexpected("expected the data of an orrery trace");
            if (!ended_) throw Unexpected("expected the end of the step");
            return assembler_->finish();
        } catch (const Unexpected& fault) {
            fail(fault.what());
        } catch (const protozero::exception&) {
            fail("expected a sound protobuf message");
        }
    }

  private:
    template <typename Field>
    static protozero::pbf_tag_type tag(Field field) {
        return static_cast<protozero::pbf_tag_type>(field);
    }

    [[noreturn]] void fail(const std::string& what) const {
        throw TraceFileError(TraceFault::unreadable, path_, fmt::format("byte {}: {}", at_, what));
    }

    std::size_t offset_of(const pbf_reader& reader) const {
        return bytes_.size() - reader.data().size();  // of the outermost message
    }

    void read_packet(pbf_reader packet) {
        if (ended_) throw Unexpected("expected nothing after the end of the step");
        const auto length = pbf_wire_type::length_delimited;
        // Interned names first, wherever in the packet they stand.
        for_each<Packet>(packet, {{Packet::interned_data, length}},
                         [&](Packet, pbf_reader& field) { read_names(field.get_message()); });
        for_each<Packet>(packet,
                         {{Packet::track_event, length}, {Packet::track_descriptor, length}},
                         [&](Packet kind, pbf_reader& field) {
                             if (kind == Packet::track_event)
                                 read_event(field.get_message());
                             else
                                 read_descriptor(field.get_message());
                         });
    }

    void read_names(pbf_reader interned) {
        for_each<Interned>(
            interned, {{Interned::annotation_names, pbf_wire_type::length_delimited}},
            [&](Interned, pbf_reader& field) {
                std::uint64_t iid = 0;
                data_view text;
                for_each<InternedString>(field.get_message(),
                                         {{InternedString::iid, pbf_wire_type::varint},
                                          {InternedString::text, pbf_wire_type::length_delimited}},
                                         [&](InternedString which, pbf_reader& value) {
                                             if (which == InternedString::iid)
                                                 iid = value.get_uint64();
                                             else
                                                 text = value.get_view();
                                         });
                for (std::size_t n = 0; n < kNotes; ++n)
                    if (kNoteNames[n] == std::string_view(text.data(), text.size()))
                        notes_[iid] = static_cast<Note>(n);
            });
    }

    void read_descriptor(pbf_reader descriptor) {
        std::uint64_t uuid = 0, parent = 0;
        std::optional<std::int64_t> pid;
        std::string_view name;
        for_each<Descriptor>(descriptor,
                             {{Descriptor::uuid, pbf_wire_type::varint},
                              {Descriptor::parent_uuid, pbf_wire_type::varint},
                              {Descriptor::name, pbf_wire_type::length_delimited},
                              {Descriptor::process, pbf_wire_type::length_delimited}},
                             [&](Descriptor which, pbf_reader& field) {
                                 if (which == Descriptor::uuid)
                                     uuid = field.get_uint64();
                                 else if (which == Descriptor::parent_uuid)
                                     parent = field.get_uint64();
                                 else if (which == Descriptor::name)
                                     name = view_of(field);
                                 else
                                     pid = pid_of(field.get_message());
                             });
        if (name == "step" && parent == 0 && !pid) step_uuid_ = uuid;
        if (pid) {
            if (!assembler_) throw Unexpected("expected the data of an orrery trace before ranks");
            tracks_[uuid] = assembler_->track_of(*pid);
        } else if (const auto found = tracks_.find(parent); found != tracks_.end()) {
            tracks_[uuid] = found->second;
        }
    }

    static std::string_view view_of(pbf_reader& field) {
        const data_view view = field.get_view();
        return {view.data(), view.size()};
    }

    static std::int64_t pid_of(pbf_reader process) {
        std::int64_t pid = 0;
        for_each<Process>(process, {{Process::pid, pbf_wire_type::varint}},
                          [&](Process, pbf_reader& field) { pid = field.get_int64(); });
        return pid;
    }

    void read_event(pbf_reader message) {
        EventMessage event;
        for_each<TrackEvent>(message,
                             {{TrackEvent::type, pbf_wire_type::varint},
                              {TrackEvent::track_uuid, pbf_wire_type::varint},
                              {TrackEvent::debug_annotations, pbf_wire_type::length_delimited}},
                             [&](TrackEvent which, pbf_reader& field) {
                                 if (which == TrackEvent::type)
                                     event.type = static_cast<EventType>(field.get_int32());
                                 else if (which == TrackEvent::track_uuid)
                                     event.track = field.get_uint64();
                                 else
                                     read_annotation(field.get_message(), event);
                             });
        if (event.has_tables) {
            if (assembler_) throw Unexpected("expected the data of the trace once");
            assembler_.emplace(
                read_tables(std::string_view(event.tables.data(), event.tables.size())),
                bytes_.size());
        } else if (event.type == EventType::begin && event.fields.op_id) {
            const auto track = tracks_.find(event.track);
            if (!assembler_ || track == tracks_.end())
                throw Unexpected("expected the track of an op to belong to a rank");
            assembler_->add(track->second, event.fields);
        } else if (event.type == EventType::end && step_uuid_ && event.track == *step_uuid_) {
            ended_ = true;
        }
    }

    void read_annotation(pbf_reader annotation, EventMessage& event) const {
        std::uint64_t name = 0;
        std::optional<std::int64_t> number;
        std::optional<data_view> text;
        for_each<Annotation>(annotation,
                             {{Annotation::name_iid, pbf_wire_type::varint},
                              {Annotation::int_value, pbf_wire_type::varint},
                              {Annotation::string_value, pbf_wire_type::length_delimited}},
                             [&](Annotation which, pbf_reader& field) {
                                 if (which == Annotation::name_iid)
                                     name = field.get_uint64();
                                 else if (which == Annotation::int_value)
                                     number = field.get_int64();
                                 else
                                     text = field.get_view();
                             });
        const auto note = notes_.find(name);
        if (note == notes_.end()) return;
        if (note->second == Note::tables && text) {
            event.tables = *text;
            event.has_tables = true;
        }
        if (number) take(note->second, *number, event.fields);
    }

    static void take(Note note, std::int64_t number, EventFields& fields) {
        switch (note) {
            case Note::op_id:
                fields.op_id = number;
                break;
            case Note::ready_ps:
                fields.ready_ps = number;
                break;
            case Note::start_ps:
                fields.start_ps = number;
                break;
            case Note::end_ps:
                fields.end_ps = number;
                break;
            case Note::blocker:
                fields.blocker = number;
                break;
            case Note::late_track:
                fields.late_track = number;
                break;
            default:
                break;  // for people
        }
    }

    std::string_view bytes_;
    const std::string& path_;
    std::size_t at_ = 0;  // where the packet under way begins
    std::unordered_map<std::uint64_t, Note> notes_;
    std::unordered_map<std::uint64_t, std::size_t> tracks_;  // by uuid
    std::optional<std::uint64_t> step_uuid_;
    std::optional<Assembler> assembler_;
    bool ended_ = false;
};

}  // namespace

Trace read_perfetto(std::string_view bytes, const std::string& path) {
    return PerfettoReader(bytes, path).run();
}

}  // namespace orrery::trace
