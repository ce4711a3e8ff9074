// One run recorded twice, by PyTorch's profiler and by Nsight Systems, says the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "calib/compare/recorded_work.hpp"
#include "tests/cli/world.hpp"
#include "tests/trace/sqlite_file.hpp"
#include "trace/formats/recorded_file.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

// In microseconds; a kernel of a stream, or a call, operator or range of a thread.
struct Recorded {
    const char* category;
    std::string name;
    int lane;
    int start, duration;
    int correlation = 0;
    const char* dims = "";
};

// Steps of 100, 100 and 130 µs with the same kernels in each.
std::vector<Recorded> run() {
    std::vector<Recorded> events;
    int launch = 0;
    for (const auto& [step, at, length] : {std::tuple{0, 0, 100}, {1, 100, 100}, {2, 200, 130}}) {
        events.push_back({"user_annotation", fmt::format("ProfilerStep#{}", step), 1, at, length});
        const auto launched = [&](const char* name, int stream, int call, int start, int duration) {
            ++launch;
            events.push_back({"cuda_runtime", "cudaLaunchKernel", 1, at + call, 1, launch});
            events.push_back({"kernel", name, stream, at + start, duration, launch});
        };
        events.push_back({"cpu_op", "aten::mm", 1, at + 4, 5, 0, "[[64, 32], [32, 16]]"});
        launched("sm90_xmma_gemm_bf16", 7, 5, 20, 30);
        events.push_back({"cpu_op", "autograd::engine::evaluate_function: NativeLayerNormBackward0",
                          1, at + 11, 5});
        launched("void at::native::layer_norm_grad_input_kernel", 7, 12, 50, 6);
        launched("ncclDevKernel_AllReduce_Sum_bf16", 20, 18, 54, 30);
        launched("a kernel of the user's own", 7, 22, 60, 3);
    }
    return events;
}

std::string by_profiler(const std::vector<Recorded>& events) {
    std::string text;
    for (const Recorded& event : events)
        text += fmt::format(
            R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, )"
            R"("dur": {}, "args": {{"correlation": {}{}{}}}}})",
            text.empty() ? "" : ",\n", event.category, event.name,
            event.category == std::string("kernel") ? 0 : 99, event.lane, event.start,
            event.duration, event.correlation,
            event.category == std::string("kernel") ? fmt::format(R"(, "stream": {})", event.lane)
                                                    : "",
            *event.dims != '\0' ? fmt::format(R"(, "Input Dims": {})", event.dims) : "");
    return cli::written("twice.pt.trace.json",
                        R"({"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
                            "traceEvents": [)" +
                            text + "]}");
}

std::string by_nsys(const std::vector<Recorded>& events) {
    std::string sql =
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
        "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT);"
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT,"
        " correlationId INT, globalPid INT, demangledName INT);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT,"
        " correlationId INT, nameId INT);"
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT);";
    constexpr int kSessionNs = 123'456'789;  // when it all began
    int strings = 0;
    for (const Recorded& event : events) {
        const int start = kSessionNs + event.start * 1000, end = start + event.duration * 1000;
        std::string name;
        for (const char c : event.name)
            name += c == '\'' ? std::string("''") : std::string(1, c);
        if (event.correlation == 0) {
            const std::string sizes =
                *event.dims != '\0'
                    ? fmt::format(", seq = 1, op_id = 2, sizes = {}, input_op_ids = []", event.dims)
                    : "";
            sql += fmt::format("INSERT INTO NVTX_EVENTS VALUES ({}, {}, 59, '{}{}', {});", start,
                               end, name, sizes, trace::global_id(99, event.lane));
            continue;
        }
        sql += fmt::format("INSERT INTO StringIds VALUES ({}, '{}');", ++strings, name);
        sql += event.category == std::string("kernel")
                   ? fmt::format(
                         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
                         " ({}, {}, 0, {}, {}, {}, {});",
                         start, end, event.lane, event.correlation, trace::global_id(99), strings)
                   : fmt::format(
                         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES"
                         " ({}, {}, {}, {}, {});",
                         start, end, trace::global_id(99, event.lane), event.correlation, strings);
    }
    return trace::sqlite_file("twice.sqlite", sql);
}

