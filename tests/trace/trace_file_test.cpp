// Every format gives back what was written, and refuses what is damaged or foreign.
#include "trace/formats/trace_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"
#include "tests/trace/native_container.hpp"
#include "tests/trace/pipeline_trace.hpp"
#include "trace/sound.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;
using testing::StartsWith;

const std::vector<std::string> kFiles = {"t.orrery", "t.pftrace", "t.json"};

// What no simulation makes: two ranks of one number, text that is not UTF-8, negative times, ops of
// one stream that overlap or take no time, an op that nobody performs, actions without ops.
Trace odd_trace() {
    Trace trace;
    trace.origin = Origin::measured;
    trace.scenario_json = "{\"name\": \"\xff \\ \n \"}";
    trace.facts = {"\xff", "cpu", 0, {0, INT64_MAX}, {3}, {}, {1e-300, 0.1}};
    OpName gemm;
    gemm.block = "layer.forward \xc3";
    gemm.label = "fc1 \"quoted\" \x01";
    gemm.flops = 1e300;
    gemm.bytes = 0.1;
    gemm.sent_bytes = -9007199254740993.0;
    OpName transfer;
    transfer.kind = plan::OpKind::exchange;
    transfer.phase = plan::Phase::optimizer;
    transfer.stream = plan::Stream::pipeline_comm;
    transfer.group = plan::GroupKind::pipeline;
    trace.ops = {gemm, transfer, OpName{}};
    ProgramOps program;
    program.pipeline_rank = 3;
    for (const char* actions : {"0F0", "0SEND_F0+0RECV_B0", "2147483647STEP", "1RECV_F0"})
        program.actions.push_back(*parse_actions(actions));
    program.op = {0, 1, 0, 0, 1};
    program.step = {0, 1, 1, 3, 3};
    program.layer = {-1, 32767, 5, 0, -1};
    program.live_bytes = {INT64_MAX, 7, 0, 1};
    trace.programs = {program, ProgramOps{}};
    const Track a{5,
                  {{7, 1}, {9, INT64_MAX - 9}},
                  0,
                  {{-5000, -4999, 1500, kNothing, 1},
                   {0, 300, 1300, kHost, -1},
                   {0, 999, 1000, 1, 0},
                   {1500, 1500, 1500, 0, -1},
                   {-7, 3'000'000'000'001, 3'000'000'000'001, 2, -1}}};
    Track b = a;
    b.events.change([](Event& event, std::size_t i) {
        if (i == 4) event = {kTimeLimit - 1, kTimeLimit, kTimeLimit, kHost, 0};
    });
    Track idle;
    idle.rank = INT64_MAX;
    idle.program = 1;
    trace.tracks = {a, b, idle};
    trace.step_start = -10;
    trace.step_end = 1'000'000'000'001;
    return trace;
}

Trace simulated(const theory::Sets& sets, bool unfolded = false) {
    const plan::Scenario scenario = theory::scenario(sets);
    return sim::simulate(scenario, sim::load_profiles(scenario.cluster), {unfolded},
                         "{\"resolved\": true}")
        .trace;
}

class TraceFiles : public testing::Test {
  protected:
    std::string written(const Trace& trace, const std::string& name) {
        write_trace(trace, folder_.file(name));
        return bytes_of_file(folder_.file(name));
    }
    // What reading these bytes says is wrong; "" if nothing.
    std::string refusal(const std::string& bytes) {
        const std::string path = folder_.file("refused");
        put_file(path, bytes);
        try {
            check_sound(read_trace(path));
        } catch (const TraceFileError& error) {
            EXPECT_EQ(error.fault(), TraceFault::unreadable);
            EXPECT_THAT(error.what(), StartsWith(path + ": "));
            return std::string(error.what()).substr(path.size() + 2);
        }
        return "";
    }

    TestFolder folder_;
};

