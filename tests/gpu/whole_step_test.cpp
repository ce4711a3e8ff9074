// Whole training steps on the emulated device, through the executor that drives real ones.
#include "tests/gpu/checks/whole_step.hpp"

#include <gtest/gtest.h>

#include "runtime/cuda/cuda_backend.hpp"
#include "tests/gpu/emulation/cudnn.h"
#include "tests/parity/host_streams.hpp"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

const std::string kScenarios = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

// Two, each on a thread of its own, as are the collectives.
DriverSource emulated() {
    return {2, [](int) { return make_cuda_driver(0); }, parity::host_devices(2).collectives};
}

class EmulatedSteps : public testing::TestWithParam<DType> {};

TEST_P(EmulatedSteps, HaveTheGradientsOfTheCpu) {
    const auto findings = check_whole_steps(emulated(), GetParam(), kScenarios);
    const std::size_t models = GetParam() == DType::fp32 ? 13 : GetParam() == DType::bf16 ? 14 : 3;
    EXPECT_GT(findings.size(), models * 3 * 8U);  // of three layers of eight tensors or more
    for (const GradientFinding& finding : findings)
        EXPECT_TRUE(finding.right()) << finding.model << " " << finding.tensor << ": "
                                     << finding.difference << " of " << finding.bound;
}

TEST(StepsOnTheEmulatedDevice, HaveThemWhereCudnnAttends) {
    emulation::set_cudnn(true);
    const emulation::DnnCalls before = emulation::dnn_calls();
    const auto findings = check_whole_steps(emulated(), DType::bf16, kScenarios, "in any order");
    emulation::set_cudnn(false);
    EXPECT_EQ(findings.size(), 3 * 6 + 3 + 1U);  // tensors of layers, the others, the loss
    for (const GradientFinding& finding : findings)
        EXPECT_TRUE(finding.right()) << finding.model << " " << finding.tensor << ": "
                                     << finding.difference << " of " << finding.bound;
    // Three layers, two micro-batches, forward and backward.
    EXPECT_EQ(emulation::dnn_calls().performed, before.performed + 3 * 2 * 2);
}

INSTANTIATE_TEST_SUITE_P(InEachType, EmulatedSteps,
                         testing::Values(DType::fp32, DType::bf16, DType::fp16),
                         [](const auto& type) { return std::string(plan::name(type.param)); });

}  // namespace
}  // namespace orrery::runtime::gpu_check
