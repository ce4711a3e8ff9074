#include "trace/formats/native.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>

#include "tests/trace/native_container.hpp"
#include "tests/trace/pipeline_trace.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;

// Two ranks of two programs; each field holds something that is not its default.
Trace small_trace() {
    Trace trace;
    trace.origin = Origin::measured;
    trace.scenario_json = "{\"name\": \"\xff not UTF-8 \", \"n\": 1}";
    trace.facts = {"a", "cpu\xff", 2, {1, INT64_MAX}, {300}, {}, {0.5, 1e300}};
    OpName gemm{"layer.forward",
                "fc1",
                plan::OpKind::gemm,
                plan::Phase::recompute,
                plan::Stream::compute,
                plan::GroupKind::none,
                1e15,
                0.1,
                0};
    OpName reduce{"",
                  "",
                  plan::OpKind::all_reduce,
                  plan::Phase::optimizer,
                  plan::Stream::data_comm,
                  plan::GroupKind::world,
                  0,
                  3,
                  1.5};
    trace.ops = {gemm, reduce};
    ProgramOps first;
    first.actions = {*parse_actions("0F0"), *parse_actions("0SEND_F0+0RECV_B0")};
    first.op = {1, 0, 0};
    first.step = {0, 1, 1};
    first.layer = {-1, 32767, 5};
    first.live_bytes = {INT64_MAX, 7};
    ProgramOps second = first;
    second.pipeline_rank = 3;
    second.op = {0};
    second.step = {1};
    second.layer = {0};
    trace.programs = {first, second};
    Track a{5,
            {{6, 15}},
            0,
            {{-7, 0, 100, kNothing, 1}, {40, 40, 240, kHost, -1}, {100, 300, 300, 0, 0}}};
    Track b{6, {}, 1, {{0, 0, 1'000'000'000'000, kHost, -1}}};
    trace.tracks = {a, b};
    trace.step_start = -10;
    trace.step_end = 1'000'000'000'001;
    return trace;
}

class NativeFile : public testing::Test {
  protected:
    std::string written(const Trace& trace) {
        write_native(trace, path_);
        return bytes_of_file(path_);
    }
    // What reading these bytes says is wrong; "" if nothing.
    std::string refusal(const std::string& bytes) {
        put_file(path_, bytes);
        try {
            read_native(path_);
        } catch (const TraceFileError& error) {
            EXPECT_EQ(error.fault(), TraceFault::unreadable);
            EXPECT_EQ(error.path(), path_);
            return std::string(error.what()).substr(path_.size() + 2);
        }
        return "";
    }
    // Refused, or read to what `trace` is.
    void expect_refused_or_same(const std::string& bytes, const Trace& trace) {
        put_file(path_, bytes);
        try {
            ASSERT_EQ(read_native(path_), trace);
        } catch (const TraceFileError& error) {
            ASSERT_EQ(error.fault(), TraceFault::unreadable);
        }
    }

    TestFolder folder_;
    std::string path_ = folder_.file("t.orrery");
};

TEST_F(NativeFile, ReadsWhatWasWritten) {
    for (const Trace& trace : {Trace{}, small_trace(), pipeline_trace({})}) {
        write_native(trace, path_);
        EXPECT_EQ(read_native(path_), trace);
    }
    EXPECT_EQ(folder_.entries(), 1U);
}

TEST_F(NativeFile, HasTheSameBytesForTheSameTrace) {
    const std::string once = written(pipeline_trace({}));
    EXPECT_EQ(written(pipeline_trace({})), once);
}

