// Output of nccl-tests, the programs by which clusters are commonly judged: the table that they
// print, and the file of their option -J. A log may hold several tables, with other lines around
// them. What is read is held against itself: a result that the program found wrong, a bus bandwidth
// that is not that of the collective, a table that was cut short are faults, never skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace orrery::fit {

// One timing: a row of a table has two, out of place and in place.
struct NcclTiming {
    std::string place;  // "all_reduce.txt:12", "a.json: /results/3/in_place"
    std::string type;   // of the elements, as nccl-tests names it: "float", "bfloat16"
    double bytes = 0;   // S of nccl-tests
    double seconds = 0;
    double bus_GBps = 0;
    std::optional<double> wrong;  // elements that were not right; nothing where it was not checked
};

// One start of a program.
struct NcclRun {
    std::string place;         // of its beginning
    std::string collective;    // as a profile names it: "all_reduce"
    std::string nccl_version;  // "2.28.5"; empty where the output does not say
    std::string device;        // "NVIDIA H100 80GB HBM3"; empty likewise
    int ranks = 0;
    int nodes = 0;   // hosts by their names
    int groups = 1;  // communicators at once (NCCL_TESTS_SPLIT)
    std::vector<NcclTiming> timings;
};

struct NcclTests {
    std::vector<NcclRun> runs;
    std::vector<std::string> faults;  // each with its place; with one of them the runs are no good
};

// `path` names the origin in messages. `collective` is that of runs that do not say theirs (the
// tables of versions before 2.17); it may be empty.
NcclTests read_nccl_tests(const std::string& text, const std::string& path,
                          const std::string& collective);

// The two formats, each without the checks that they share.
NcclTests read_nccl_table(const std::string& text, const std::string& path);
NcclTests read_nccl_json(const std::string& text, const std::string& path);

// Timings of a collective to be printed as the programs print theirs.
struct NcclTable {
    struct Rank {
        std::string host;
        std::int64_t process = 0;
        std::int64_t device = 0;  // among those of its host
        std::string bus;          // of PCI, "0000:1b:00"; or what the device hangs at else
        std::string name;         // of the device
    };
    struct Row {
        double bytes = 0;
        // A call of the size; nothing where there is none of that way.
        std::optional<double> out_of_place_s, in_place_s;
    };
    std::string program;     // that timed, and its version: "orrery 1.2.3"
    std::string collective;  // as a profile names it
    int library = 0;         // NCCL_VERSION_CODE; 0: not NCCL, or not known
    int warm_ups = 1, calls = 20;
    std::vector<Rank> ranks;
    std::vector<Row> rows;  // of fp32, ascending
};

// With #wrong N/A: nothing has looked at what came of the calls. read_nccl_tests reads it.
std::string nccl_table_text(const NcclTable& table);

// NCCL_VERSION_CODE 22805 of "2.28.5"; 0 of what is no version.
int nccl_version_code(const std::string& version);

// The collective of a program: "all_reduce" of "./build/all_reduce_perf_mpi".
std::string collective_of_program(const std::string& program);
// "2.28.5" of NCCL_VERSION_CODE 22805, "2.8.4" of 2804.
std::string nccl_version_text(int code);

}  // namespace orrery::fit
