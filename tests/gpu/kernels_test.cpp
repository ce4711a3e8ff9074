// The CUDA kernels on an emulated device (tests/gpu/emulation) against the CPU's: the very checks
// that orrery-gpu-check runs on a GPU.
#include <gtest/gtest.h>

#include <string>

#include "runtime/cuda/cuda_backend.hpp"
#include "tests/gpu/checks/attention.hpp"
#include "tests/gpu/checks/checks.hpp"
#include "tests/gpu/emulation/cuda_runtime.h"
#include "tests/gpu/emulation/cudnn.h"

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

// A machine with cuDNN, for as long as it is.
class WithCudnn {
  public:
    WithCudnn() { emulation::set_cudnn(true); }
    ~WithCudnn() {
        emulation::set_cudnn(false);
        emulation::set_engines({256});
        emulation::set_workspace_growth(0);
    }
    WithCudnn(const WithCudnn&) = delete;
    WithCudnn& operator=(const WithCudnn&) = delete;
};

std::int64_t performed_by_cudnn() {
    return emulation::dnn_calls().performed;
}

TEST(EmulatedKernels, AttendByCudnnAsTheOracleDoes) {
    const WithCudnn there;
    const std::vector<AttentionCase> cases = {{{2, 37, 4, 2, 8}},
                                              {{1, 70, 2, 1, 40}, 9},
                                              {{1, 34, 3, 3, 64}},
                                              {{1, 20, 2, 2, 24, 8}, 20},
                                              {{1, 20, 4, 1, 8, 16}, 7}};
    for (const DType dtype : {DType::bf16, DType::fp16}) {
        const std::int64_t before = performed_by_cudnn();
        const auto driver = make_cuda_driver(0);
        World world(*driver, dtype, false);
        for (const AttentionCase& a : cases) {
            check_attention_case(world, a);
            check_attention_backward(world, a, false, true);
        }
        EXPECT_EQ(performed_by_cudnn(), before + 2 * static_cast<std::int64_t>(cases.size()));
        for (const Finding& finding : world.findings())
            EXPECT_TRUE(finding.right())
                << finding.op << " " << plan::name(finding.dtype) << ", " << finding.variant << ", "
                << finding.output << ": " << finding.first_wrong;
    }
}

// How often cuDNN was asked for engines, and has attended, forward and backward.
struct ByCudnn {
    std::int64_t searches, forward, backward;
    bool operator==(const ByCudnn&) const = default;
};
ByCudnn attended(const AttentionCase& a, bool any_order, int times = 1,
                 const CudaSettings& settings = {}) {
    const auto driver = make_cuda_driver(0, settings);
    World world(*driver, DType::bf16, false);
    const emulation::DnnCalls before = emulation::dnn_calls();
    ByCudnn counted{};
    for (int i = 0; i < times; ++i) {
        const std::int64_t at_first = performed_by_cudnn();
        check_attention_case(world, a);
        const std::int64_t between = performed_by_cudnn();
        check_attention_backward(world, a, false, any_order);
        counted.forward += between - at_first;
        counted.backward += performed_by_cudnn() - between;
    }
    counted.searches = emulation::dnn_calls().searches - before.searches;
    return counted;
}

TEST(EmulatedKernels, AttendByCudnnWhatItsGraphsCanSay) {
    const WithCudnn there;
    const AttentionShape shape{1, 20, 2, 1, 16};
    EXPECT_EQ(attended({shape}, true), (ByCudnn{2, 1, 1}));
    EXPECT_EQ(attended({shape}, true, 3), (ByCudnn{2, 3, 3}));  // looked for once
    EXPECT_EQ(attended({shape}, false), (ByCudnn{1, 1, 0}));    // the same bits each time
    EXPECT_EQ(attended({shape, 5}, true), (ByCudnn{2, 1, 1}));
    EXPECT_EQ(attended({{1, 20, 2, 1, 12}}, true), (ByCudnn{0, 0, 0}));
    EXPECT_EQ(attended({shape, 0, true}, true), (ByCudnn{0, 0, 0}));
    EXPECT_EQ(attended({shape, 0, false, 0.25}, true), (ByCudnn{0, 0, 0}));
    EXPECT_EQ(attended({shape, 0, false, 0, 0.7}, true), (ByCudnn{0, 0, 0}));
    EXPECT_EQ(attended({shape, 0, false, 0, 0, true}, true), (ByCudnn{0, 0, 0}));
}

TEST(EmulatedKernels, AttendByThemselvesWhereTheRunSaysSo) {
    const WithCudnn there;
    CudaSettings settings;
    settings.cudnn = false;
    EXPECT_EQ(attended({{1, 20, 2, 1, 16}}, true, 1, settings), (ByCudnn{0, 0, 0}));
}

TEST(EmulatedKernels, LookForEnginesBeforeTheyAreNeeded) {
    const WithCudnn there;
    const auto driver = make_cuda_driver(0);
    const auto kernels =
        driver->kernels(driver->create_stream(StreamUse::compute), driver->allocate(256), 256);
    const AttentionShape shape{1, 4, 2, 1, 8};
    const auto memory = [&](DType dtype, std::int64_t elements) {
        return Buffer{driver->allocate(elements * plan::size_bytes(dtype)), dtype};
    };
    const Attention op{shape,
                       {},
                       {},
                       0.3,
                       memory(DType::bf16, 4 * shape.qkv_width()),
                       memory(DType::bf16, 4 * shape.context_width()),
                       memory(DType::fp32, 4 * shape.heads)};
    const emulation::DnnCalls before = emulation::dnn_calls();
    kernels->prepare(op);
    EXPECT_EQ(emulation::dnn_calls().searches, before.searches + 1);
    EXPECT_EQ(emulation::dnn_calls().performed, before.performed);
    kernels->launch(op);
    EXPECT_EQ(emulation::dnn_calls().searches, before.searches + 1);
    EXPECT_EQ(emulation::dnn_calls().performed, before.performed + 1);
}

// An engine that asks for more than there is is left for the next one, or for Orrery's kernels.
TEST(EmulatedKernels, AttendByEnginesThatHaveRoom) {
    const WithCudnn there;
    const AttentionCase causal{{1, 20, 2, 2, 16}};
    const std::int64_t too_much = std::int64_t{1} << 40;
    emulation::set_engines({too_much, 256});
    EXPECT_EQ(attended(causal, true), (ByCudnn{2, 1, 1}));
    emulation::set_engines({too_much});
    EXPECT_EQ(attended(causal, true), (ByCudnn{2, 0, 0}));
    emulation::set_engines({});
    EXPECT_EQ(attended(causal, true), (ByCudnn{2, 0, 0}));
    emulation::set_engines({256});
    emulation::set_workspace_growth(too_much);
    EXPECT_EQ(attended(causal, true), (ByCudnn{2, 0, 0}));
    emulation::set_workspace_growth(256);
    EXPECT_EQ(attended(causal, true), (ByCudnn{2, 1, 1}));
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
