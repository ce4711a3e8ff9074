// orrery calibrate --import as its user meets it: the program, its files, its exit codes.
#include <sys/wait.h>

#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/calib/fit/nccl_output.hpp"
#include "tests/cli/world.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using ::testing::HasSubstr;
using testing::TempDir;

Outcome calibrate(const std::string& arguments) {
    const std::string base = TempDir() + fmt::format("calibrate-{}", getpid());
    const int status = std::system(fmt::format("{} calibrate {} >{}.out 2>{}.err",
                                               program("orrery-run"), arguments, base, base)
                                       .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(base + ".out"),
            content_of(base + ".err")};
}

std::string import_of(const std::string& file, const std::string& output) {
    return fmt::format("--import {} --profile profiles/h100-sxm.json -o {}", file, output);
}

TEST(CalibrateImport, WritesAProfileThatSimulateTakes) {
    const std::string output = TempDir() + "imported.json";
    const Outcome outcome =
        calibrate(import_of(written("all_reduce.txt", fit::NcclMachine().table()), output));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_THAT(outcome.out, HasSubstr("imported.json: profile of h100-sxm\n"));
    EXPECT_THAT(outcome.out, HasSubstr("\nimported\n  all_reduce.txt (FNV-1a "));
    EXPECT_THAT(outcome.out, HasSubstr("kept as the profile had them: all_gather 2"));
    const Outcome simulated =
        run({"simulate", std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/llama2-7b-a100x8.json",
             "--set", "cluster=clusters/h100-sxm-8.json", "--set", "cluster.profile=" + output});
    EXPECT_EQ(simulated.code, 0) << simulated.err;
}

TEST(CalibrateImport, HasAnExitCodePerClassOfFailure) {
    const std::string output = TempDir() + "not_imported.json";
    const std::string good = written("all_reduce.txt", fit::NcclMachine().table());
    EXPECT_EQ(calibrate("-o " + output).code, 2);
    EXPECT_EQ(calibrate("--import " + good + " -o " + output).code, 2);  // no profile
    EXPECT_EQ(calibrate(import_of(good, output) + " --backend cpu").code, 2);
    EXPECT_EQ(calibrate(import_of(good, output) + " --ranks 2").code, 2);

    const Outcome unread = calibrate(import_of(written("empty.txt", ""), output));
    EXPECT_EQ(unread.code, 5);
    EXPECT_EQ(unread.out, "");
    EXPECT_THAT(unread.err, HasSubstr("empty.txt: no output of nccl-tests\n1 error; nothing was "
                                      "written."));
    EXPECT_FALSE(std::filesystem::exists(output));

    const Outcome unwritten = calibrate(import_of(good, TempDir() + "no_such_folder/p.json"));
    EXPECT_EQ(unwritten.code, 8);
    EXPECT_THAT(unwritten.err, HasSubstr("no_such_folder/p.json: cannot be created"));
}

TEST(CalibrateFromTrace, PrintsConstantsThatSimulateTakes) {
    const std::string path = TempDir() + "traced.orrery";
    ASSERT_EQ(run({"simulate", tiny(), "--unfolded", "--trace", path}).code, 0);
    trace::Trace measured = trace::read_trace(path);
    measured.origin = trace::Origin::measured;
    trace::write_trace(measured, path);
    const std::string profile = " --set cluster.profile=" + folder() + "tiny-profile.json";
    const Outcome outcome = calibrate("--from-trace " + path + profile + " --json");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto found = nlohmann::json::parse(outcome.out);
    const double step =
        static_cast<double>(measured.step_end - measured.step_start) / trace::kPsPerSecond;
    EXPECT_DOUBLE_EQ(found["step"]["measured_s"].get<double>(), step);
    std::vector<std::string> simulated = {"simulate", tiny(), "--json"};
    for (const auto& constant : found["constants"])
        simulated.insert(simulated.end(),
                         {"--set", fmt::format("{}={:.6g}", constant["key"].get<std::string>(),
                                               constant["after"].get<double>())});
    const auto after = nlohmann::json::parse(run(simulated).out);
    EXPECT_EQ(after["step"]["time_s"], found["step"]["predicted_after_s"]);
    const Outcome text = calibrate("--from-trace " + path + profile);
    EXPECT_THAT(text.out, HasSubstr("\nconstants, for --set or a scenario's own keys\n"));
    EXPECT_EQ(calibrate("--json --this-machine").code, 2);
    EXPECT_EQ(calibrate("--set cluster.nodes=1 --this-machine").code, 2);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