TEST_F(NativeFile, IsLaidOutAsTheFormatSays) {
    const std::string file = written(small_trace());
    EXPECT_EQ(file.substr(0, 16), std::string("\x89ORRERY\n\x02\0\0\0\0\0\0\0", 16));
    const Container container = Container::of(file);
    std::vector<std::string> frames;
    for (const auto& frame : container.frames)
        frames.push_back(frame.code + std::to_string(frame.index));
    EXPECT_THAT(frames, testing::ElementsAre("HEAD0", "SCEN0", "FACT0", "OPS_0", "PROG0", "PROG1",
                                             "TRAK0", "TRAK1"));
    const auto header = nlohmann::json::parse(container.frames[0].raw);
    EXPECT_EQ(header["format"], "orrery trace");
    EXPECT_EQ(header["origin"], "measured");
    EXPECT_EQ(header["step_end_ps"], 1'000'000'000'001);
    EXPECT_EQ(header["counts"],
              nlohmann::json::parse(R"({"ops": 2, "programs": 2, "tracks": 2, "events": 4})"));
    // Names, in the order in which ops use them: an enumeration may be reordered.
    EXPECT_EQ(header["names"], nlohmann::json::parse(R"({"kind": ["gemm", "all_reduce"],
        "phase": ["recompute", "optimizer"], "stream": ["compute", "data_comm"],
        "group": ["none", "world"]})"));
    EXPECT_EQ(container.frames[1].raw, small_trace().scenario_json);
    // "a"; "cpu" and another byte; 2 ranks on a device; 1 and 2^63 − 1 bytes; 300; none; two
    // doubles.
    EXPECT_EQ(
        container.frames[2].raw,
        std::string("\x01"
                    "a\x04"
                    "cpu\xff\x02\x02\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01\xac\x02\0\x02",
                    24) +
            std::string("\0\0\0\0\0\0\xe0\x3f\x9c\x75\0\x88\x3c\xe4\x37\x7e", 16));
    // rank 5, program 0, 1 range: 1 after it, of 15 ranks.
    EXPECT_EQ(container.frames[6].raw.substr(0, 5), std::string("\x05\0\x01\x01\x0f", 5));
    // rank 6, program 1, no ranges, 1 event; 5 columns of 1, 1, 1, 6 and 1 bytes: host (1); ready
    // 0; wait 0; 10^12 ps as 2·10^12 = 0x1D1A94A2000, seven bits a byte; late −1.
    EXPECT_EQ(
        container.frames[7].raw,
        std::string("\x06\x01\0\x01\x01\x01\x01\x06\x01\x01\0\0\x80\xc0\xa8\xca\x9a\x3a\0", 19));
}

TEST_F(NativeFile, KnowsNamesThatAnotherVersionOrdersOtherwise) {
    Container container = Container::of(written(small_trace()));
    auto header = nlohmann::json::parse(container.frames[0].raw);
    header["names"]["kind"] = {"rope", "exchange"};
    header["of a later version"] = 1;
    container.frames[0].raw = header.dump();
    put_file(path_, container.file());
    const Trace read = read_native(path_);
    EXPECT_EQ(read.ops[0].kind, plan::OpKind::rope);
    EXPECT_EQ(read.ops[1].kind, plan::OpKind::exchange);
}

// --- property ---

Picoseconds any_time() {
    return *rc::gen::inRange<Picoseconds>(-(Picoseconds{1} << 60), Picoseconds{1} << 60);
}

template <typename Enum>
Enum any_of(std::size_t n) {
    return static_cast<Enum>(*rc::gen::inRange<std::size_t>(0, n));
}

StepActions any_actions() {
    StepActions actions;
    const auto size = *rc::gen::inRange<std::size_t>(1, 4);
    for (std::size_t i = 0; i < size; ++i) {
        plan::Action action{*rc::gen::inRange(0, 1 << 20),
                            any_of<plan::ActionKind>(plan::kActionKinds)};
        const auto kind = action.kind;
        if (plan::is_compute(kind) || plan::is_transfer(kind) || plan::is_move(kind))
            action.micro_batch = *rc::gen::inRange(0, 1 << 20);
        actions.push_back(action);
    }
    return actions;
}

RunFacts any_facts() {
    const auto sizes = [] {
        return *rc::gen::container<std::vector<std::int64_t>>(
            rc::gen::inRange<std::int64_t>(0, INT64_MAX));
    };
    RunFacts facts{*rc::gen::arbitrary<std::string>(),
                   *rc::gen::arbitrary<std::string>(),
                   *rc::gen::inRange<std::int64_t>(0, INT64_MAX),
                   sizes(),
                   sizes(),
                   sizes(),
                   {}};
    for (const std::int64_t size : sizes())
        facts.step_times_s.push_back(static_cast<double>(size) / 3);
    for (const StorageFact& fact : kStorageFacts)
        if (*rc::gen::arbitrary<bool>())
            facts.storage.*fact.value =
                static_cast<double>(*rc::gen::inRange<std::int64_t>(0, INT64_MAX)) / 3;
    return facts;
}

