// Traces of PyTorch's profiler, as its public format has them: lanes, passes, who launched what;
// and files that are cut off or are none.
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trace/kineto_file.hpp"
#include "trace/formats/kineto.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;

std::string written(const std::string& name, const std::string& text) {
    const std::string path = testing::TempDir() + '/' + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
}

std::string packed(const std::string& name, const std::string& text) {
    const std::string path = testing::TempDir() + '/' + name;
    gzFile file = gzopen(path.c_str(), "wb");
    EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
              static_cast<int>(text.size()));
    gzclose(file);
    return path;
}

std::string fault_of(const std::string& path) {
    try {
        read_kineto(path);
    } catch (const TraceFileError& error) {
        EXPECT_EQ(error.fault(), TraceFault::unreadable);
        return error.what();
    }
    return "";
}

constexpr Picoseconds kUs = 1'000'000;
constexpr Picoseconds kZero = 5 * kUs;  // the first span of the file begins there

void expect_the_file(const RecordedTrace& trace) {
    ASSERT_EQ(trace.processes.size(), 2U);
    const RecordedProcess& gpu = trace.processes[0];
    const RecordedProcess& host = trace.processes[1];
    EXPECT_TRUE(gpu.is_device);
    EXPECT_FALSE(host.is_device);
    EXPECT_EQ(gpu.name, "GPU 0 · python 0");
    EXPECT_EQ(host.name, "CPU · python 99");
    ASSERT_EQ(gpu.lanes.size(), 2U);
    EXPECT_EQ(gpu.lanes[0].name, "stream 7 ");  // as the file names it
    EXPECT_EQ(gpu.lanes[1].name, "stream 20");  // which it does not
    EXPECT_EQ(trace.left_out, 1U);              // the instant
    EXPECT_EQ(trace.end, 85'001'000 - kZero);   // 80 + 5.001 us

    ASSERT_EQ(gpu.spans.size(), 4U);
    const RecordedSpan& first = gpu.spans[0];
    EXPECT_EQ(first.start, 10 * kUs - kZero);
    EXPECT_EQ(first.end, 20 * kUs - kZero);
    EXPECT_EQ(first.kind, RecordedKind::kernel);
    EXPECT_EQ(first.phase, plan::Phase::forward);
    EXPECT_EQ(gpu.spans[1].phase, plan::Phase::backward);  // within the engine of autograd
    EXPECT_EQ(gpu.spans[1].name, first.name);
    EXPECT_EQ(gpu.spans[2].kind, RecordedKind::communication);
    EXPECT_EQ(gpu.spans[3].kind, RecordedKind::copy);

    // The call lies in its operator, and launches the kernel.
    const RecordedSpan& launch = host.spans[first.partner];
    EXPECT_EQ(first.partner_process, 1U);
    EXPECT_EQ(trace.names[launch.name], "cudaLaunchKernel");
    EXPECT_EQ(launch.start, 6 * kUs - kZero);
    EXPECT_EQ(launch.depth, 1U);
    EXPECT_EQ(launch.partner_process, 0U);
    EXPECT_EQ(launch.partner, 0U);
    EXPECT_EQ(host.lanes[0].depths, 2U);
    const RecordedSpan& second = host.spans[gpu.spans[1].partner];
    EXPECT_EQ(second.end - second.start, 1'250'000);
}

TEST(Kineto, ReadsLanesPassesAndLaunches) {
    const std::string path = written("kineto.pt.trace.json", kKinetoFile);
    EXPECT_TRUE(begins_as_kineto(path));
    expect_the_file(read_kineto(path));
}

TEST(Kineto, ReadsWhatGzipHasPacked) {
    const std::string path = packed("kineto.json.gz", kKinetoFile);
    EXPECT_TRUE(begins_as_kineto(path));
    expect_the_file(read_kineto(path));
}

