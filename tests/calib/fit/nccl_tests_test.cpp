#include "calib/fit/nccl_tests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/calib/fit/nccl_output.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::vector<std::string> faults(const std::string& text, const std::string& collective = "") {
    return read_nccl_tests(text, "run", collective).faults;
}

void expect_run_of(const NcclMachine& machine, const NcclTests& tests, double relative) {
    EXPECT_THAT(tests.faults, IsEmpty());
    ASSERT_EQ(tests.runs.size(), 1u);
    const NcclRun& run = tests.runs[0];
    EXPECT_EQ(run.collective, machine.collective);
    EXPECT_EQ(run.nccl_version, "2.28.5");
    EXPECT_EQ(run.device, "NVIDIA Test GPU");
    EXPECT_EQ(run.ranks, machine.ranks);
    EXPECT_EQ(run.nodes, 1);
    ASSERT_EQ(run.timings.size(), 2 * machine.sizes.size());  // out of place and in place
    for (std::size_t i = 0; i < run.timings.size(); ++i) {
        EXPECT_EQ(run.timings[i].bytes, machine.sizes[i / 2]);
        EXPECT_EQ(run.timings[i].type, "float");
        EXPECT_EQ(run.timings[i].wrong, 0);
        EXPECT_NEAR(run.timings[i].seconds * 1e6 / machine.time_us(run.timings[i].bytes), 1,
                    relative);
    }
}

TEST(NcclTests, ReadsTheTableAndTheJsonAlike) {
    for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter"}) {
        NcclMachine machine;
        machine.collective = collective;
        // 20 µs are printed with two decimals: half of the last is 1 part in 4000.
        expect_run_of(machine, read_nccl_tests(machine.table(), "run", ""), 1.0 / 4000);
        expect_run_of(machine, read_nccl_tests(machine.json().dump(), "run", ""), 1e-12);
    }
}

TEST(NcclTests, TakesTheCollectiveFromTheOptionWhereTheTableDoesNotSayIt) {
    const std::string table = NcclMachine().table(false);
    EXPECT_THAT(faults(table), ElementsAre("run:1: the output does not say which collective it "
                                           "timed; --collective does"));
    const NcclTests tests = read_nccl_tests(table, "run", "all_reduce");
    EXPECT_THAT(tests.faults, IsEmpty());
    EXPECT_EQ(tests.runs.at(0).collective, "all_reduce");
    EXPECT_EQ(tests.runs.at(0).nccl_version, "");
    // The NCCL of such a run, with NCCL_DEBUG=VERSION; what NCCL says within the table is no row.
    const std::string talkative = replaced(
        replaced(table, "# Using devices\n", "# Using devices\nNCCL version 2.19.3+cuda12.2\n"),
        "# Out of bounds", "node-a:6899:6899 [0] NCCL INFO comm destroyed\n# Out of bounds");
    EXPECT_EQ(read_nccl_tests(talkative, "run", "all_reduce").runs.at(0).nccl_version, "2.19.3");
}

TEST(NcclTests, TheWrongCollectiveShowsInItsBusBandwidth) {
    // 8 ranks send 2·7/8 of the bytes in an all-reduce, 7/8 in an all-gather.
    const auto found = faults(NcclMachine().table(false), "all_gather");
    ASSERT_FALSE(found.empty());
    EXPECT_THAT(found.back(), HasSubstr("all_gather of 1073741824 bytes over 8 ranks"));
}

TEST(NcclTests, ReadsSeveralRunsOfOneLog) {
    NcclMachine gather;
    gather.collective = "all_gather";
    const NcclTests tests = read_nccl_tests(
        "$ srun all_reduce_perf\n" + NcclMachine().table() + "done\n\n" + gather.table(), "log",
        "");
    EXPECT_THAT(tests.faults, IsEmpty());
    ASSERT_EQ(tests.runs.size(), 2u);
    EXPECT_EQ(tests.runs[0].collective, "all_reduce");
    EXPECT_EQ(tests.runs[1].collective, "all_gather");
    EXPECT_EQ(tests.runs[1].ranks, 8);
}

