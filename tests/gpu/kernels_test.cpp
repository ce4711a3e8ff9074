// The CUDA kernels on an emulated device (tests/gpu/emulation) against the CPU's: the very checks
// that orrery-gpu-check runs on a GPU.
#include <gtest/gtest.h>

#include <string>

#include "runtime/cuda/cuda_backend.hpp"
#include "tests/gpu/checks/checks.hpp"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

class EmulatedKernels : public testing::TestWithParam<Check> {};

TEST_P(EmulatedKernels, ComputeWhatTheOracleDoes) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
        const auto driver = make_cuda_driver(0);
        World world(*driver, dtype, false);
        GetParam().run(world);
        EXPECT_FALSE(world.findings().empty());
        for (const Finding& finding : world.findings())
            EXPECT_TRUE(finding.right())
                << finding.op << " " << plan::name(finding.dtype) << ", " << finding.variant << ", "
                << finding.output << ": " << finding.wrong << " of " << finding.elements
                << " wrong, " << finding.first_wrong
                << (finding.repeats ? "" : ", differs from run to run");
    }
}

INSTANTIATE_TEST_SUITE_P(OfRequests, EmulatedKernels, testing::ValuesIn(kChecks),
                         [](const auto& check) { return std::string(check.param.name); });

// A check that cannot fail would say nothing.
TEST(EmulatedKernels, AreFoundWrongWhereTheyAre) {
    const auto driver = make_cuda_driver(0);
    World world(*driver, DType::fp32, true);
    world.begin("cast", "of another number on the device");
    Tensor& x = world.in(Values{1});
    Tensor& y = world.out(1);
    double value = 1;
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.fill({1, value++, at(x)});
        kernels.cast({1, at(x), at(y)});
    });
    world.expect_same("y", y);
    world.expect_close("y", y, 1000);
    ASSERT_EQ(world.findings().size(), 2U);
    for (const Finding& finding : world.findings()) {
        EXPECT_EQ(finding.wrong, 1);
        EXPECT_FALSE(finding.repeats);
        EXPECT_FALSE(finding.right());
    }
}

}  // namespace
}  // namespace orrery::runtime::gpu_check
