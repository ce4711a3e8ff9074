// Plans that do nothing but communicate, or compute and communicate at once, so that a backend's
// collectives are timed through the communicator that training uses: each kind and size so often in
// a row, as nccl-tests calls them.
//
// Their mesh is one data group of all ranks, which all perform one program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::measure {

struct CollectiveCall {
    plan::OpKind kind = plan::OpKind::all_reduce;
    std::int64_t bytes = 0;  // S of nccl-tests; of a shift the message
    bool in_place = false;
    int calls = 1;  // in a row
};

// By number in a rank's program.
struct OpRange {
    std::size_t first = 0, count = 0;
};

struct CollectivePlan {
    plan::Plan plan;
    std::vector<OpRange> of;  // of each call that was asked for
};

// As nccl-tests counts: the bytes of so many whole fp32 numbers that divide among the ranks; 0:
// there are too few.
std::int64_t shared_out(plan::OpKind kind, std::int64_t bytes, std::int64_t ranks);

// What both ways there are to call each kind are to a plan: an all-reduce replaces what is summed,
// rows that are exchanged lie apart, the others do either.
bool has_way(plan::OpKind kind, bool in_place);

// Calls whose bytes are shared_out's, one after the other.
CollectivePlan collective_plan(std::int64_t ranks, const std::vector<CollectiveCall>& calls);

// Products of size³ and calls of a collective: of each as many alone, then both at once, issued in
// turns, with nothing between them but the device.
struct OverlapCalls {
    CollectiveCall call;  // how often it is called is `call.calls`
    std::int64_t size = 0;
    plan::DType dtype = plan::DType::bf16;
    int products = 1;
    std::int64_t workspace_bytes = 0;  // of a product
};
struct OverlapPlan {
    plan::Plan plan;
    OpRange products, calls, both;
    std::vector<bool> computes;  // of each op of `both`
};
OverlapPlan overlap_plan(std::int64_t ranks, const OverlapCalls& calls);

}  // namespace orrery::measure
