// The CUDA kernels on an emulated device (tests/gpu/emulation) against the CPU's: the very checks
// that orrery-gpu-check runs on a GPU.
#include <gtest/gtest.h>

#include <string>

#include "runtime/cuda/cuda_backend.hpp"
#include "tests/gpu/checks/checks.hpp"
#include "tests/gpu/emulation/cuda_runtime.h"

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

// Whether attention of the shape's heads ran on tensor cores, forward and backward.
struct OnTensorCores {
    bool forward, backward;
    bool operator==(const OnTensorCores&) const = default;
};
OnTensorCores attention_of(DType dtype, std::int64_t head_dim, std::int64_t value_dim = 0) {
    const auto driver = make_cuda_driver(0);
    World world(*driver, dtype, false);
    const AttentionShape s{1, 20, 1, 1, head_dim, value_dim};
    Tensor& qkv = world.in(normals(20 * s.qkv_width(), 1));
    Tensor& context = world.out(20 * s.context_width());
    Tensor& lse = world.out(DType::fp32, 20);
    Tensor& dqkv = world.out(20 * s.qkv_width());
    const auto counted = [&](const auto& request) {
        const std::int64_t before = emulation::tensor_core_products;
        world.run(request);
        return emulation::tensor_core_products > before;
    };
    const bool forward = counted([&](Kernels& kernels, const Place& at) {
        kernels.attention({s, {}, {}, 0.2, at(qkv), at(context), at(lse)});
    });
    context.before = context.expected;
    lse.before = lse.expected;
    return {forward, counted([&](Kernels& kernels, const Place& at) {
                kernels.attention_backward(
                    {s, {}, {}, 0.2, at(context), at(qkv), at(context), at(lse), at(dqkv)});
            })};
}

TEST(EmulatedKernels, AttendOnTensorCoresWhereTheyCan) {
    EXPECT_EQ(attention_of(DType::bf16, 64), (OnTensorCores{true, true}));
    EXPECT_EQ(attention_of(DType::fp16, 192, 128), (OnTensorCores{true, true}));
    EXPECT_EQ(attention_of(DType::bf16, 256), (OnTensorCores{true, false}));
    EXPECT_EQ(attention_of(DType::bf16, 12), (OnTensorCores{false, false}));
    EXPECT_EQ(attention_of(DType::fp32, 64), (OnTensorCores{false, false}));
}

// Where the sums of a row do not fit, columns are summed by kernels of their own.
TEST(EmulatedKernels, SumGradientsOfNormsInTheSharedMemoryThatThereIs) {
    const std::size_t before = emulation::most_shared();
    emulation::set_most_shared(60);
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        const auto driver = make_cuda_driver(0);
        World world(*driver, dtype, false);
        check_norms(world);
        for (const Finding& finding : world.findings())
            EXPECT_TRUE(finding.right()) << finding.op << ", " << finding.variant << ", "
                                         << finding.output << ": " << finding.first_wrong;
    }
    emulation::set_most_shared(before);
}

// A block of an RTX 4090 has 99 KiB: what does not fit is for the fp32 units, and right.
TEST(EmulatedKernels, AttendInTheSharedMemoryThatThereIs) {
    const std::size_t before = emulation::most_shared();
    emulation::set_most_shared(std::size_t{99} * 1024);
    EXPECT_EQ(attention_of(DType::bf16, 64), (OnTensorCores{true, true}));
    EXPECT_EQ(attention_of(DType::bf16, 128), (OnTensorCores{true, false}));
    emulation::set_most_shared(before);
}

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
