// Reports of Nsight Systems, as their public schema has them, of several versions; and files that
// are damaged, or none.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trace/sqlite_file.hpp"
#include "trace/formats/nsys.hpp"
#include "trace/formats/recorded_file.hpp"
#include "trace/formats/sqlite_database.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;

constexpr Picoseconds kNs = 1000;

const std::string kStrings =
    "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);"
    "INSERT INTO StringIds VALUES (1, 'sm90_xmma_gemm_bf16'), (2, 'void sm90_xmma_gemm_bf16<4>'),"
    " (3, 'ncclDevKernel_AllReduce_Sum_bf16'), (4, 'cudaLaunchKernel_v7000'), (5, 'Iteration 7');";

const std::string kKernelTable =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,"
    " correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,"
    " shortName INTEGER NOT NULL, gridX INTEGER NOT NULL);";

std::string kernel(int start, int end, int device, int stream, int correlation, long process,
                   int name) {
    return fmt::format(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, {}, 1, {}, {}, {}, {}, 1, 132);",
        start, end, device, stream, correlation, global_id(process), name);
}

// Of two processes with a device each; the second has its device as number 0, which the machine
// calls 1.
std::string report() {
    return kStrings + kKernelTable + kernel(1010, 1021, 0, 7, 11, 400, 2) +
           kernel(1050, 1075, 0, 20, 12, 400, 3) + kernel(1013, 1033, 1, 7, 11, 401, 2) +
           fmt::format(
               "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER,"
               " eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER,"
               " returnValue INTEGER, callchainId INTEGER);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES"
               " (1002, 1004, 0, {0}, 11, 4, 0, NULL), (1006, 1008, 0, {0}, 12, 4, 0, NULL),"
               " (1001, 1003, 0, {1}, 11, 4, 0, NULL);"
               "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER,"
               " deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,"
               " globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER,"
               " dstKind INTEGER);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES"
               " (1080, 1085, 0, 1, 7, 13, {2}, 64, 1, 2, 3), (1, 2, 5, 1, 7, 14, {2}, 4, 1, 1, 3);"
               "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER,"
               " deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,"
               " globalPid INTEGER, value INTEGER, bytes INTEGER, memKind INTEGER);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1090, 1091, 0, 1, 7, 15, {2}, 0, 4,"
               " 3);"
               "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER,"
               " rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,"
               " endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);"
               "INSERT INTO NVTX_EVENTS VALUES"
               " (1000, 1100, 59, NULL, NULL, NULL, NULL, {0}, {0}, 5, 0),"
               " (1001, 1005, 59, NULL, NULL, NULL,"
               "  'aten::mm, op_id = 3, sizes = [[64, 32], [32, 16]], input_op_ids = [1]',"
               "  {0}, {0}, NULL, 0),"
               " (1005, 1009, 60, 1, NULL, NULL, 'allreduce', {0}, {1}, NULL, 0),"
               " (1050, NULL, 59, NULL, NULL, NULL, 'cut', {0}, {0}, NULL, 0),"
               " (1050, NULL, 34, NULL, NULL, NULL, 'a mark', {0}, {0}, NULL, 0),"
               " (0, 0, 75, NULL, NULL, NULL, 'NCCL', {0}, NULL, NULL, 1);"
               "CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT);"
               "INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'NVIDIA A100'), (1, 1, 'NVIDIA H100');"
               "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER,"
               " uuid TEXT);"
               "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 400, 'x'), (0, 1, 401, 'y');",
               global_id(400, 17), global_id(401, 18), global_id(400));
}

std::string fault_of(const std::string& path) {
    try {
        read_recorded(path);
    } catch (const TraceFileError& error) {
        EXPECT_EQ(error.fault(), TraceFault::unreadable);
        EXPECT_THAT(error.what(), testing::StartsWith(path));
        return error.what();
    }
    return "";
}

