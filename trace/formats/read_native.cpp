// From bytes to the trace. Nothing in the file is believed: a count is compared with the bytes that
// are left before anything is allocated, an index with what it points into.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "trace/formats/frame_reader.hpp"
#include "trace/formats/native.hpp"
#include "trace/formats/native_header.hpp"
#include "trace/sound.hpp"

namespace orrery::trace {
namespace {

using namespace native;

constexpr std::uint64_t kOpBytes =
    30;  // at least, in the file: two texts, four names, three numbers
constexpr std::uint64_t kActionBytes = 2;  // a text, a difference
constexpr std::size_t kFixedFrames = 4;    // header, scenario, facts, ops

template <std::size_t n>
std::array<ByteReader, n> get_columns(ByteReader& in) {
    std::array<std::size_t, n> sizes;
    for (std::size_t& size : sizes)
        size = in.count(1, "bytes of a column");
    const auto columns = [&]<std::size_t... c>(std::index_sequence<c...>) {
        return std::array<ByteReader, n>{in.part(sizes[c])...};
    }
    (std::make_index_sequence<n>());
    in.expect_end();
    return columns;
}

// Wraps around instead of overflowing; callers check the range of the result.
std::int64_t plus(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

// The next value of a column of differences.
std::int64_t next(ByteReader& column, std::int64_t& last, std::int64_t least, std::int64_t most,
                  const char* what) {
    const ByteReader before = column;
    last = plus(last, column.signed_varint());
    if (last < least || last > most)
        before.fail(fmt::format("{} from {} to {}, found {}", what, least, most, last));
    return last;
}

class NativeReader {
  public:
    explicit NativeReader(const std::string& path) : file_(path) {}

    Trace run() {
        const NativeHeader header = read_header(file_.unpack(0, FrameKind::header, 0));
        if (header.programs > file_.frames() || header.tracks > file_.frames() ||
            kFixedFrames + header.programs + header.tracks != file_.frames())
            file_.fail(kHeadBytes,
                       fmt::format("{} frames for {} programs and {} tracks, found {}",
                                   kFixedFrames, header.programs, header.tracks, file_.frames()));
        trace_.origin = header.origin;
        trace_.step_start = header.step_start;
        trace_.step_end = header.step_end;
        trace_.scenario_json = file_.unpack(1, FrameKind::scenario, 0).bytes;
        read_facts();
        trace_.facts.storage = header.storage;
        read_ops(header);
        trace_.programs.resize(header.programs);
        for (std::size_t i = 0; i < header.programs; ++i)
            read_program(file_.unpack(kFixedFrames + i, FrameKind::program, i), trace_.programs[i]);
        trace_.tracks.resize(header.tracks);
        EventPrediction prediction(trace_.ops.size());
        std::uint64_t events = 0;
        for (std::size_t i = 0; i < header.tracks; ++i) {
            const auto frame =
                file_.unpack(kFixedFrames + header.programs + i, FrameKind::track, i);
            read_track(frame, prediction, trace_.tracks[i]);
            events += trace_.tracks[i].events.size();
        }
        if (events != header.events)
            file_.fail(kHeadBytes, fmt::format("{} events as the header says, found {}",
                                               header.events, events));
        return std::move(trace_);
    }

  private:
    void read_facts() {
        constexpr auto kMost = std::uint64_t{1} << 63;
        const UnpackedFrame frame = file_.unpack(2, FrameKind::facts, 0);
        ByteReader in = frame.reader();
        RunFacts& facts = trace_.facts;
        facts.prices = in.text();
        facts.backend = in.text();
        facts.ranks_per_device = static_cast<std::int64_t>(in.below(kMost, "a number of ranks"));
        for (auto* bytes : {&facts.arena_bytes, &facts.high_water_bytes, &facts.other_bytes}) {
            bytes->resize(in.count(1, "sizes"));
            for (std::int64_t& of_one : *bytes)
                of_one = static_cast<std::int64_t>(in.below(kMost, "a size"));
        }
        facts.step_times_s.resize(in.count(sizeof(double), "times of steps"));
        for (double& time : facts.step_times_s) {
            time = in.number();
            if (!std::isfinite(time) || time < 0) in.fail("the time of a step before this");
        }
        in.expect_end();
    }

    void read_ops(const NativeHeader& header) {
        const UnpackedFrame frame = file_.unpack(3, FrameKind::ops, 0);
        ByteReader in = frame.reader();
        if (header.ops > in.remaining() / kOpBytes)
            in.fail(fmt::format("{} ops of at least {} bytes, found {} bytes", header.ops, kOpBytes,
                                in.remaining()));
        trace_.ops.resize(header.ops);
        for (OpName& op : trace_.ops) {
            op.block = in.text();
            op.label = in.text();
            op.kind = header.kinds[in.below(header.kinds.size(), "an index of a kind")];
            op.phase = header.phases[in.below(header.phases.size(), "an index of a phase")];
            op.stream = header.streams[in.below(header.streams.size(), "an index of a stream")];
            op.group = header.groups[in.below(header.groups.size(), "an index of a group")];
            for (double* number : {&op.flops, &op.bytes, &op.sent_bytes}) {
                *number = in.number();
                if (!std::isfinite(*number)) in.fail("a finite number before this");
            }
        }
        in.expect_end();
    }

    void read_program(const UnpackedFrame& frame, ProgramOps& program) const {
        ByteReader in = frame.reader();
        program.pipeline_rank =
            static_cast<std::int32_t>(in.below(std::uint64_t{1} << 31, "a pipeline rank"));
        const std::size_t steps = in.count(kActionBytes, "actions");
        program.actions.resize(steps);
        program.live_bytes.resize(steps);
        std::int64_t live_bytes = 0;
        for (std::size_t i = 0; i < steps; ++i) {
            auto actions = parse_actions(in.text());
            if (!actions) in.fail("actions before this");
            program.actions[i] = std::move(*actions);
            program.live_bytes[i] =
                next(in, live_bytes, 0, std::numeric_limits<std::int64_t>::max(), "live bytes");
        }
        const std::size_t size = in.count(3, "ops");
        auto [ops, step_of, layers] = get_columns<3>(in);
        program.op.resize(size);
        program.step.resize(size);
        program.layer.resize(size);
        const auto last_op = static_cast<std::int64_t>(trace_.ops.size()) - 1;
        const auto last_step = static_cast<std::int64_t>(steps) - 1;
        std::int64_t op = 0, step = 0, layer = 0;
        for (std::size_t i = 0; i < size; ++i) {
            program.op[i] = static_cast<std::uint32_t>(next(ops, op, 0, last_op, "an op"));
            program.step[i] =
                static_cast<std::uint32_t>(next(step_of, step, 0, last_step, "a step"));
            program.layer[i] = static_cast<std::int16_t>(
                next(layers, layer, -1, std::numeric_limits<std::int16_t>::max(), "a layer"));
        }
        for (const ByteReader* column : {&ops, &step_of, &layers})
            column->expect_end();
    }

    void read_track(const UnpackedFrame& frame, EventPrediction& prediction, Track& track) const {
        constexpr auto kMost = std::uint64_t{1} << 63;
        ByteReader in = frame.reader();
        track.rank = static_cast<std::int64_t>(in.below(kMost, "a rank"));
        track.program = static_cast<std::int32_t>(in.below(trace_.programs.size(), "a program"));
        track.alike.resize(in.count(2, "ranges of ranks"));
        std::int64_t last = track.rank;
        for (RankRange& range : track.alike) {
            range.first = plus(last, static_cast<std::int64_t>(in.below(kMost, "a rank")));
            range.count = static_cast<std::int64_t>(in.below(kMost, "a number of ranks"));
            last = plus(range.first, range.count - 1);
        }
        if (!are_apart(track)) in.fail("ranks in ascending order before this");
        const ProgramOps& program = trace_.programs[static_cast<std::size_t>(track.program)];
        const std::size_t size = in.count(5, "events");
        if (size != program.op.size())
            in.fail(fmt::format("{} events before this, one per op of program {}, found {}",
                                program.op.size(), track.program, size));
        auto columns = get_columns<5>(in);
        std::vector<Event> events(size);
        prediction.reset(program);
        for (std::size_t i = 0; i < size; ++i)
            read_event(columns, prediction, program.op[i], events, i);
        track.events = events;
        for (const ByteReader& column : columns)
            column.expect_end();
    }

    void read_event(std::array<ByteReader, 5>& columns, EventPrediction& prediction,
                    std::uint32_t op, std::vector<Event>& events, std::size_t i) const {
        auto& [blockers, readies, waits, durations, lates] = columns;
        Event e;
        const std::uint64_t blocker = blockers.varint();
        if (blocker > kBlockerOp + i)
            blockers.fail(fmt::format("a blocker of event {} at most {} events before it, found {}",
                                      i, i, blocker - kBlockerOp));
        if (blocker > kBlockerOp)
            e.blocker = static_cast<std::int32_t>(i - (blocker - kBlockerOp));
        else
            e.blocker = blocker == kBlockerHost ? kHost : kNothing;
        e.ready = plus(prediction.ready(events, e.blocker), readies.signed_varint());
        if (e.ready < -kTimeLimit || e.ready > kTimeLimit)
            readies.fail(fmt::format("event {} to be ready within 2^61 ps", i));
        const std::uint64_t wait = waits.varint();
        if (wait > static_cast<std::uint64_t>(kTimeLimit - e.ready))
            waits.fail(fmt::format("event {} to start within 2^61 ps", i));
        e.start = e.ready + static_cast<Picoseconds>(wait);
        const Picoseconds duration = plus(prediction.duration(op), durations.signed_varint());
        if (duration < 0 || duration > kTimeLimit - e.start)
            durations.fail(fmt::format("event {} to end after its start, within 2^61 ps", i));
        e.end = e.start + duration;
        const std::uint64_t late = lates.varint();
        if (late > trace_.tracks.size())
            lates.fail(
                fmt::format("a late track below {}, found {}", trace_.tracks.size(), late - 1));
        e.late_track = static_cast<std::int32_t>(late) - 1;
        prediction.saw(e, op);
        events[i] = e;
    }

    FrameReader file_;
    Trace trace_;
};

}  // namespace

Trace read_native(const std::string& path) {
    return NativeReader(path).run();
}

}  // namespace orrery::trace