TEST_F(TraceFiles, GiveBackWhatWasWritten) {
    const std::vector<Trace> traces = {
        Trace{},
        odd_trace(),
        pipeline_trace({3, 5, 2}),
        simulated({"layout.pipeline_parallel=4", "layout.tensor_parallel=2"}),
        simulated({"layout.pipeline_parallel=2", "layout.virtual_pipeline=2",
                   "layout.schedule=interleaved", "layout.global_batch_size=4"}),
        simulated({"layout.zero_stage=3", "layout.data_parallel=4"}),
        simulated({"layout.tensor_parallel=2", "layout.pipeline_parallel=2",
                   "layout.data_parallel=2", "layout.global_batch_size=4"},
                  true),
    };
    for (std::size_t i = 0; i < traces.size(); ++i) {
        // From format to format, and back to the first.
        Trace trace = traces[i];
        for (const std::string& name : {kFiles[0], kFiles[1], kFiles[2], kFiles[1], kFiles[0]}) {
            write_trace(trace, folder_.file(name));
            trace = read_trace(folder_.file(name));
            EXPECT_EQ(trace, traces[i]) << i << ' ' << name;
        }
    }
    EXPECT_EQ(folder_.entries(), kFiles.size());
}

TEST_F(TraceFiles, HaveTheSameBytesForTheSameTrace) {
    for (const std::string& name : kFiles)
        EXPECT_EQ(written(pipeline_trace({}), name), written(pipeline_trace({}), "again" + name));
}

TEST_F(TraceFiles, AreKnownByContentAndWrittenByName) {
    for (const std::string& name : kFiles) {
        put_file(folder_.file("x.txt"), written(pipeline_trace({2, 2, 1}), name));
        EXPECT_EQ(read_trace(folder_.file("x.txt")), pipeline_trace({2, 2, 1}));
    }
    EXPECT_EQ(format_of_name("a/b.orrery"), TraceFormat::native);
    EXPECT_EQ(format_of_name("b.c.pftrace"), TraceFormat::perfetto);
    EXPECT_EQ(format_of_name("b.json"), TraceFormat::chrome);
    for (const char* name : {"", "b", "b.JSON", "a/.json", ".orrery", "b.json.gz", "a.json/b"})
        EXPECT_EQ(format_of_name(name), std::nullopt) << name;
    EXPECT_DEATH(write_trace(Trace{}, folder_.file("x.txt")), "no known ending");
}

TEST_F(TraceFiles, AreRefusedWhereverTheyAreCutOff) {
    const Trace trace = pipeline_trace({2, 1, 1});
    for (const std::string& name : kFiles) {
        const std::string whole = written(trace, name);
        ASSERT_EQ(refusal(whole), "");
        for (std::size_t size = 0; size < whole.size(); ++size)
            ASSERT_NE(refusal(whole.substr(0, size)), "") << name << " of " << size << " bytes";
    }
}

// Formats without checksums cannot tell every change; what is read is sound all the same.
TEST_F(TraceFiles, AreRefusedOrSoundWhateverByteIsChanged) {
    std::uint64_t random = 1;
    const auto below = [&](std::size_t limit) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::size_t>(random >> 33) % limit;
    };
    for (const Trace& trace : {pipeline_trace({2, 1, 1}), odd_trace()})
        for (const std::string& name : kFiles) {
            const std::string whole = written(trace, name);
            for (int i = 0; i < 3000; ++i) {
                std::string bytes = whole;
                for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
                    const std::size_t at = below(bytes.size());
                    if (below(4) == 0)
                        bytes.erase(at, 1 + below(8));
                    else
                        bytes[at] = static_cast<char>(below(256));
                    if (bytes.empty()) break;
                }
                refusal(bytes);
            }
        }
}

TEST_F(TraceFiles, SayWhereAndWhatIsWrong) {
    EXPECT_THAT(refusal(""), HasSubstr("byte 0: expected a trace, as in files named .orrery"));
    EXPECT_THAT(refusal("hello"), HasSubstr("byte 0: expected a trace"));
    EXPECT_THAT(refusal("[]"), HasSubstr("expected an object"));
    EXPECT_THAT(refusal(" \n{\"traceEvents\": []}"), HasSubstr("expected \"orrery\""));
    EXPECT_THAT(refusal("{\"traceEvents\": [{\"ph\": \"B\"}]}"),
                HasSubstr("/traceEvents/0: expected \"orrery\""));
    EXPECT_THAT(refusal("{\"a\": 1,}"), HasSubstr("byte 9: expected sound JSON"));
    EXPECT_THAT(refusal("{\"orrery\": 1e999}"), HasSubstr("expected sound JSON"));
    EXPECT_THAT(
        refusal("{\"orrery\": {\"format\": \"orrery trace\", \"version\": 1}}"),
        HasSubstr("/orrery: expected in the tables \"version\" to be an integer from 2 to 2"));
    // A packet of Perfetto's, without our data: a timestamp.
    EXPECT_THAT(refusal(std::string("\x0a\x02\x40\x05", 4)),
                HasSubstr("byte 4: expected the data of an orrery trace"));
    EXPECT_THAT(refusal(std::string("\x0a\x02\x40\x05\x0a\x05\x40", 7)),
                HasSubstr("byte 4: expected a sound protobuf message"));
    EXPECT_THROW(read_trace(folder_.path().string()), TraceFileError);
    EXPECT_THROW(read_trace(folder_.file("none")), TraceFileError);
    EXPECT_THROW(read_trace("/dev/zero"), TraceFileError);
}