std::string written(const std::string& name, const std::string& bytes) {
    const std::string path = testing::TempDir() + '/' + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
}

TEST(Nsys, ReadsARankForEachDeviceOfAProcess) {
    const std::string path = sqlite_file("nsys.sqlite", report());
    EXPECT_TRUE(begins_as_sqlite(path));
    const std::vector<RecordedTrace> traces = read_recorded(path);
    ASSERT_EQ(traces.size(), 2U) << "device 5 was only copied to";
    EXPECT_EQ(traces[0].part, "device 0 of process 400");
    EXPECT_EQ(traces[1].part, "device 1 of process 401");
    EXPECT_EQ(traces[0].device, "NVIDIA H100") << "the machine's number of the process's device";
    EXPECT_EQ(traces[1].device, "NVIDIA A100");

    ASSERT_EQ(traces[0].processes.size(), 2U);
    const RecordedProcess& gpu = traces[0].processes[0];
    const RecordedProcess& host = traces[0].processes[1];
    EXPECT_TRUE(gpu.is_device);
    ASSERT_EQ(gpu.lanes.size(), 2U);
    EXPECT_EQ(gpu.lanes[0].name, "stream 7");
    EXPECT_EQ(gpu.lanes[1].name, "stream 20");
    ASSERT_EQ(gpu.spans.size(), 4U);
    const auto name = [&](const RecordedSpan& span) { return traces[0].names[span.name]; };
    EXPECT_EQ(name(gpu.spans[0]), "void sm90_xmma_gemm_bf16<4>");
    EXPECT_EQ(gpu.spans[0].start, 10 * kNs) << "from 1000 ns on, where the first range begins";
    EXPECT_EQ(gpu.spans[0].end, 21 * kNs);
    EXPECT_EQ(gpu.spans[1].kind, RecordedKind::communication);
    EXPECT_EQ(name(gpu.spans[2]), "Memcpy HtoD (Pinned -> Device)");
    EXPECT_EQ(name(gpu.spans[3]), "Memset (Device)");

    // Launched within the operator, which says its sizes.
    const RecordedSpan& launch = host.spans[gpu.spans[0].partner];
    EXPECT_EQ(name(launch), "cudaLaunchKernel_v7000");
    EXPECT_EQ(launch.start, 2 * kNs);
    EXPECT_EQ(launch.depth, 2U);
    ASSERT_EQ(host.spans.size(), 5U) << "what has no end, marks and domains are no ranges";
    EXPECT_EQ(name(host.spans[0]), "Iteration 7");
    EXPECT_EQ(host.spans[0].kind, RecordedKind::annotation);
    EXPECT_EQ(name(host.spans[1]), "aten::mm");
    EXPECT_EQ(host.spans[1].kind, RecordedKind::op);
    EXPECT_EQ(traces[0].arguments[host.arguments[1]].input_dims, "[[64, 32], [32, 16]]");

    // Numbers of calls are a process's own: 11 of the second process is another call.
    const RecordedSpan& other = traces[1].processes[0].spans[0];
    EXPECT_EQ(traces[1].processes[1].spans[other.partner].end -
                  traces[1].processes[1].spans[other.partner].start,
              2 * kNs);
    EXPECT_EQ(other.start, 12 * kNs) << "from the launch at 1001 ns on";
}

// Without processes, threads, kinds of ranges and tables of devices, names as text: as small and as
// old as a report can be.
TEST(Nsys, AsksTablesForTheirColumns) {
    const std::vector<RecordedTrace> traces = read_recorded(sqlite_file(
        "old.sqlite",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT,"
        " name TEXT);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 0, 7, 'gemm');"
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, text TEXT);"
        "INSERT INTO NVTX_EVENTS VALUES (3, 12, 'step 1');"));
    ASSERT_EQ(traces.size(), 1U);
    EXPECT_EQ(traces[0].part, "");
    EXPECT_EQ(traces[0].device, "");
    ASSERT_EQ(traces[0].processes.size(), 2U);
    EXPECT_EQ(traces[0].processes[0].spans[0].start, 2 * kNs);
    EXPECT_EQ(traces[0].end, 9 * kNs);
}

