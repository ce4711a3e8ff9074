// orrery convert, and the formats of simulate --trace.
#include "tests/cli/world.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

std::string temporary(const std::string& name) {
    return testing::TempDir() + "convert_test_" + name;
}

TEST(Convert, WritesWhatSimulateWrites) {
    for (const char* ending : {".orrery", ".pftrace", ".json"})
        EXPECT_EQ(run({"simulate", tiny(), "--trace", temporary(std::string("a") + ending)}).code,
                  0);
    for (const char* from : {".orrery", ".pftrace", ".json"})
        for (const char* to : {".orrery", ".pftrace", ".json"}) {
            const std::string in = temporary(std::string("a") + from);
            const std::string out = temporary(std::string("b") + to);
            const Outcome outcome = run({"convert", in, out});
            EXPECT_EQ(outcome.code, 0) << outcome.err;
            EXPECT_EQ(outcome.err, "");
            EXPECT_EQ(content_of(out), content_of(temporary(std::string("a") + to)));
        }
}

TEST(Convert, SaysWhatTheTraceHolds) {
    trace::Trace trace;
    trace.ops.push_back({});
    trace::ProgramOps program;
    program.actions = {*trace::parse_actions("0F0")};
    program.live_bytes = {1};
    program.op = {0, 0};
    program.step = {0, 0};
    program.layer = {0, 0};
    trace.programs.push_back(program);
    // Of 4 ms the first rank computes 1 ms, the three others 3 ms: 2.5 ms on average; what lies
    // beyond the step does not count.
    const trace::Picoseconds ms = 1'000'000'000;
    trace.tracks.push_back({0, {}, 0, {{0, 0, ms}, {4 * ms, 4 * ms, 5 * ms}}});
    trace.tracks.push_back({1, {{2, 2}}, 0, {{0, 0, ms}, {ms, ms, 3 * ms}}});
    trace.step_end = 4 * ms;
    trace::write_trace(trace, temporary("c.orrery"));
    const Outcome outcome = run({"convert", temporary("c.orrery"), temporary("c.json")});
    EXPECT_EQ(outcome.out,
              "predicted step of 4.00 ms: 2 of 4 ranks, 4 events\n\n"
              "busy time of the streams, mean over ranks\n"
              "  compute  2.50 ms  62.5 %\n");
}

TEST(Convert, FailsAsOthersDo) {
    EXPECT_EQ(run({"convert", temporary("none"), temporary("d.json")}).code, 5);
    const std::string foreign = written("convert_test_foreign.json", "{\"traceEvents\": []}");
    const Outcome outcome = run({"convert", foreign, temporary("d.json")});
    EXPECT_EQ(outcome.code, 5);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("expected \"orrery\", the data of an orrery trace"),
              std::string::npos);
    EXPECT_EQ(run({"simulate", tiny(), "--trace", temporary("a.orrery")}).code, 0);
    EXPECT_EQ(run({"convert", temporary("a.orrery"), temporary("no_such_folder/d.json")}).code, 8);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