// Ascending from the track's own rank, apart by at least one.
void add_alike(Track& track) {
    std::int64_t next = track.rank + 1;
    const auto size = *rc::gen::inRange<std::size_t>(0, 4);
    for (std::size_t i = 0; i < size && next < INT64_MAX / 2; ++i) {
        const std::int64_t first = *rc::gen::inRange<std::int64_t>(next, next + (1 << 20));
        const std::int64_t count = *rc::gen::inRange<std::int64_t>(1, 1 << 20);
        track.alike.push_back({first, count});
        next = first + count;
    }
}

ProgramOps any_program(std::size_t ops) {
    ProgramOps program;
    program.pipeline_rank = *rc::gen::inRange(0, 64);
    const auto steps = *rc::gen::inRange<std::size_t>(0, 5);
    for (std::size_t i = 0; i < steps; ++i) {
        program.actions.push_back(any_actions());
        program.live_bytes.push_back(*rc::gen::inRange<std::int64_t>(0, INT64_MAX));
    }
    const auto size = steps * ops == 0 ? 0 : *rc::gen::inRange<std::size_t>(0, 20);
    for (std::size_t i = 0; i < size; ++i) {
        program.op.push_back(*rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(ops)));
        program.step.push_back(
            *rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(steps)));
        program.layer.push_back(*rc::gen::inRange<std::int16_t>(-1, 32767));
    }
    return program;
}

Event any_event(std::size_t i, std::size_t tracks) {
    Event event;
    std::vector<Picoseconds> times{any_time(), any_time(), any_time()};
    if (*rc::gen::arbitrary<bool>()) times[1] = times[0];
    std::sort(times.begin(), times.end());
    event.ready = times[0];
    event.start = times[1];
    event.end = times[2];
    event.blocker = *rc::gen::inRange(-2, static_cast<std::int32_t>(i));
    event.late_track = *rc::gen::inRange(-1, static_cast<std::int32_t>(tracks));
    return event;
}

Trace any_trace() {
    Trace trace;
    trace.origin = any_of<Origin>(2);
    trace.scenario_json = *rc::gen::arbitrary<std::string>();
    trace.facts = any_facts();
    trace.ops.resize(*rc::gen::inRange<std::size_t>(0, 6));
    for (OpName& op : trace.ops) {
        op.block = *rc::gen::arbitrary<std::string>();
        op.label = *rc::gen::arbitrary<std::string>();
        op.kind = any_of<plan::OpKind>(plan::kOpKinds);
        op.phase = any_of<plan::Phase>(plan::kPhases);
        op.stream = any_of<plan::Stream>(plan::kStreams);
        op.group = any_of<plan::GroupKind>(plan::kGroupKinds);
        op.flops = *rc::gen::arbitrary<double>();
    }
    const auto programs = *rc::gen::inRange<std::size_t>(0, 4);
    for (std::size_t i = 0; i < programs; ++i)
        trace.programs.push_back(any_program(trace.ops.size()));
    if (programs > 0) trace.tracks.resize(*rc::gen::inRange<std::size_t>(0, 6));
    for (Track& track : trace.tracks) {
        track.rank = *rc::gen::inRange<std::int64_t>(0, INT64_MAX);
        add_alike(track);
        track.program = *rc::gen::inRange(0, static_cast<std::int32_t>(programs));
        const auto size = trace.programs[static_cast<std::size_t>(track.program)].op.size();
        std::vector<Event> events;
        for (std::size_t i = 0; i < size; ++i)
            events.push_back(any_event(i, trace.tracks.size()));
        track.events = events;
    }
    trace.step_start = any_time();
    trace.step_end = std::max(trace.step_start, any_time());
    return trace;
}