TEST(NcclTests, ReportsEveryFaultOfATableWithLineAndValue) {
    NcclMachine machine;
    machine.sizes = {1048576, 2097152, 4194304, 8388608};
    std::string text = machine.table();  // 4 lines of head, 8 ranks, 4 lines more: rows from 18
    text = replaced(text, "#\n# Using", "# Using");
    text = replaced(text, "       0\n     2097152", "       3\n     2097152");
    text = replaced(text, machine.four(2097152), "    fast   56.33   98.58       0");
    text = replaced(text, "     4194304       1048576     float     sum      -1", "     4194304");
    text = replaced(
        text, machine.four(8388608),
        replaced(machine.four(8388608),
                 fmt::format("{:6.2f}", machine.sent(8388608) / machine.time_us(8388608) / 1e3),
                 "  9.99"));
    const auto found = faults(text);
    ASSERT_EQ(found.size(), 4u) << fmt::format("{}", fmt::join(found, "\n"));
    EXPECT_EQ(found[0], "run:18: time 'fast': not a number");
    EXPECT_THAT(found[1], HasSubstr("run:19: 9 words, a row of this table has 13: '4194304 "));
    EXPECT_EQ(found[2], "run:17: #wrong 3: what this run computed is not right");
    EXPECT_THAT(found[3],
                HasSubstr("run:20: busbw 9.99: all_reduce of 8388608 bytes over 8 ranks"));
}

TEST(NcclTests, RefusesWhatIsNoWholeRun) {
    const std::string table = NcclMachine().table();
    EXPECT_THAT(faults("hello\n"), ElementsAre("run: no output of nccl-tests"));
    EXPECT_THAT(faults(table.substr(0, table.find("# Out of"))),
                ElementsAre(HasSubstr("the table has no end")));
    EXPECT_THAT(faults(table.substr(0, table.find("#\n#   "))),
                ElementsAre("run:1: a run without a table"));
    EXPECT_THAT(faults(replaced(table, " on     node-a device  1", " on     node-b device  1")),
                ElementsAre(HasSubstr("8 ranks on 2 nodes")));
    EXPECT_THAT(faults(replaced(table, "Rank  1 Group  0", "Rank  1 Group  1")),
                ElementsAre(HasSubstr("2 groups ran at once")));
    EXPECT_THAT(faults(replaced(table, "starting: all_reduce_perf", "starting: sendrecv_perf")),
                ElementsAre(HasSubstr("run:1: 'sendrecv': profiles have curves of")));
    EXPECT_THAT(faults(replaced(table, "busbw #wrong", "busbw  error")),
                ElementsAre(HasSubstr("run:16: the columns time, algbw, busbw, #wrong")));
    EXPECT_THAT(faults(replaced(table, "#  Rank  7", "#  Renk  7")),
                ElementsAre("run:1: 7 lines '#  Rank' of processes with 8 ranks each"));
}

TEST(NcclTests, SkipsSizesWithoutBytesAndWhatWasNotDoneInPlace) {
    NcclMachine machine;
    machine.sizes = {1048576};
    const std::string four = machine.four(1048576);
    std::string text =
        replaced(machine.table(), four + four, four + "      N/A     N/A     N/A     N/A");
    text =
        replaced(text, "     1048576        262144",
                 "           0             0     float     sum      -1     8.11    0.00    0.00  "
                 "    0     8.05    0.00    0.00      0\n     1048576        262144");
    const NcclTests tests = read_nccl_tests(text, "run", "");
    EXPECT_THAT(tests.faults, IsEmpty());
    ASSERT_EQ(tests.runs.at(0).timings.size(), 1u);
    EXPECT_EQ(tests.runs[0].timings[0].bytes, 1048576);
}

TEST(NcclTests, ReportsEveryFaultOfAJsonFile) {
    nlohmann::json file = NcclMachine().json();
    file["results"][0]["out_of_place"]["nwrong"] = 2.0;
    file["results"][1]["in_place"]["time"] = "nan";
    file["results"][2]["size"] = -1;
    file["results"][3]["in_place"] = nullptr;
    file["results"][4]["out_of_place"]["nwrong"] = nullptr;
    EXPECT_THAT(faults(file.dump()),
                ElementsAre("run: /results/1/in_place/time: a number is expected, not \"nan\"",
                            "run: /results/2/size: a number of bytes is expected",
                            "run: /results/0/out_of_place: #wrong 2: what this run computed is not "
                            "right"));
    const std::string text = NcclMachine().json().dump();
    EXPECT_THAT(faults(text.substr(0, text.size() / 2)), ElementsAre(HasSubstr("cut short")));
    EXPECT_THAT(faults("{\"results\": 3}"), ElementsAre(HasSubstr("not of nccl-tests -J")));
}

TEST(NcclTests, CountsTheGpusOfOneProcessThatTheJsonDoesNotList) {
    nlohmann::json file = NcclMachine().json();
    file["config"]["ngpus"] = 8;
    file["config"]["devices"].erase(file["config"]["devices"].begin() + 1,
                                    file["config"]["devices"].end());
    expect_run_of(NcclMachine(), read_nccl_tests(file.dump(), "run", ""), 1e-12);
}

TEST(NcclVersion, IsThatOfItsCode) {
    EXPECT_EQ(nccl_version_text(2804), "2.8.4");
    EXPECT_EQ(nccl_version_text(21903), "2.19.3");
    EXPECT_EQ(nccl_version_text(22805), "2.28.5");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
