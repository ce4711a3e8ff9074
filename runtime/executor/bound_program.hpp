// A rank's program with every tensor at its byte of the arena: what a device performs. Binding
// decides nothing; it looks up what the plan says (places, order, products), once for all steps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "plan/ir/communicators.hpp"
#include "plan/ir/link.hpp"
#include "plan/ir/parameters.hpp"

namespace orrery::runtime {

// A tensor in the arena.
struct Operand {
    std::int64_t offset = 0;    // bytes from the arena's start, over all tiers (first_address)
    std::int64_t elements = 0;  // 0: the op has no such operand
    plan::DType dtype = plan::DType::fp32;

    std::int64_t bytes() const { return elements * plan::size_bytes(dtype); }
};

// One side of a transfer.
struct BoundTransfer {
    plan::Rank peer = 0;
    bool sends = false;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::int64_t tag = 0;  // tells messages between two ranks apart: stage, micro-batch, direction
};

// Memory that changes hands with an op: it is this op that first touches it. Of the device or the
// host.
struct Birth {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
};

struct BoundOp {
    const plan::Block* block = nullptr;
    const plan::Op* op = nullptr;
    std::span<const plan::Wait> waits;
    std::span<const Operand> reads;
    std::span<const Operand> writes;
    std::span<const BoundTransfer> transfers;
    std::span<const Birth> births;
    std::int32_t layer = -1;
    std::int32_t micro_batch = -1;
    std::int32_t bucket = -1;
    bool accumulates = false;  // adds to what it writes; else overwrites
    // What the host fills before the op runs: of its micro-batch, what comes so many tokens later.
    std::int32_t fed_ahead = -1;  // −1: nothing
    Operand fed;
};

struct BoundProgram;

// Where a step's optimizer does not wait for the other stages (plan/passes/post_validation.cpp):
// the ops [first, end) of the next step find out whether it was right, and what is to be done if it
// was not, before that step begins anew.
struct Validation {
    std::uint32_t first = 0, end = 0;
    std::shared_ptr<const BoundProgram> amendment;  // null: steps are not validated later
};

struct BoundProgram {
    std::vector<BoundOp> ops;                             // by op id, in issue order
    std::vector<std::vector<plan::BucketEntry>> entries;  // by bucket
    std::vector<plan::Bucket> buckets;
    std::vector<plan::Resident> residents;  // with offsets from the arena's start, as operands
    // Residents that may be more than a program has use for: the workspace of GEMMs, the two
    // frames, which stages of one part or two pass by, and slots of rings, as large as the largest
    // that passes through any of them; and the room for scalars, where there are none.
    std::set<std::int32_t> spare;
    Birth workspace;  // of GEMMs; nothing else lies there
    std::int64_t arena_bytes = 0;
    std::int64_t host_bytes = 0;        // behind the arena, and
    std::int64_t disk_bytes = 0;        // behind these; addresses on disk are places in a file
    std::int64_t high_water_bytes = 0;  // end of the last operand in the arena
    std::int64_t memory_bytes() const { return arena_bytes + host_bytes; }
    Validation validation;
    // Where steps run on into one another (plan/ir/turns.hpp) this is the program of the steps c
    // with c mod turns = 0, and these are the others', by turn from 1 on. Of all of them waits
    // count from the start of the step, modulo 2^32.
    std::vector<std::shared_ptr<const BoundProgram>> other_turns;
    std::int64_t turns() const { return 1 + static_cast<std::int64_t>(other_turns.size()); }
    const BoundProgram& of_step(std::int64_t step) const {
        const auto turn = static_cast<std::size_t>(step % turns());
        return turn == 0 ? *this : *other_turns[turn - 1];
    }
    plan::Coordinates at;
    plan::Mesh mesh;
    std::vector<plan::Communicators> communicators;  // of the whole plan, by pipeline rank
    plan::TokenLayout tokens;
    std::vector<std::int64_t> share;  // by bucket: its number among those that share it out
    // Bytes from the arena's start, −1: the program has none.
    std::int64_t scalar(const std::string& name) const;
    // Elements of `bucket` that this rank steps: [first, first + count).
    std::int64_t first_stepped(std::size_t bucket) const;
    std::int64_t stepped(std::size_t bucket) const;

    // Backing of the spans above.
    plan::LinkedProgram linked;
    std::vector<Operand> operands;
    std::vector<BoundTransfer> transfers;
    std::vector<Birth> births;
    std::map<std::string, std::int64_t> scalars;
};

// `plan` and `program` must outlive the result, which does not move its backing when it is moved.
BoundProgram bind_program(const plan::Plan& plan, const plan::Program& program, plan::Rank rank);

}  // namespace orrery::runtime
