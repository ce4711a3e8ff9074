// A device whose memory NCCL's communicators are to know takes it of NCCL, and gives it back.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "runtime/cuda/cuda_backend.hpp"
#include "tests/gpu/emulation/nccl_memory.hpp"

namespace orrery::runtime {
namespace {

TEST(MemoryOfNccl, IsTakenWhereItIsAskedFor) {
    CudaSettings settings;
    ASSERT_FALSE(settings.registered_buffers);
    auto usual = make_cuda_driver(0, settings);
    usual->allocate(64);
    EXPECT_EQ(emulation::blocks_of_nccl(), 0);
    settings.registered_buffers = true;
    auto known = make_cuda_driver(0, settings);
    std::byte* const memory = known->allocate(64);
    known->allocate(64);
    EXPECT_EQ(emulation::blocks_of_nccl(), 2);
    std::vector<std::byte> content(64, std::byte{1});
    known->read(memory, content);
    EXPECT_EQ(std::count(content.begin(), content.end(), std::byte{0}), 64);
    known.reset();
    EXPECT_EQ(emulation::blocks_of_nccl(), 0);
}

}  // namespace
}  // namespace orrery::runtime