TEST_F(TraceFiles, AreRefusedWithoutTheMemoryTheyClaim) {
    // A packet that claims 4 GB, and one that claims 2^64 − 1 bytes.
    EXPECT_NE(refusal("\x0a\xff\xff\xff\xff\x0f"), "");
    EXPECT_NE(refusal("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "");
    for (const char* bracket : {"[", "{\"orrery\":", "{\"traceEvents\":[{\"args\":", "{\"a\":[["}) {
        std::string bytes;
        for (int i = 0; i < 200000; ++i)
            bytes += bracket;
        EXPECT_NE(refusal(bytes), "");
    }
    // A thousand ops, a thousand ranks that perform them, and no event: 32 MB of events.
    std::string ops = "0", ranks = "{\"pid\":1,\"rank\":0,\"alike\":[],\"program\":0}";
    for (int i = 1; i < 1000; ++i) {
        ops += ",0";
        ranks += ",{\"pid\":" + std::to_string(i + 1) + ",\"rank\":0,\"alike\":[],\"program\":0}";
    }
    const std::string tables =
        "{\"format\":\"orrery trace\",\"version\":2,\"origin\":\"predicted\",\"step_start_ps\":0,"
        "\"step_end_ps\":0,\"scenario\":\"\",\"facts\":{\"prices\":\"\",\"backend\":\"\",\"ranks_"
        "per_device\":0,"
        "\"arena_bytes\":[],\"high_water_bytes\":[],\"other_bytes\":[],\"step_times_s\":[]},"
        "\"ops\":[{\"block\":\"\",\"label\":\"\",\"kind\":"
        "\"gemm\","
        "\"phase\":\"forward\",\"stream\":\"compute\",\"group\":\"none\",\"flops\":0,\"bytes\":0,"
        "\"sent_bytes\":0}],\"programs\":[{\"pipeline_rank\":0,\"actions\":[\"0F0\"],"
        "\"live_bytes\":[0],\"op\":[" +
        ops + "],\"step\":[" + ops + "],\"layer\":[" + ops + "]}],\"tracks\":[" + ranks + "]}";
    EXPECT_THAT(refusal("{\"orrery\":" + tables + ",\"traceEvents\":[]}"),
                HasSubstr("than a file of this size can hold"));
}

TEST_F(TraceFiles, AreRefusedWhereAnEventIsNotSound) {
    const std::string whole = written(pipeline_trace({2, 1, 1}), "t.json");
    const auto changed = [&](const std::string& from, const std::string& to) {
        const std::size_t at = whole.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return refusal(std::string(whole).replace(at, from.size(), to));
    };
    EXPECT_THAT(changed("\"op_id\":2,", "\"op_id\":1,"),
                HasSubstr("expected op 1 of track 0 once"));
    EXPECT_THAT(changed("\"op_id\":2,", "\"op_id\":99999,"), HasSubstr("expected \"op_id\" below"));
    EXPECT_THAT(changed("\"op_id\":2,", "\"op\":2,"),
                HasSubstr("expected op 2 of track 0, which is missing"));
    EXPECT_THAT(changed("\"ready_ps\":0", "\"ready_ps\":9e9"),
                HasSubstr("expected \"ready_ps\" to be an integer"));
    EXPECT_THAT(changed("\"start_ps\":0", "\"start_ps\":-1"),
                HasSubstr("expected ready_ps <= start_ps <= end_ps"));
    EXPECT_THAT(changed("\"blocker\":0", "\"blocker\":5"),
                HasSubstr("expected \"blocker\" before"));
    EXPECT_THAT(changed("\"step_times_s\":[]", "\"step_times_s\":[],\"storage\":{\"load_s\":-1}"),
                HasSubstr("\"storage\" to be sizes and times"));
    EXPECT_THAT(changed("\"X\",\"pid\":1,\"tid\":2", "\"X\",\"pid\":7,\"tid\":2"),
                HasSubstr("expected a process of the tables, found 7"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