TEST_F(NativeFile, ReadsAnyTraceThatWasWritten) {
    EXPECT_TRUE(rc::check([&] {
        const Trace trace = any_trace();
        write_native(trace, path_);
        const std::string bytes = bytes_of_file(path_);
        const Trace read = read_native(path_);
        RC_ASSERT(read == trace);
        write_native(read, path_);
        RC_ASSERT(bytes_of_file(path_) == bytes);
    }));
}

// --- damage ---

TEST_F(NativeFile, IsRefusedWhereverItIsCutOff) {
    const std::string file = written(small_trace());
    for (std::size_t size = 0; size < file.size(); ++size)
        ASSERT_NE(refusal(file.substr(0, size)), "") << "cut after " << size << " bytes";
    EXPECT_EQ(refusal(file.substr(0, 20)), "byte 20: expected at least 48 bytes, found the end");
    EXPECT_EQ(refusal(file + "x"), "byte " + std::to_string(file.size() - 7) +
                                       ": expected the last bytes of a native trace, found others: "
                                       "truncated?");
}

TEST_F(NativeFile, IsRefusedOrTheSameWithAnyByteChanged) {
    const Trace trace = small_trace();
    const std::string file = written(trace);
    std::uint32_t random = 1;  // a fixed sequence
    for (std::size_t at = 0; at < file.size(); ++at)
        for (int change = 0; change < 10; ++change) {
            std::string changed = file;
            random = random * 1664525 + 1013904223;
            const unsigned mask = change < 8 ? 1U << change : 1 + (random >> 24) % 255;
            changed[at] = static_cast<char>(static_cast<unsigned char>(changed[at]) ^ mask);
            expect_refused_or_same(changed, trace);
            if (HasFatalFailure()) FAIL() << "byte " << at << " with bits " << mask;
        }
}

// Whatever is read is sound, in the sense of native.hpp.
void expect_sound(const Trace& trace) {
    for (const ProgramOps& program : trace.programs) {
        ASSERT_EQ(program.step.size(), program.op.size());
        ASSERT_EQ(program.layer.size(), program.op.size());
        ASSERT_EQ(program.live_bytes.size(), program.actions.size());
        for (std::size_t i = 0; i < program.op.size(); ++i) {
            ASSERT_LT(program.op[i], trace.ops.size());
            ASSERT_LT(program.step[i], program.actions.size());
        }
    }
    for (const Track& track : trace.tracks) {
        ASSERT_LT(static_cast<std::size_t>(track.program), trace.programs.size());
        ASSERT_EQ(track.events.size(),
                  trace.programs[static_cast<std::size_t>(track.program)].op.size());
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            const Event event = track.events[i];
            ASSERT_GE(event.blocker, kNothing);
            ASSERT_LT(event.blocker, static_cast<std::int32_t>(i));
            ASSERT_GE(event.late_track, -1);
            ASSERT_LT(event.late_track, static_cast<std::int32_t>(trace.tracks.size()));
            ASSERT_LE(event.ready, event.start);
            ASSERT_LE(event.start, event.end);
        }
    }
}

TEST_F(NativeFile, IsRefusedOrSoundWithForgedFrames) {
    const Container container = Container::of(written(small_trace()));
    std::uint32_t random = 1;
    std::size_t refused = 0, sound = 0;
    for (std::size_t f = 0; f < container.frames.size(); ++f)
        for (std::size_t at = 0; at < container.frames[f].raw.size(); ++at)
            for (int change = 0; change < 12; ++change) {
                Container forged = container;
                random = random * 1664525 + 1013904223;
                const unsigned mask = change < 8 ? 1U << change : 1 + (random >> 24) % 255;
                char& byte = forged.frames[f].raw[at];
                byte = static_cast<char>(static_cast<unsigned char>(byte) ^ mask);
                put_file(path_, forged.file());
                try {
                    expect_sound(read_native(path_));
                    ++sound;
                } catch (const TraceFileError&) {
                    ++refused;
                }
                if (HasFatalFailure()) FAIL() << "frame " << f << " byte " << at;
            }
    EXPECT_GT(refused, 1000U);
    EXPECT_GT(sound, 1000U);  // letters of a label may be any
}

