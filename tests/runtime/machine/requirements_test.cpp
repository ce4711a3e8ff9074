#include "runtime/machine/requirements.hpp"

#include <gmock/gmock.h>

#include "runtime/backends/registry.hpp"
#include "tests/runtime/machine/fake_machine.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// With the kernels of CUDA 13, whatever this build has.
Machine machine_of(FakeLoader& loader) {
    Machine machine = inspect_machine(loader, fake_host(), {});
    machine.built_with_cuda = "13.0.88";
    machine.processor.kernels = "v3";
    return machine;
}

std::vector<std::string> whats(const std::vector<Finding>& findings) {
    std::vector<std::string> texts;
    for (const Finding& finding : findings) {
        EXPECT_NE(finding.remedy, "") << finding.what;
        texts.push_back(finding.what);
    }
    return texts;
}

std::vector<std::string> missing_for_cuda(FakeLoader& loader) {
    return whats(missing_for_cuda(machine_of(loader)));
}

TEST(Requirements, OfCudaAreMetByTwoGpus) {
    FakeLoader loader = two_gpus();
    EXPECT_THAT(missing_for_cuda(loader), IsEmpty());
    Machine without_kernels = machine_of(loader);
    without_kernels.built_with_cuda = "";
    EXPECT_THAT(whats(missing_for_cuda(without_kernels)),
                ElementsAre("this program is built without CUDA"));
}

TEST(Requirements, OfTheCpuAreMetByNothing) {
    FakeLoader nothing;
    EXPECT_THAT(backend_named("cpu").missing(machine_of(nothing)), IsEmpty());
    EXPECT_THAT(missing_for_cuda(nothing), ElementsAre("there is no NVIDIA driver (libcuda.so.1)",
                                                       "cuBLASLt is missing (libcublasLt.so.13)",
                                                       "NCCL is missing (libnccl.so.2)"));
}

TEST(Requirements, ADriverMayBeTooOld) {
    FakeLoader loader = two_gpus();
    fake_gpus.cuda = 12040;
    EXPECT_THAT(missing_for_cuda(loader),
                ElementsAre("the driver (580.65.06) is too old: it runs CUDA up to 12.4, the "
                            "kernels are of 13.0"));
}

TEST(Requirements, ADriverMayFailAndGpusMayBeHidden) {
    FakeLoader loader = two_gpus();
    fake_gpus.init = 803;
    EXPECT_THAT(missing_for_cuda(loader),
                ElementsAre("the driver (580.65.06) does not work: cuInit fails with 803: system "
                            "driver mismatch"));
    fake_gpus = {};
    fake_gpus.visible = 0;
    EXPECT_THAT(missing_for_cuda(loader), ElementsAre("none of 2 GPUs is visible to this process"));
    fake_gpus.count = 0;
    EXPECT_THAT(missing_for_cuda(loader), ElementsAre("the driver knows no GPU"));
}

TEST(Requirements, OneGpuDoesWithoutNccl) {
    FakeLoader loader = two_gpus();
    loader.libraries.erase("libnccl.so.2");
    EXPECT_THAT(missing_for_cuda(loader), ElementsAre("NCCL is missing (libnccl.so.2)"));
    fake_gpus.visible = 1;  // of two
    EXPECT_THAT(missing_for_cuda(loader), IsEmpty());
}

TEST(Requirements, OldGpusHaveNoKernels) {
    FakeLoader loader = two_gpus();
    provide(
        loader.libraries["libnvidia-ml.so.1"], "nvmlDeviceGetCudaComputeCapability",
        +[](void*, int* major, int* minor) {
            *major = 7;
            *minor = 5;
            return 0;
        });
    EXPECT_THAT(missing_for_cuda(loader),
                ElementsAre(HasSubstr("no GPU has compute capability 8.0")));
}

TEST(Advice, NamesWhatCostsSpeedOrSafety) {
    FakeLoader loader = two_gpus();
    fake_gpus.persistence = false;
    // GPU 1 is limited to 500 W, there is no cuDNN; memory is limited and RoCE is down on the
    // made-up host, which has no /dev/shm; files are unlimited.
    EXPECT_THAT(whats(advice_for(machine_of(loader))),
                ElementsAre(HasSubstr("GPU 0: persistence mode is off"),
                            HasSubstr("GPU 1: persistence mode is off"),
                            HasSubstr("GPU 1: power is limited to 500 of 700 W"),
                            HasSubstr("cuDNN is missing (libcudnn.so.9): attention is by"),
                            HasSubstr("locked memory is limited"), HasSubstr("/dev/shm is smaller"),
                            HasSubstr("RoCE mlx5_1/1 is down")));
}

TEST(Advice, NamesNoCudnnThatIsThere) {
    FakeLoader loader = two_gpus();
    provide(
        loader.libraries["libcudnn.so.9"], "cudnnGetVersion", +[]() { return std::size_t{91900}; });
    EXPECT_THAT(whats(advice_for(machine_of(loader))), Each(Not(HasSubstr("cuDNN"))));
}

TEST(Advice, IsSilentWhereNothingIsUsed) {
    Machine machine;  // no GPU, no InfiniBand: small limits harm nobody
    machine.limits = {1, 1, 1};
    machine.processor.kernels = "v3";
    EXPECT_THAT(advice_for(machine), IsEmpty());
    machine.processor.kernels = "baseline";
    EXPECT_THAT(whats(advice_for(machine)), ElementsAre(HasSubstr("lacks AVX2")));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