// Chrome's format allows the bare list as well.
TEST(Kineto, ReadsABareList) {
    const std::string path =
        written("list.json", R"([{"ph":"X","cat":"cpu_op","name":"a","pid":"p","tid":"t","ts":1e3,)"
                             R"("dur":2},{"ph":"X","name":"b","pid":"p","tid":"t","ts":1001}])");
    EXPECT_TRUE(begins_as_kineto(path));
    const RecordedTrace trace = read_kineto(path);
    ASSERT_EQ(trace.processes.size(), 1U);
    ASSERT_EQ(trace.processes[0].spans.size(), 2U);
    EXPECT_EQ(trace.processes[0].spans[1].start, kUs);
    EXPECT_EQ(trace.processes[0].spans[1].depth, 1U);
    EXPECT_EQ(trace.end, 2 * kUs);
}

// Two spans of a lane of which neither holds the other, as no thread has them but files do: both
// are there.
TEST(Kineto, KeepsSpansThatOverlap) {
    const RecordedTrace trace = read_kineto(
        written("overlap.json", R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":10},)"
                                R"({"ph":"X","name":"b","pid":1,"tid":1,"ts":5,"dur":10},)"
                                R"({"ph":"X","name":"c","pid":1,"tid":1,"ts":12,"dur":1}])"));
    const std::vector<RecordedSpan>& spans = trace.processes[0].spans;
    ASSERT_EQ(spans.size(), 3U);
    EXPECT_EQ(spans[0].depth, 0U);
    EXPECT_EQ(spans[1].depth, 1U);
    EXPECT_EQ(spans[2].depth, 0U);
}

TEST(Kineto, SaysWhereAFileIsDamaged) {
    const std::size_t cut = kKinetoFile.find("sm90_gemm");
    EXPECT_THAT(fault_of(written("cut.json", kKinetoFile.substr(0, cut))),
                HasSubstr(": byte " + std::to_string(cut + 1) +
                          ": expected sound JSON, in /traceEvents/3"));
    EXPECT_THAT(fault_of(written("none.json", R"({"a": 1})")),
                HasSubstr("expected \"traceEvents\", a list of events"));
    EXPECT_THAT(fault_of(written("ts.json", R"([{"ph":"M"},{"ph":"X","name":"a","ts":"soon"}])")),
                HasSubstr("/traceEvents/1: expected \"ts\", a number of microseconds"));
    EXPECT_THAT(fault_of(written("dur.json", R"([{"ph":"X","name":"a","ts":1,"dur":-2}])")),
                HasSubstr("/traceEvents/0: expected \"dur\" to be no less than 0"));
    EXPECT_THAT(fault_of(written("far.json", R"([{"ph":"X","ts":1},{"ph":"X","ts":1e17}])")),
                HasSubstr("/traceEvents/1: expected a time within 46 days of the first"));
    EXPECT_THAT(fault_of(written("deep.json", std::string(100, '['))),
                HasSubstr("less deep in each other"));
    EXPECT_THAT(fault_of(testing::TempDir() + "/no such file"), HasSubstr("cannot be opened"));
    EXPECT_THAT(fault_of(testing::TempDir()), HasSubstr("is not a regular file"));
}

// Cut anywhere, or with a byte of it changed: a message, or a trace; never anything else.
TEST(Kineto, ADamagedPackedFileIsAMessage) {
    std::ifstream in(packed("whole.json.gz", kKinetoFile), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    for (std::size_t size = 0; size + 8 < whole.size(); size += 7)
        EXPECT_NE(fault_of(written("cut.json.gz", whole.substr(0, size))), "") << size;
    for (std::size_t at = 10; at + 8 < whole.size(); at += 7) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
        EXPECT_NE(fault_of(written("damaged.json.gz", damaged)), "") << at;
    }
}

TEST(Kineto, OurOwnFilesAndScenariosAreNone) {
    EXPECT_FALSE(begins_as_kineto(written("ours.json", R"({"orrery": {}, "traceEvents": []})")));
    EXPECT_FALSE(begins_as_kineto(written("scenario.json", R"({"model": {"layers": 2}})")));
    EXPECT_FALSE(begins_as_kineto(written("empty.json", "")));
    EXPECT_FALSE(begins_as_kineto(testing::TempDir() + "/no such file"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
