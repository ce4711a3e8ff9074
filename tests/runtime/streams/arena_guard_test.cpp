#include "runtime/streams/arena_guard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;

// An op that reads 64 floats and makes the next 64: an arena of 512 bytes.
class Guarded : public testing::Test {
  protected:
    static constexpr std::int64_t kBytes = 512;

    Guarded() {
        block_.name = "small";
        op_.spec = plan::spec_of(plan::OpKind::activation);
        op_.label = "ReLU";
        program_.arena_bytes = program_.high_water_bytes = kBytes;
        program_.operands = {{0, 64, plan::DType::fp32}, {256, 64, plan::DType::fp32}};
        plan::Resident all;
        all.name = "all";
        all.bytes = kBytes;
        program_.residents = {all};
        bound_.block = &block_;
        bound_.op = &op_;
        bound_.reads = std::span<const Operand>(program_.operands).first(1);
        bound_.writes = std::span<const Operand>(program_.operands).last(1);
    }

    std::byte* arena() { return memory_.data() + ArenaGuard::kZone; }

    // What the guard says of an op that writes zeros to these bytes; empty: nothing.
    std::string fault_of(std::int64_t first, std::int64_t last) {
        std::fill(memory_.begin(), memory_.end(), std::byte{7});
        ArenaGuard guard(program_, 3, arena());
        guard.begin(bound_);
        std::fill(arena() + first, arena() + last, std::byte{0});
        try {
            guard.end(bound_);
        } catch (const MemoryFault& fault) {
            return fault.what();
        }
        return "";
    }

    plan::Block block_;
    plan::Op op_;
    BoundProgram program_;
    BoundOp bound_;
    std::vector<std::byte> memory_ = std::vector<std::byte>(2 * kBytes + 2 * ArenaGuard::kZone);
};

TEST_F(Guarded, AnOpThatWritesItsTensorIsSound) {
    EXPECT_EQ(fault_of(256, 512), "");
}

TEST_F(Guarded, AByteBehindTheArenaIsNotTheOps) {
    EXPECT_EQ(fault_of(256, 513),
              "rank 3: small activation \"ReLU\" wrote byte 512 of an arena of 512, which is in no "
              "tensor that it writes");
}

TEST_F(Guarded, NorIsAByteBeforeTheArenaOrAnotherTensor) {
    EXPECT_THAT(fault_of(-1, 512), HasSubstr("wrote byte -1 of"));
    EXPECT_THAT(fault_of(255, 512), HasSubstr("wrote byte 255 of"));
}

// Far from what ops touch, the step is told instead of the op.
TEST_F(Guarded, NorIsAByteThatNoOpTouches) {
    constexpr std::int64_t kSpare = 3 * ArenaGuard::kZone;
    program_.arena_bytes = kBytes + kSpare;
    plan::Resident spare;
    spare.name = "workspace";
    spare.offset = kBytes;
    spare.bytes = kSpare;
    program_.residents.push_back(spare);
    program_.spare = {1};
    memory_.resize(static_cast<std::size_t>(program_.arena_bytes + 2 * ArenaGuard::kZone));
    EXPECT_THAT(fault_of(256, kBytes + 1), HasSubstr("wrote byte 512 of an arena of"));
    ArenaGuard guard(program_, 3, arena());
    guard.begin(bound_);
    std::fill(arena() + 256, arena() + kBytes, std::byte{0});
    const std::int64_t far = kBytes + 3 * ArenaGuard::kZone / 2;
    arena()[far] = std::byte{1};
    guard.end(bound_);
    EXPECT_THAT(
        [&] { guard.end_of_step(); },
        testing::ThrowsMessage<MemoryFault>(HasSubstr("rank 3: an op of this step wrote byte " +
                                                      std::to_string(far) + " of an arena")));
}

TEST_F(Guarded, ATensorIsMadeWhole) {
    EXPECT_EQ(fault_of(256, 508),
              "rank 3: small activation \"ReLU\" did not write element 63 of 64 that it makes");
    EXPECT_THAT(fault_of(260, 512), HasSubstr("did not write element 0 of 64"));
}

// In place an op may leave a part as it is.
TEST_F(Guarded, WhatIsReadAsWellMayStay) {
    bound_.reads = bound_.writes;
    EXPECT_EQ(fault_of(256, 300), "");
}

TEST_F(Guarded, WhatTheHostWritesIsAccepted) {
    ArenaGuard guard(program_, 0, arena());
    std::fill(arena(), arena() + 256, std::byte{1});
    guard.accept(0, 256);
    guard.begin(bound_);
    std::fill(arena() + 256, arena() + kBytes, std::byte{0});
    EXPECT_NO_THROW(guard.end(bound_));
}

TEST_F(Guarded, PlannedMemoryIsTouched) {
    program_.residents[0].bytes += 256;
    program_.arena_bytes += 256;
    EXPECT_THROW(ArenaGuard(program_, 0, arena()), MemoryFault);
    program_.spare = {0};
    EXPECT_NO_THROW(ArenaGuard(program_, 0, arena()));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
