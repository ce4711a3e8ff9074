// The last ops of a rank, as they are kept and as they are written.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runtime/cpu/cpu_backend.hpp"
#include "runtime/flight/flight_records.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

plan::Op op_named(const std::string& label, plan::OpKind kind = plan::OpKind::gemm) {
    plan::Op op;
    op.spec = plan::spec_of(kind);
    op.label = label;
    return op;
}

BoundOp bound_to(const plan::Op& op) {
    BoundOp bound;
    bound.op = &op;
    return bound;
}

plan::Mesh pair() {
    plan::Mesh mesh;
    mesh.tensor = 2;
    return mesh;
}

TEST(FlightRecorder, KeepsTheLastOps) {
    FlightRecorder recorder(pair(), 1);
    const plan::Op op = op_named("qkv");
    constexpr std::uint64_t kAll = FlightRecorder::kOps + 10;
    std::uint64_t first = 0;
    for (std::uint64_t i = 1; i <= kAll; ++i) {
        const std::uint64_t number = recorder.begin(bound_to(op), 7, static_cast<std::int64_t>(i));
        if (i == 1) first = number;
        if (i < kAll) recorder.end(number, static_cast<std::int64_t>(i + 1));
    }
    recorder.end(first, 99);  // long overwritten
    const auto ops = recorder.ops();
    ASSERT_EQ(ops.size(), FlightRecorder::kOps);
    EXPECT_EQ(ops.front().number, 11U);
    EXPECT_EQ(ops.front().end, 12);
    EXPECT_EQ(ops.back().number, kAll);
    EXPECT_EQ(ops.back().end, 0);
    EXPECT_EQ(ops.back().step, 7);
}