TEST_F(NativeFile, SaysWhatIsWrongWithAForgedFrame) {
    const Container container = Container::of(written(small_trace()));
    const auto changed = [&](std::size_t frame, std::size_t at, char byte) {
        Container forged = container;
        forged.frames[frame].raw.at(at) = byte;
        return refusal(forged.file());
    };
    // Track 0: its range of ranks would begin with itself, or have none.
    EXPECT_THAT(changed(6, 3, 0), HasSubstr("expected ranks in ascending order before this"));
    EXPECT_THAT(changed(6, 4, 0), HasSubstr("expected ranks in ascending order before this"));
    // Track 1: see IsLaidOutAsTheFormatSays. Columns begin at byte 9.
    EXPECT_THAT(changed(7, 1, 2),
                HasSubstr("(TRAK 1, byte 1 unpacked): expected a program below 2, "
                          "found 2"));
    EXPECT_THAT(changed(7, 2, 99), HasSubstr("expected at most"));
    EXPECT_THAT(changed(7, 3, 0),
                HasSubstr("expected 1 events before this, one per op of program 1"));
    EXPECT_THAT(changed(7, 9, 2),
                HasSubstr("expected a blocker of event 0 at most 0 events before it, found 1"));
    EXPECT_THAT(changed(7, 18, 3), HasSubstr("expected a late track below 2, found 2"));
    EXPECT_THAT(changed(7, 12, '\x81'), HasSubstr("expected event 0 to end after its start"));
    EXPECT_THAT(changed(7, 8, 2), HasSubstr("expected 2 more bytes, found the end after 1"));
    // Program 1: rank 3, 2 actions of 3 and 17 letters with live bytes of 10 and 10 bytes, 1 op.
    EXPECT_EQ(container.frames[5].raw.size(), 2 + 4 + 10 + 18 + 10 + 1 + 3 + 3U);
    EXPECT_THAT(changed(5, 48, 4), HasSubstr("expected an op from 0 to 1, found 2"));
    EXPECT_THAT(changed(5, 49, 4), HasSubstr("expected a step from 0 to 1, found 2"));
    EXPECT_THAT(changed(5, 50, 3), HasSubstr("expected a layer from -1 to 32767, found -2"));
    EXPECT_THAT(changed(5, 44, 99), HasSubstr("expected at most 2 ops in the 6 bytes left"));
}