TEST(Nsys, SaysWhatAFileLacks) {
    EXPECT_THAT(fault_of(sqlite_file("other.sqlite", "CREATE TABLE people (name TEXT);")),
                HasSubstr("a SQLite database, but no export of Nsight Systems, which has the "
                          "tables StringIds and CUPTI_ACTIVITY_KIND_KERNEL; this one has people"));
    EXPECT_THAT(fault_of(sqlite_file("strings.sqlite", kStrings)),
                HasSubstr("no kernels: the report has no table CUPTI_ACTIVITY_KIND_KERNEL with "
                          "rows. `nsys profile --trace=cuda,nvtx` records them"));
    EXPECT_THAT(fault_of(sqlite_file("no-rows.sqlite", kStrings + kKernelTable)),
                HasSubstr("no kernels"));
    EXPECT_THAT(
        fault_of(sqlite_file("columns.sqlite",
                             "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, deviceId INT);")),
        HasSubstr("its table CUPTI_ACTIVITY_KIND_KERNEL has no column end, streamId; it has "
                  "start, deviceId"));
    EXPECT_THAT(
        fault_of(sqlite_file("name.sqlite", kStrings + kKernelTable + kernel(1, 2, 0, 7, 1, 4, 2) +
                                                kernel(3, 4, 0, 7, 1, 4, 99))),
        HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL, row 2: its name is number 99 of StringIds"));
    EXPECT_THAT(
        fault_of(
            sqlite_file("times.sqlite", kStrings + kKernelTable + kernel(7, 3, 0, 7, 1, 4, 2))),
        HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL, row 1: it ends at 3 ns, before it starts at 7 ns"));
    EXPECT_THAT(
        fault_of(sqlite_file(
            "graphs.sqlite",
            kStrings + "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT,"
                       " deviceId INT, streamId INT, correlationId INT, globalPid INT);"
                       "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1, 9, 0, 7, 1, 0);")),
        HasSubstr("CUDA graphs were traced as wholes. `nsys profile --cuda-graph-trace=node`"));
}

TEST(Nsys, SaysHowToExportAReport) {
    const std::string path = written("run 1.nsys-rep", "not for others");
    EXPECT_THAT(fault_of(path), HasSubstr("nsys export --type sqlite --output " +
                                          path.substr(0, path.size() - 9) + ".sqlite " + path));
    EXPECT_THAT(fault_of(testing::TempDir() + "/absent.nsys-rep"), HasSubstr("cannot be opened"));
}

// Cut anywhere, or with a page of it overwritten: a message, or a trace; never anything else.
TEST(Nsys, ADamagedDatabaseIsAMessage) {
    std::ifstream in(sqlite_file("whole.sqlite", report()), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    constexpr std::size_t kPage = 4096;
    for (std::size_t size = 1000; size < whole.size(); size += kPage)
        EXPECT_NE(fault_of(written("cut.sqlite", whole.substr(0, size))), "") << size;
    EXPECT_THAT(fault_of(written("cut.sqlite", whole.substr(0, whole.size() - 1))),
                HasSubstr(fmt::format("is cut off: {} pages of 4096 bytes are {} bytes, and it "
                                      "has {}",
                                      whole.size() / kPage, whole.size(), whole.size() - 1)));
    for (std::size_t at = 100; at < whole.size(); at += kPage) {
        std::string damaged = whole;
        damaged.replace(at, 64, 64, '\xA5');
        fault_of(written("damaged.sqlite", damaged));
    }
    std::string first = whole;
    first.replace(100, 8, 8, '\xA5');  // the header of the first page
    EXPECT_THAT(fault_of(written("first.sqlite", first)), HasSubstr("SQLite cannot read it"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
