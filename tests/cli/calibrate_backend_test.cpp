// orrery calibrate --backend as its user meets it where there is no GPU.
#include <sys/wait.h>

#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/backends/registry.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using ::testing::HasSubstr;
using testing::TempDir;

Outcome calibrate(const std::string& arguments) {
    const std::string base = TempDir() + fmt::format("calibrate-backend-{}", getpid());
    const int status = std::system(fmt::format("{} calibrate {} >{}.out 2>{}.err",
                                               program("orrery-run"), arguments, base, base)
                                       .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(base + ".out"),
            content_of(base + ".err")};
}

TEST(CalibrateBackend, NeedsABuildWithCuda) {
    if (runtime::backend_named("cuda").lacks().empty()) GTEST_SKIP() << "this is one";
    const std::string output = TempDir() + "not_calibrated.json";
    const Outcome outcome = calibrate("--backend cuda --base profiles/h100-sxm.json -o " + output);
    EXPECT_EQ(outcome.code, 6);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err,
              "orrery calibrate: this program was built without CUDA: ./orrery build cuda\n");
    EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(CalibrateBackend, TakesTheOptionsOfTheBackend) {
    const std::string output = " -o " + TempDir() + "not_calibrated.json";
    const Outcome threads = calibrate("--backend cuda --threads-per-rank 2" + output);
    EXPECT_EQ(threads.code, 2);
    EXPECT_THAT(threads.err, HasSubstr("--threads-per-rank is for --backend cpu"));
    const Outcome seconds = calibrate("--backend cpu --seconds 100" + output);
    EXPECT_EQ(seconds.code, 2);
    EXPECT_THAT(seconds.err, HasSubstr("--seconds is for --backend cuda"));
    const Outcome alone =
        calibrate("--backend cpu --ranks 1 --nccl-tests " + TempDir() + "table.txt" + output);
    EXPECT_EQ(alone.code, 2);
    EXPECT_THAT(alone.err, HasSubstr("--nccl-tests needs --ranks of at least 2"));
    const Outcome base = calibrate("--backend cpu --base profiles/h100-sxm.json" + output);
    EXPECT_EQ(base.code, 2);
    EXPECT_THAT(base.err, HasSubstr("--base is for --backend cuda"));
    EXPECT_EQ(calibrate("--base profiles/h100-sxm.json" + output).code, 2);
    EXPECT_THAT(calibrate("--backend rocm" + output).err, HasSubstr("rocm"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