TEST_F(NativeFile, RefusesAHeaderThatDoesNotFit) {
    const Container container = Container::of(written(small_trace()));
    const auto with = [&](const char* pointer, const nlohmann::json& value) {
        Container forged = container;
        auto header = nlohmann::json::parse(forged.frames[0].raw);
        header[nlohmann::json::json_pointer(pointer)] = value;
        forged.frames[0].raw = header.dump();
        return refusal(forged.file());
    };
    EXPECT_THAT(with("/counts/tracks", 3), HasSubstr("expected 4 frames for 2 programs and 3"));
    EXPECT_THAT(with("/counts/tracks", INT64_MAX), HasSubstr("found 8"));
    EXPECT_THAT(with("/counts/events", 5),
                HasSubstr("expected 5 events as the header says, found 4"));
    EXPECT_THAT(with("/counts/ops", 1e18), HasSubstr("\"ops\" to be an integer"));
    EXPECT_THAT(with("/counts/ops", INT64_MAX), HasSubstr("ops of at least 30 bytes"));
    EXPECT_THAT(with("/counts/ops", UINT64_MAX), HasSubstr("\"ops\" to be an integer"));
    EXPECT_THAT(with("/step_end_ps", -11), HasSubstr("\"step_end_ps\" to be an integer from -10"));
    EXPECT_THAT(with("/origin", "guessed"), HasSubstr("\"predicted\" or \"measured\""));
    EXPECT_THAT(with("/format", "another"), HasSubstr("\"orrery trace\""));
    EXPECT_THAT(with("/names/kind/0", "magic"), HasSubstr("a known kind, found \"magic\""));
    EXPECT_THAT(with("/names/kind", nlohmann::json::array()),
                HasSubstr("an index of a kind below 0"));
    EXPECT_THAT(with("/padding", std::string(70'000, 'x')), HasSubstr("at most 65536 bytes"));
}

TEST_F(NativeFile, RefusesWhatIsNotThisVersionOrNotATrace) {
    std::string file = written(small_trace());
    file[8] = 3;
    EXPECT_EQ(refusal(file), "byte 8: expected version 2, found 3");
    file[8] = 1;
    EXPECT_EQ(refusal(file), "byte 8: expected version 2, found 1");
    EXPECT_EQ(refusal(std::string(100, '{')),
              "byte 0: expected the first bytes of a native trace, found others");
}

TEST_F(NativeFile, RefusesToUnpackMoreThanAFileOfItsSizeMayHold) {
    Container container = Container::of(written(small_trace()));
    container.frames[1].claimed_raw_bytes = std::uint64_t{1} << 40;
    EXPECT_THAT(refusal(container.file()), HasSubstr("of at most"));
    container.frames[1].claimed_raw_bytes = 1;
    EXPECT_THAT(refusal(container.file()), HasSubstr("that unpacks to 1, found another"));
    container.frames[1].claimed_raw_bytes = 0;
    container.frames[1].raw = std::string(50'000'000, '{');  // packs to a few kilobytes
    EXPECT_THAT(refusal(container.file()), HasSubstr("found more in frame SCEN 0"));
    std::swap(container.frames[4], container.frames[5]);
    container.frames[1].raw = "{}";
    EXPECT_THAT(refusal(container.file()), HasSubstr("expected frame PROG 0, found PROG 1"));
}

TEST_F(NativeFile, IsPaddedWhereItWouldLookLikeABomb) {
    Trace trace = small_trace();
    trace.scenario_json = std::string(50'000'000, '{');
    const std::string file = written(trace);
    // 64 × size + 1 MiB has to cover all that is unpacked, and hardly more.
    EXPECT_GE(64 * file.size() + (1 << 20), 50'000'000U);
    EXPECT_LT(64 * file.size() + (1 << 20), 50'000'000U + 2000);
    EXPECT_EQ(read_native(path_), trace);
    std::string changed = file;
    changed[100'000] = 1;
    EXPECT_EQ(refusal(changed), "byte 100000: expected padding of 0, found another byte");
}

// --- files ---

TEST_F(NativeFile, IsUnreadableWhenItIsMissingOrAFolder) {
    const auto refused = [](const std::string& path) -> std::string {
        try {
            read_native(path);
        } catch (const TraceFileError& error) {
            EXPECT_EQ(error.fault(), TraceFault::unreadable);
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(refused(path_), path_ + ": cannot be opened: No such file or directory");
    EXPECT_EQ(refused(folder_.file(".")), folder_.file(".") + ": is not a regular file");
}

// --- size ---

TEST_F(NativeFile, TakesFewBytesPerEvent) {
    const PipelineShape shape{8, 64, 12};
    const Trace trace = pipeline_trace(shape);
    const std::size_t events = events_of(trace);
    // Unpacked: an event has five columns of a byte where its prediction holds, its program three.
    // Predictions fail for the wait of a transfer (below 2^42 ps: 6 bytes instead of 1) and for the
    // first duration of each op (9 ops, at most 5 bytes instead of 1) in each track. An action has
    // at most 6 letters, their number, and 4 bytes of live bytes. zstd adds next to nothing to
    // that, 1000 bytes cover the rest: directory, header, ops.
    const std::size_t actions = 8 * 64 * 2, transfers = 7 * 64 * 2;
    ASSERT_EQ(events, actions * 12 * 4 + transfers);
    ASSERT_LT(trace.step_end, Picoseconds{1} << 42);
    const std::size_t bound = 8 * events + 5 * transfers + 8 * 9 * 4 + 11 * actions + 3000;
    ASSERT_LT(bound, 12 * events);
    const std::size_t size = written(trace).size();
    EXPECT_LT(size, bound);
    // And a schedule repeats itself: zstd finds at least that the columns of a compute op are
    // zeros.
    EXPECT_LT(size, 2 * events);
    RecordProperty("bytes_per_1000_events", static_cast<int>(1000 * size / events));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
