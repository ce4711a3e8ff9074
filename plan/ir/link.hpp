// A program written out op by op: one total issue order, and for each op what must have ended on
// other streams. This is what both interpreters walk: an executor records and waits for events, the
// simulator counts. An op's id is its index here; traces carry it.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/ir/order.hpp"
#include "plan/ir/plan.hpp"

namespace orrery::plan {

// So many ops of this stream of the same rank, counted from the start of the step, have ended.
struct Wait {
    std::uint32_t count = 0;
    Stream stream = Stream::compute;
};

struct LinkedProgram {
    // By op id:
    std::vector<std::uint32_t> op;          // number of the op across blocks (Plan::first_ops)
    std::vector<std::uint32_t> first_wait;  // into waits; one more entry than ops
    std::vector<std::uint32_t> step;        // index into Program::steps
    std::vector<std::uint16_t> use;         // index into the step's procedure
    std::vector<Wait> waits;
    StreamCounts ops_per_stream{};

    std::size_t size() const { return op.size(); }
};

// `repetitions` of the step one after another, with the order that memory demands between them: two
// are needed where one step's end overlaps the next one's beginning. Steps are numbered within one.
LinkedProgram link(const Plan& plan, const Program& program, int repetitions = 1);
// The same of all of the plan's programs, which share blocks.
std::vector<LinkedProgram> link_all(const Plan& plan, int repetitions = 1);

}  // namespace orrery::plan
