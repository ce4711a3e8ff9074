// From the trace to bytes. Each frame is a list of columns, and a column holds differences from
// what the reader can predict.
#include <array>
#include <nlohmann/json.hpp>

#include "trace/formats/byte_writer.hpp"
#include "trace/formats/frame_writer.hpp"
#include "trace/formats/native.hpp"
#include "trace/formats/native_layout.hpp"
#include "trace/formats/storage_facts.hpp"
#include "trace/program_version.hpp"
#include "trace/sound.hpp"

namespace orrery::trace {
namespace {

using namespace native;

// Names of an enumeration's values that occur, in the order in which they do: ops hold indices into
// it, so that the order of the enumerators in the program is nobody's business.
template <typename Enum>
class Names {
  public:
    std::uint64_t index_of(Enum value) {
        const std::string_view name = plan::name(value);
        for (std::size_t i = 0; i < names_.size(); ++i)
            if (names_[i] == name) return i;
        names_.push_back(name);
        return names_.size() - 1;
    }
    const std::vector<std::string_view>& list() const { return names_; }

  private:
    std::vector<std::string_view> names_;
};

// The columns of a frame: their sizes, then their bytes.
template <std::size_t n>
void put_columns(ByteWriter& out, const std::array<ByteWriter, n>& columns) {
    for (const ByteWriter& column : columns)
        out.varint(column.bytes().size());
    for (const ByteWriter& column : columns)
        out.append(column.bytes());
}

class NativeWriter {
  public:
    NativeWriter(const Trace& trace, const std::string& path)
        : trace_(trace), file_(path), prediction_(trace.ops.size()) {}

    void run() {
        check_sound(trace_);
        const std::string ops = ops_frame();  // finds the names that the header lists
        file_.add(FrameKind::header, 0, header_frame());
        file_.add(FrameKind::scenario, 0, trace_.scenario_json);
        file_.add(FrameKind::facts, 0, facts_frame());
        file_.add(FrameKind::ops, 0, ops);
        for (std::size_t i = 0; i < trace_.programs.size(); ++i)
            file_.add(FrameKind::program, i, program_frame(trace_.programs[i]));
        for (std::size_t i = 0; i < trace_.tracks.size(); ++i)
            file_.add(FrameKind::track, i, track_frame(trace_.tracks[i]));
        file_.finish();
    }

  private:
    std::string header_frame() const {
        std::size_t events = 0;
        for (const Track& track : trace_.tracks)
            events += track.events.size();
        nlohmann::json header = {
            {"format", kFormat},
            {"tool", tool_name()},
            {"origin", trace_.origin == Origin::predicted ? "predicted" : "measured"},
            {"step_start_ps", trace_.step_start},
            {"step_end_ps", trace_.step_end},
            {"counts",
             {{"ops", trace_.ops.size()},
              {"programs", trace_.programs.size()},
              {"tracks", trace_.tracks.size()},
              {"events", events}}},
            {"names",
             {{"kind", kinds_.list()},
              {"phase", phases_.list()},
              {"stream", streams_.list()},
              {"group", groups_.list()}}}};
        if (!trace_.facts.storage.empty()) header["storage"] = to_json(trace_.facts.storage);
        return header.dump();
    }

    std::string facts_frame() const {
        const RunFacts& facts = trace_.facts;
        ByteWriter out;
        out.text(facts.prices);
        out.text(facts.backend);
        out.varint(static_cast<std::uint64_t>(facts.ranks_per_device));
        for (const auto* bytes :
             {&facts.arena_bytes, &facts.high_water_bytes, &facts.other_bytes}) {
            out.varint(bytes->size());
            for (const std::int64_t of_one : *bytes)
                out.varint(static_cast<std::uint64_t>(of_one));
        }
        out.varint(facts.step_times_s.size());
        for (const double time : facts.step_times_s)
            out.number(time);
        return out.bytes();
    }

    std::string ops_frame() {
        ByteWriter out;
        for (const OpName& op : trace_.ops) {
            out.text(op.block);
            out.text(op.label);
            out.varint(kinds_.index_of(op.kind));
            out.varint(phases_.index_of(op.phase));
            out.varint(streams_.index_of(op.stream));
            out.varint(groups_.index_of(op.group));
            for (const double number : {op.flops, op.bytes, op.sent_bytes})
                out.number(number);
        }
        return out.bytes();
    }

    std::string program_frame(const ProgramOps& program) const {
        const std::size_t size = program.op.size();
        ByteWriter out;
        out.varint(static_cast<std::uint64_t>(program.pipeline_rank));
        out.varint(program.actions.size());
        std::int64_t last_bytes = 0;
        for (std::size_t i = 0; i < program.actions.size(); ++i) {
            out.text(to_text(program.actions[i]));
            out.signed_varint(program.live_bytes[i] - last_bytes);
            last_bytes = program.live_bytes[i];
        }
        out.varint(size);
        std::array<ByteWriter, 3> columns;
        std::int64_t op = 0, step = 0, layer = 0;
        for (std::size_t i = 0; i < size; ++i) {
            columns[0].signed_varint(program.op[i] - op);
            columns[1].signed_varint(program.step[i] - step);
            columns[2].signed_varint(program.layer[i] - layer);
            op = program.op[i];
            step = program.step[i];
            layer = program.layer[i];
        }
        put_columns(out, columns);
        return out.bytes();
    }

    std::string track_frame(const Track& track) {
        const ProgramOps& program = trace_.programs[static_cast<std::size_t>(track.program)];
        prediction_.reset(program);
        for (ByteWriter& column : columns_)
            column.clear();
        const std::vector<Event> events = track.events.unpacked();
        for (std::size_t i = 0; i < events.size(); ++i)
            put_event(events, i, program.op[i]);
        ByteWriter out;
        out.varint(static_cast<std::uint64_t>(track.rank));
        out.varint(static_cast<std::uint64_t>(track.program));
        out.varint(track.alike.size());
        std::int64_t last = track.rank;
        for (const RankRange& range : track.alike) {
            out.varint(static_cast<std::uint64_t>(range.first - last));
            out.varint(static_cast<std::uint64_t>(range.count));
            last = range.first + range.count - 1;
        }
        out.varint(track.events.size());
        put_columns(out, columns_);
        return out.bytes();
    }

    void put_event(const std::vector<Event>& events, std::size_t i, std::uint32_t op) {
        const Event& e = events[i];
        if (e.blocker >= 0)
            columns_[0].varint(kBlockerOp + i - static_cast<std::size_t>(e.blocker));
        else
            columns_[0].varint(e.blocker == kHost ? kBlockerHost : kBlockerNothing);
        columns_[1].signed_varint(e.ready - prediction_.ready(events, e.blocker));
        columns_[2].varint(static_cast<std::uint64_t>(e.start - e.ready));
        columns_[3].signed_varint(e.end - e.start - prediction_.duration(op));
        columns_[4].varint(static_cast<std::uint64_t>(std::int64_t{e.late_track} + 1));
        prediction_.saw(e, op);
    }

    const Trace& trace_;
    FrameWriter file_;
    Names<plan::OpKind> kinds_;
    Names<plan::Phase> phases_;
    Names<plan::Stream> streams_;
    Names<plan::GroupKind> groups_;
    EventPrediction prediction_;
    std::array<ByteWriter, 5> columns_;
};

}  // namespace

void write_native(const Trace& trace, const std::string& path) {
    NativeWriter(trace, path).run();
}

}  // namespace orrery::trace
