// Where a job hangs: small jobs whose ranks miss each other in known ways.
#include "trace/flight_findings.hpp"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/formats/flight_dump.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// An entry of a dump.
struct Entry {
    const char* group;
    int seq;
    const char* op;
    const char* state;
    const char* sizes = "[[1024]]";
    bool message = false;
    const char* dtype = "Float";
};

std::string json_of(const std::vector<Entry>& entries) {
    std::string text = R"({"version": "2.5", "pg_config": {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
        "1": {"name": "1", "desc": "tensor", "ranks": "[0, 1]"},
        "2": {"name": "2", "desc": "tensor", "ranks": [2, 3]}},
        "pg_status": {"0": {"last_enqueued_collective": "2"}}, "entries": [)";
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const Entry& e = entries[i];
        text += fmt::format(
            R"({}{{"record_id": {}, "pg_id": 0, "process_group": ["{}", "a group"],
               "collective_seq_id": {}, "p2p_seq_id": {}, "op_id": 1,
               "profiling_name": "nccl:{}", "input_sizes": {}, "input_dtypes": ["{}"],
               "output_sizes": {}, "output_dtypes": ["{}"], "state": "{}", "is_p2p": {}}})",
            i > 0 ? "," : "", i, e.group, e.message ? 0 : e.seq, e.message ? e.seq : 0, e.op,
            e.sizes, e.dtype, e.sizes, e.dtype, e.state, e.message);
    }
    return text + "]}";
}

std::string written(const std::string& name, const std::string& text) {
    std::string path = testing::TempDir() + '/' + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
}

// By rank, from 0.
FlightFindings found(const std::vector<std::vector<Entry>>& ranks) {
    std::vector<FlightDump> dumps;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        dumps.push_back(read_flight_dump(
            written(fmt::format("nccl_trace_rank_{}.json", rank), json_of(ranks[rank]))));
    return find_hang(dumps);
}

const Entry kFirst{"0", 1, "all_reduce", "completed"};
const Entry kWaits{"0", 2, "all_reduce", "started"};

TEST(FlightFindings, NameTheRankThatIsNotThere) {
    const FlightFindings all =
        found({{kFirst, kWaits}, {kFirst, kWaits}, {kFirst}, {kFirst, kWaits}});
    ASSERT_EQ(all.findings.size(), 1U);
    const FlightFinding& finding = all.findings[0];
    EXPECT_EQ(finding.fault, FlightFault::missing);
    EXPECT_EQ(finding.seq, 2);
    EXPECT_THAT(finding.waiting, ElementsAre(0, 1, 3));
    EXPECT_THAT(finding.missing, ElementsAre(2));
    EXPECT_THAT(finding.unknown, IsEmpty());
    EXPECT_THAT(all.suspects, ElementsAre(2));
    ASSERT_EQ(finding.calls.size(), 1U);
    EXPECT_EQ(finding.calls.begin()->first.op, "all_reduce");
    EXPECT_EQ(finding.calls.begin()->first.sizes, "Float [1024] -> Float [1024]");
    EXPECT_FALSE(all.places[2].waits_in.has_value());
    EXPECT_EQ(all.places[2].last->seq, 1);
    EXPECT_EQ(all.places[3].waits_in->seq, 2);
}

// Rank 2 is missing in the group of all since it waits for rank 3, which waits for nobody.
TEST(FlightFindings, FollowWhoWaitsForWhom) {
    const FlightFindings all = found({{kFirst, kWaits},
                                      {kFirst, kWaits},
                                      {kFirst, {"2", 1, "reduce_scatter", "scheduled"}},
                                      {kFirst}});
    ASSERT_EQ(all.findings.size(), 2U);
    EXPECT_EQ(all.findings[0].group, "0");
    EXPECT_THAT(all.findings[0].missing, ElementsAre(2, 3));
    EXPECT_EQ(all.findings[1].group, "2");
    EXPECT_THAT(all.findings[1].missing, ElementsAre(3));
    EXPECT_THAT(all.suspects, ElementsAre(3));
}

TEST(FlightFindings, OtherOpsAndSizesAreNamedOnce) {
    const FlightFindings ops = found({{kFirst, kWaits},
                                      {kFirst, {"0", 2, "all_gather", "started"}},
                                      {kFirst, kWaits},
                                      {kFirst, kWaits, {"0", 3, "all_reduce", "scheduled"}}});
    ASSERT_FALSE(ops.findings.empty());
    EXPECT_EQ(ops.findings[0].fault, FlightFault::other_op);
    EXPECT_THAT(ops.findings[0].calls.at({"all_gather", "Float [1024] -> Float [1024]"}),
                ElementsAre(1));

    const FlightFindings sizes = found({{kFirst, kWaits},
                                        {kFirst, kWaits},
                                        {kFirst, kWaits},
                                        {kFirst, {"0", 2, "all_reduce", "started", "[[2048]]"}}});
    ASSERT_EQ(sizes.findings.size(), 1U);
    EXPECT_EQ(sizes.findings[0].fault, FlightFault::other_sizes);
    EXPECT_THAT(sizes.suspects, ElementsAre(3));

    // What each sends to each may differ.
    const FlightFindings uneven = found({{{"0", 1, "all_to_all", "completed", "[[7]]"}},
                                         {{"0", 1, "all_to_all", "completed", "[[9]]"}},
                                         {{"0", 1, "all_to_all", "completed", "[[0]]"}},
                                         {{"0", 1, "all_to_all", "completed", "[[1]]"}}});
    EXPECT_THAT(uneven.findings, IsEmpty());
    // What all reduce may not, nor may its type.
    const FlightFindings types =
        found({{kFirst},
               {{"0", 1, "all_reduce", "completed", "[[1024]]", false, "Half"}},
               {kFirst},
               {kFirst}});
    ASSERT_EQ(types.findings.size(), 1U);
    EXPECT_EQ(types.findings[0].fault, FlightFault::other_sizes);
    EXPECT_THAT(types.suspects, ElementsAre(1));
}

