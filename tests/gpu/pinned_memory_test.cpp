// What a step brings to the device: copies that no thread waits for.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/cuda_backend.hpp"
#include "tests/gpu/emulation/cuda_runtime.h"

namespace orrery::runtime {
namespace {

struct BroughtTokens : testing::Test {
    std::unique_ptr<StreamDriver> driver = make_cuda_driver(0);
    std::byte* const to = driver->allocate(64);
    std::unique_ptr<Kernels> kernels =
        driver->kernels(driver->create_stream(StreamUse::compute), nullptr, 0);

    ~BroughtTokens() override { emulation::marks_are_ahead = false; }

    // Pieces of memory that were locked meanwhile.
    std::int64_t locked_to_bring(std::vector<std::int32_t> tokens) {
        const std::int64_t before = emulation::pinned_allocations;
        kernels->bring(tokens, to);
        std::vector<std::int32_t> found(tokens.size());
        driver->read(to, std::as_writable_bytes(std::span(found)));
        EXPECT_EQ(found, tokens);
        return emulation::pinned_allocations - before;
    }
};

TEST_F(BroughtTokens, TakeTheMemoryOfThoseThatHaveArrived) {
    EXPECT_EQ(locked_to_bring({1, 2, 3}), 1);
    EXPECT_EQ(locked_to_bring({4, 5, 6}), 0);
    EXPECT_EQ(locked_to_bring({7, 8, 9, 10}), 1) << "there are more of them";
    EXPECT_EQ(locked_to_bring({11}), 0);
}

TEST_F(BroughtTokens, LeaveThoseThatAreOnTheirWay) {
    emulation::marks_are_ahead = true;
    EXPECT_EQ(locked_to_bring({1, 2}), 1);
    EXPECT_EQ(locked_to_bring({3, 4}), 1);
    emulation::marks_are_ahead = false;
    EXPECT_EQ(locked_to_bring({5, 6}), 0);
    EXPECT_EQ(locked_to_bring({7, 8}), 0);
}

TEST_F(BroughtTokens, HaveTheMemoryThatWasPrepared) {
    for (const std::int64_t numbers : {2, 3})
        kernels->prepare_bring(numbers);
    emulation::marks_are_ahead = true;
    EXPECT_EQ(locked_to_bring({1, 2}), 0);
    EXPECT_EQ(locked_to_bring({3, 4, 5}), 0);
    EXPECT_EQ(locked_to_bring({6, 7}), 1) << "both are on their way";
}

TEST(EmulatedCopies, ThatWouldHoldTheThreadAreRefused) {
    const auto driver = make_cuda_driver(0);
    std::byte* const device = driver->allocate(64);
    std::byte* const pinned = driver->allocate_host(64);
    std::array<std::byte, 64> pageable{};
    const Stream stream = driver->create_stream(StreamUse::copies);
    driver->copy(stream, device, pinned, 64);
    driver->copy(stream, pinned, device, 64);
    driver->copy(stream, device, device, 64);
    EXPECT_THROW(driver->copy(stream, device, pageable.data(), 64), DeviceError);
    EXPECT_THROW(driver->copy(stream, pageable.data(), device, 64), DeviceError);
    EXPECT_THROW(driver->copy(stream, device, pinned + 1, 64), DeviceError) << "past its end";
}

}  // namespace
}  // namespace orrery::runtime
