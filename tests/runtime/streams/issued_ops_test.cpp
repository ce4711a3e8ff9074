// What the flight record says of ops that are put into streams.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runtime/flight/flight_records.hpp"
#include "runtime/streams/issued_ops.hpp"
#include "tests/runtime/streams/fake_drivers.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using testing::ElementsAre;

class RecordOfStreams : public testing::Test {
  protected:
    RecordOfStreams() { issued.use(&driver); }

    // Marked ones are followed by a mark.
    void issue(Stream stream, const plan::Op& op, bool marked) {
        BoundOp bound;
        bound.op = &op;
        issued.begin(bound, 5);
        Event mark;
        if (marked) driver.record(mark = driver.create_event(false), stream);
        issued.issued(stream, mark);
    }

    std::vector<std::string> unended() const {
        std::vector<std::string> labels;
        for (const RecordedOp& op : recorder.ops())
            if (op.end == 0) labels.push_back(op.op->label);
        return labels;
    }

    static plan::Op named(const std::string& label) {
        plan::Op op;
        op.spec = plan::spec_of(plan::OpKind::gemm);
        op.label = label;
        return op;
    }

    FakeStreams driver;
    FlightRecorder recorder{plan::Mesh{}, 0};
    IssuedOps issued{recorder};
    const plan::Op a = named("a"), b = named("b"), c = named("c"), d = named("d");
    const Stream first = driver.create_stream(StreamUse::compute),
                 second = driver.create_stream(StreamUse::communication);
};

TEST_F(RecordOfStreams, HasOpsEndWithTheMarkBehindThem) {
    issue(first, a, false);
    issue(first, b, true);
    issue(second, c, true);
    issue(first, d, false);
    EXPECT_THAT(unended(), ElementsAre("a", "b", "c", "d"));
    const Event done = driver.create_event(false);
    issued.marked(first, done);
    issued.passed(done);
    EXPECT_THAT(unended(), ElementsAre("c"));
}

// The device has passed one mark of each stream.
TEST_F(RecordOfStreams, LooksAtTheMarksOfARunThatEnds) {
    driver.passed_marks = 1;
    issue(first, a, false);
    issue(first, b, true);
    issue(second, c, true);
    issue(first, d, true);
    issued.freeze();
    EXPECT_THAT(unended(), ElementsAre("d"));
    driver.passed_marks = 2;  // its calls have been aborted
    issued.freeze();
    EXPECT_THAT(unended(), ElementsAre("d"));
}

TEST_F(RecordOfStreams, TellsWhatTheDriverHolds) {
    FlightRecords records(testing::TempDir(), [](const std::string&) {});
    records.add(recorder);
    issue(first, a, false);
    EXPECT_EQ(records.unfinished(), "") << "it is in its stream";
    BoundOp bound;
    bound.op = &b;
    issued.begin(bound, 5);
    EXPECT_EQ(records.unfinished(), "gemm b");
    const auto ops = nlohmann::json::parse(flight_record_text(recorder, "why")).at("ops");
    ASSERT_EQ(ops.size(), 2U);
    EXPECT_GE(ops[0].at("issued_ns"), ops[0].at("begin_ns"));
    EXPECT_TRUE(ops[0].at("end_ns").is_null());
    EXPECT_TRUE(ops[1].at("issued_ns").is_null());
    records.remove(recorder);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