TEST(FlightFindings, AllThereAndNotEndedIsNobodysFault) {
    const Entry ended{"0", 2, "all_reduce", "completed"};
    const FlightFindings all =
        found({{kFirst, kWaits}, {kFirst, kWaits}, {kFirst, ended}, {kFirst, kWaits}});
    ASSERT_EQ(all.findings.size(), 1U);
    EXPECT_EQ(all.findings[0].fault, FlightFault::not_ended);
    EXPECT_THAT(all.findings[0].ended, ElementsAre(2));
    EXPECT_THAT(all.suspects, IsEmpty());
}

TEST(FlightFindings, NothingIsFoundWhereNobodyWaits) {
    const FlightFindings all = found({{kFirst}, {kFirst}, {kFirst}, {kFirst}});
    EXPECT_THAT(all.findings, IsEmpty());
    EXPECT_THAT(all.suspects, IsEmpty());
    EXPECT_THAT(all.without_dump, IsEmpty());
}

TEST(FlightFindings, ARankWithoutADumpIsSuspected) {
    const FlightFindings all = found({{kFirst, kWaits}, {kFirst, kWaits}, {kFirst, kWaits}});
    EXPECT_THAT(all.without_dump, ElementsAre(3));
    ASSERT_EQ(all.findings.size(), 1U);
    EXPECT_THAT(all.findings[0].unknown, ElementsAre(3));
    EXPECT_THAT(all.suspects, ElementsAre(3));
}

// A ring buffer holds the last ones alone: what only some still have was called by all. Messages
// are of two ranks, and of no collective.
TEST(FlightFindings, WhatABufferHasLostWasCalled) {
    const Entry second{"0", 2, "all_reduce", "completed"};
    const FlightFindings all = found({{kFirst, second},
                                      {second},
                                      {second},
                                      {second, {"0", 1, "send 3->2", "started", "[[8]]", true}}});
    EXPECT_THAT(all.findings, IsEmpty());
    EXPECT_EQ(all.places[3].waits_in->name, "send 3->2");
    EXPECT_TRUE(all.places[3].waits_in->is_message);
}

std::string fault_of(const std::string& path) {
    try {
        read_flight_dump(path);
    } catch (const TraceFileError& error) {
        EXPECT_EQ(error.fault(), TraceFault::unreadable);
        return error.what();
    }
    return "";
}

TEST(FlightDump, SaysWhatIsWrongWithIt) {
    const std::string sound = json_of({kFirst});
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string text = sound;
        text.replace(text.find(from), from.size(), to);
        return fault_of(written("rank7.json", text));
    };
    EXPECT_EQ(read_flight_dump(written("rank7.json", sound)).rank, 7);
    EXPECT_EQ(read_flight_dump(written("rank_3x.json", R"({"rank": 5, "entries": []})")).rank, 5);
    EXPECT_TRUE(read_flight_dump(written("rank1.json", R"({"pg_config": {}})")).ops.empty());
    EXPECT_THAT(fault_of(written("trace.json", sound)),
                HasSubstr("expected a name that ends in the rank, as nccl_trace_rank_3.json"));
    EXPECT_THAT(fault_of(written("nccl_trace_rank_0", "\x80\x02}q\x01.")),
                HasSubstr("json.dump(pickle.load(open(sys.argv[1]"));
    EXPECT_THAT(with("\"completed\"", "\"lost\""), HasSubstr("/entries/0/state: expected"));
    EXPECT_THAT(with("\"collective_seq_id\"", "\"seq_id\""),
                HasSubstr("/entries/0: expected \"collective_seq_id\": dumps before version 2"));
    EXPECT_THAT(with("[[1024]]", "[1024]"),
                HasSubstr("/entries/0/input_sizes: expected lists of whole numbers"));
    EXPECT_THAT(with("\"[0, 1]\"", "\"[0, 1\""), HasSubstr("/pg_config/1/ranks: expected a list"));
    EXPECT_THAT(fault_of(written("rank2.json", sound.substr(0, 100))),
                HasSubstr("byte 101: expected sound JSON"));
    EXPECT_THAT(fault_of(written("rank3.json", "{}")), HasSubstr("no dump of PyTorch's flight"));
    EXPECT_THAT(fault_of(written("rank4.json", "")), HasSubstr("the file is empty"));
    EXPECT_THAT(fault_of(testing::TempDir() + "/absent_5.json"), HasSubstr("cannot be opened"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