RecordedRank rank_of(const std::string& path, const std::string& range = "") {
    const std::vector<trace::RecordedTrace> traces = trace::read_recorded(path);
    EXPECT_EQ(traces.size(), 1U);
    return recorded_rank(traces.front(), path, range);
}

TEST(RecordedTwice, SaysTheSame) {
    const RecordedRank one = rank_of(by_profiler(run()));
    const RecordedRank other = rank_of(by_nsys(run()));
    EXPECT_EQ(other.device, one.device);
    EXPECT_TRUE(other.steps_named);
    ASSERT_EQ(other.steps.size(), 3U);
    EXPECT_EQ(other.typical, one.typical);
    ASSERT_EQ(other.work.size(), 4U);
    ASSERT_EQ(one.work.size(), 4U);
    for (std::size_t i = 0; i < one.work.size(); ++i) {
        EXPECT_EQ(other.names[other.work[i].name], one.names[one.work[i].name]);
        EXPECT_EQ(other.work[i].kind, one.work[i].kind);
        EXPECT_EQ(other.work[i].phase, one.work[i].phase);
        EXPECT_EQ(other.work[i].start, one.work[i].start);
        EXPECT_EQ(other.work[i].end, one.work[i].end);
    }
    ASSERT_TRUE(other.work[0].product.has_value());
    EXPECT_EQ(other.work[0].product->m, 64);
    EXPECT_EQ(other.work[0].product->n, 16);
    EXPECT_EQ(other.work[0].product->k, 32);
    EXPECT_EQ(other.work[1].kind, WorkKind::norm);
    EXPECT_EQ(other.work[1].phase, plan::Phase::backward);
    EXPECT_EQ(other.busy_s, one.busy_s);
    // Compute runs from 20 to 56 and 60 to 63 µs, the reduction from 54 to 84 µs.
    EXPECT_NEAR(other.compute_s, 39e-6, 1e-12);
    EXPECT_NEAR(other.exposed_s, 25e-6, 1e-12);
    EXPECT_NEAR(other.idle_s, 36e-6, 1e-12);
    EXPECT_EQ(other.step_s(), one.step_s());
}

// The same ranges under names that programs give them.
TEST(RecordedTwice, StepsAreWhatTheProgramCallsSo) {
    for (const char* name : {"Iteration {}", "train_step {}", "step-{}", "ITER{}"}) {
        std::vector<Recorded> events = run();
        int number = 0;
        for (Recorded& event : events)
            if (event.category == std::string("user_annotation"))
                event.name = fmt::format(fmt::runtime(name), number++);
        const RecordedRank rank = rank_of(by_nsys(events));
        EXPECT_TRUE(rank.steps_named) << name;
        EXPECT_EQ(rank.steps.size(), 3U) << name;
        EXPECT_EQ(rank.work.size(), 4U) << name;
    }
    std::vector<Recorded> events = run();
    for (Recorded& event : events)
        if (event.category == std::string("user_annotation")) event.name = "steps ahead";
    EXPECT_FALSE(rank_of(by_nsys(events)).steps_named);
    EXPECT_EQ(rank_of(by_nsys(events), "steps").steps.size(), 3U);
}

// Steps are counted once where others are marked within them, and of one thread.
TEST(RecordedTwice, StepsWithinStepsAreNotCounted) {
    std::vector<Recorded> events = run();
    for (const int at : {10, 110, 210}) {
        events.push_back({"user_annotation", "ProfilerStep#9", 1, at, 20});
        events.push_back({"user_annotation", "ProfilerStep#9", 2, at, 20});
    }
    EXPECT_EQ(rank_of(by_nsys(events)).steps.size(), 3U);
    EXPECT_EQ(rank_of(by_profiler(events)).steps.size(), 3U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