// Whatever is read meanwhile was recorded so.
TEST(FlightRecorder, IsReadWhileItIsWritten) {
    FlightRecorder recorder(pair(), 0);
    const plan::Op even = op_named("even"), odd = op_named("odd");
    std::thread writer([&] {
        for (std::int64_t i = 1; i <= 20'000; ++i)
            recorder.end(recorder.begin(bound_to(i % 2 == 0 ? even : odd), i, i), i);
    });
    for (int look = 0; look < 20; ++look)
        for (const RecordedOp& op : recorder.ops()) {
            EXPECT_EQ(op.op->label, op.number % 2 == 0 ? "even" : "odd");
            EXPECT_EQ(op.step, static_cast<std::int64_t>(op.number));
        }
    writer.join();
}

TEST(FlightRecords, SayWhatARankDidAndWithWhom) {
    FlightRecorder recorder(pair(), 1);
    const plan::Op gemm = op_named("fc1");
    plan::Op sum = op_named("fc1 sum", plan::OpKind::all_reduce);
    sum.stream = plan::Stream::tensor_comm;
    sum.group = plan::GroupKind::tensor;
    plan::Op exchange = op_named("boundary", plan::OpKind::exchange);
    exchange.stream = plan::Stream::pipeline_comm;
    const Operand written{0, 12, plan::DType::fp32};
    BoundOp bound_sum = bound_to(sum);
    bound_sum.writes = {&written, 1};
    bound_sum.layer = 3;
    const BoundTransfer transfers[] = {{0, true, 0, 40, 1}, {0, false, 0, 8, 2}};
    BoundOp bound_exchange = bound_to(exchange);
    bound_exchange.transfers = transfers;
    bound_exchange.micro_batch = 2;
    recorder.end(recorder.begin(bound_to(gemm), 5, 100), 110);
    recorder.begin(bound_sum, 5, 120);
    recorder.end(recorder.begin(bound_exchange, 5, 130), 140);
    const json record = json::parse(flight_record_text(recorder, "rank 0 has died"));
    EXPECT_EQ(record["flight_record"], 1);
    EXPECT_EQ(record["rank"], 1);
    EXPECT_EQ(record["ranks"], 2);
    EXPECT_EQ(record["reason"], "rank 0 has died");
    EXPECT_EQ(record["waits"], nullptr);
    EXPECT_EQ(record["ops"], json::parse(R"([
        {"number": 1, "step": 5, "op": "gemm", "label": "fc1", "stream": "compute",
         "begin_ns": 100, "end_ns": 110},
        {"number": 2, "step": 5, "op": "all_reduce", "label": "fc1 sum", "stream": "tensor_comm",
         "layer": 3, "begin_ns": 120, "end_ns": null, "bytes": 48, "group": "tensor",
         "members": [0, 1]},
        {"number": 3, "step": 5, "op": "exchange", "label": "boundary", "stream": "pipeline_comm",
         "micro_batch": 2, "begin_ns": 130, "end_ns": 140, "bytes": 48, "peers": [0]}])"));
}

class WrittenRecords : public testing::Test {
  protected:
    WrittenRecords() { std::filesystem::remove_all(folder_); }
    ~WrittenRecords() override { std::filesystem::remove_all(folder_); }

    json record(const std::string& name) const {
        std::ifstream file(folder_ + "/" + name);
        return json::parse(file, nullptr, false);
    }

    // Of rank 0, which is in its first op.
    std::unique_ptr<FlightRecorder> working() const {
        auto recorder = std::make_unique<FlightRecorder>(pair(), 0);
        recorder->begin(bound_to(op_), 1, 1);
        return recorder;
    }

    const plan::Op op_ = op_named("qkv");
    std::string folder_ = testing::TempDir() + "some/flight-record";
    std::vector<std::string> said_;
    FlightRecords records_{folder_, [this](const std::string& line) { said_.push_back(line); }};
};

TEST_F(WrittenRecords, AFailureCountsOnceAndMoreThanARequest) {
    const auto recorder = working();
    records_.add(*recorder);
    records_.write_on_request("SIGTERM came");
    EXPECT_EQ(record("rank-00000.json")["reason"], "SIGTERM came");
    records_.write_failure("the first");
    records_.write_failure("the second");
    records_.write_on_request("SIGTERM came");
    EXPECT_EQ(record("rank-00000.json")["reason"], "the first");
    EXPECT_THAT(said_, ElementsAre("flight record: " + folder_ + "/rank-00000.json",
                                   "flight record: " + folder_ + "/rank-00000.json"));
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
        EXPECT_EQ(entry.path().filename(), "rank-00000.json");
    records_.remove(*recorder);
}

TEST_F(WrittenRecords, AnotherAttemptKeepsThoseOfTheOneBefore) {
    const auto recorder = working();
    for (const char* reason : {"the first attempt", "the second", "the third"}) {
        FlightRecords attempt(folder_, [](const std::string&) {});
        attempt.add(*recorder);
        attempt.write_on_request("SIGTERM came");
        attempt.write_failure(reason);
        attempt.remove(*recorder);
    }
    EXPECT_EQ(record("rank-00000.earlier-1.json")["reason"], "the first attempt");
    EXPECT_EQ(record("rank-00000.earlier-2.json")["reason"], "the second");
    EXPECT_EQ(record("rank-00000.json")["reason"], "the third");
}

TEST_F(WrittenRecords, AFolderThatCannotBeMadeIsSaid) {
    std::ofstream(testing::TempDir() + "a-file") << "x";
    FlightRecords records(testing::TempDir() + "a-file/records",
                          [this](const std::string& line) { said_.push_back(line); });
    const auto recorder = working();
    records.add(*recorder);
    records.write_failure("it failed");
    EXPECT_THAT(said_, ElementsAre(HasSubstr("no flight record: ")));
    records.remove(*recorder);
}

// Of ranks that are threads: what each waited for when the run ended. One fails once the other has
// come to where it waits.
TEST_F(WrittenRecords, ThreadsThatWaitForARankThatFails) {
    CpuBackend backend({}, std::chrono::minutes(10), &records_);
    std::latch other_is_there(1);
    EXPECT_THROW(backend.run_ranks(pair(),
                                   [&](RankSeat& seat) {
                                       if (seat.rank() == 0) {
                                           other_is_there.count_down();
                                           return seat.control().finish();
                                       }
                                       other_is_there.wait();
                                       std::this_thread::sleep_for(std::chrono::milliseconds(200));
                                       throw std::runtime_error("no room");
                                   }),
                 std::runtime_error);
    EXPECT_THAT(said_, ElementsAre("flight records of 2 ranks: " + folder_ + "/rank-*.json"));
    EXPECT_EQ(record("rank-00000.json")["reason"], "no room");
    EXPECT_EQ(record("rank-00001.json")["waits"], nullptr);
}

// A run that is refused because another one has its folders leaves that one's records alone.
TEST_F(WrittenRecords, AreNoneOfRanksThatHaveDoneNothing) {
    FlightRecorder recorder(pair(), 0);
    records_.add(recorder);
    records_.write_failure("somebody writes there");
    records_.write_on_request("SIGTERM came");
    EXPECT_THAT(said_, ElementsAre());
    EXPECT_FALSE(std::filesystem::exists(folder_));
    records_.remove(recorder);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
