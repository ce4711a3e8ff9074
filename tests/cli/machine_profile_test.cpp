// The profile `this-machine`: made where it is not there, kept, made anew where it is of another
// computer or of other kernels, offered by name, and held beside what a run took.
#include <cstdlib>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/machine_files.hpp"
#include "plan/scenario/reader.hpp"
#include "runtime/launch/bind_thread.hpp"
#include "tests/cli/running_program.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const std::string kScenarios = std::string(ORRERY_SOURCE_DIR) + "/scenarios/";
const std::string kTinyGpt = kScenarios + "runs/tiny-gpt.json";
const std::vector<std::string> kTwoRanks = {
    "--set", "layout.tensor_parallel=1", "--set", "layout.pipeline_parallel=1",
    "--set", "layout.data_parallel=2",   "--set", "run.threads_per_rank=1"};

int made = 0;              // profiles, by the makers below
std::int64_t made_of = 0;  // threads per rank, the last one

// The shipped one, as if it had been measured here by a program with these kernels.
void write_profile(const std::string& path, const std::string& kernels,
                   std::int64_t threads_per_rank = 1) {
    json profile = json::parse(content_of(kScenarios + "profiles/cpu-core.json"));
    profile["machine"] = fit::machine_json(fit::this_machine(), "1.2.3", "2026-11-23");
    profile["machine"]["kernels"] = kernels;
    profile["hardware"]["multiprocessors"] = threads_per_rank;
    profile["gemm"]["fp32"]["measured"] = true;
    profile["gemm"]["fp32"]["held_out"] = {
        {"rows", 9}, {"mean_abs_error", 0.1}, {"median_abs_error", 0.1}, {"p95_abs_error", 0.1}};
    for (const char* size : {"m", "n", "k"})
        profile["gemm"]["fp32"][size] = {8, 4096};
    profile["gemm"]["fp32"]["neighbours"] = json::array();
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << profile.dump(1);
}

std::optional<std::string> make_it(const std::string& path, std::int64_t threads_per_rank) {
    ++made;
    made_of = threads_per_rank;
    write_profile(path, fit::timed_sources, threads_per_rank);
    return std::nullopt;
}

std::optional<std::string> fail_to_make(const std::string&, std::int64_t) {
    return "the program that measures was not found";
}

// A cache folder of the test's own.
class MachineProfile : public testing::Test {
  protected:
    MachineProfile()
        : folder_(testing::TempDir() + "cache-" +
                  testing::UnitTest::GetInstance()->current_test_info()->name()) {
        fs::remove_all(folder_);
        setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
        made = 0;
    }
    ~MachineProfile() override { unsetenv("XDG_CACHE_HOME"); }

    static std::vector<std::string> simulate(const std::string& more) {
        std::vector<std::string> words{"simulate", kTinyGpt, "--set",
                                       "cluster.profile=this-machine", more};
        words.insert(words.end(), kTwoRanks.begin(), kTwoRanks.end());
        return words;
    }

    std::string folder_;
};

TEST_F(MachineProfile, IsMadeOnFirstUseAndKept) {
    std::ostringstream told;
    std::string why;
    const MachineFiles files(&told, make_it);
    const std::string path = files.machine_profile(2, 1, why);
    EXPECT_EQ(path, own_profile_path(1));
    EXPECT_EQ(path.rfind(folder_ + "/orrery/", 0), 0U) << path;
    EXPECT_EQ(made, 1);
    EXPECT_THAT(told.str(), HasSubstr("profile this-machine, ranks of 1 thread, once"));
    told.str("");
    EXPECT_EQ(files.machine_profile(2, 1, why), path);
    EXPECT_EQ(made, 1);
    EXPECT_EQ(told.str(), "");
}

TEST_F(MachineProfile, IsMadeAnewWhereItNoLongerHolds) {
    std::ostringstream told;
    std::string why;
    const MachineFiles files(&told, make_it);
    write_profile(*own_profile_path(1), "of-before");
    EXPECT_EQ(files.machine_profile(2, 1, why), own_profile_path(1));
    EXPECT_EQ(made, 1);
    EXPECT_THAT(told.str(), HasSubstr("other kernels than this program's"));
    std::ofstream(*own_profile_path(1)) << "{";  // nor where it cannot be read
    EXPECT_EQ(files.machine_profile(2, 1, why), own_profile_path(1));
    EXPECT_EQ(made, 2);
}

// Those of the machine that the process was not given are others'.
TEST(CoresOfARun, AreThoseOfTheMaskThatItWasStartedWith) {
    const runtime::CpuList allowed = runtime::allowed_cpus();
    ASSERT_FALSE(allowed.empty());
    std::vector<std::string> words{"train", kTinyGpt, "--steps", "1", "--json"};
    words.insert(words.end(), kTwoRanks.begin(), kTwoRanks.end() - 2);
    std::optional<json> start;
    std::thread([&] {
        runtime::RankBinding one;
        one.cpus = {allowed.back()};
        EXPECT_EQ(runtime::bind_thread(one).cores, "");
        RunningProgram program("orrery-run", words);
        start = program.next_event();
    }).join();
    ASSERT_TRUE(start);
    EXPECT_EQ((*start)["cores"], 1);
    EXPECT_EQ((*start)["threads_per_rank"], 1);
}

// By default a rank has its share of the cores: one rank all of them, of more than cores each one.
TEST_F(MachineProfile, IsOfTheThreadsThatRanksHave) {
    std::ostringstream told;
    const MachineFiles files(&told, make_it);
    const auto threads_with = [&](const std::string& ranks, const std::string& threads) {
        made_of = 0;
        plan::read_scenario(kTinyGpt,
                            {"cluster.profile=this-machine", "layout.tensor_parallel=1",
                             "layout.pipeline_parallel=1", "layout.data_parallel=" + ranks,
                             "run.threads_per_rank=" + threads},
                            kScenarios, files);
        return made_of;
    };
    EXPECT_EQ(threads_with("1", "7"), 7);
    EXPECT_EQ(threads_with("8", "0"), fit::threads_of_rank(fit::this_machine(), 8));
    fs::remove_all(folder_);
    EXPECT_EQ(threads_with("1", "0"), fit::this_machine().cores);
}

TEST_F(MachineProfile, SaysWhyItIsNotThere) {
    std::ostringstream told;
    std::string why;
    EXPECT_EQ(MachineFiles(&told, fail_to_make).machine_profile(2, 1, why), "");
    EXPECT_EQ(why, "the program that measures was not found");
    EXPECT_EQ(MachineFiles(nullptr, make_it).machine_profile(2, 1, why), "");
    EXPECT_EQ(why,
              "it has not been made yet; orrery calibrate --this-machine "
              "--threads-per-rank 1 makes it");
    EXPECT_EQ(made, 0);
    const auto read = plan::read_scenario(kTinyGpt, {"cluster.profile=this-machine"}, kScenarios);
    ASSERT_EQ(read.errors.size(), 1U);
    EXPECT_TRUE(read.unreadable);
    EXPECT_EQ(read.errors[0].code, "S001");
    EXPECT_EQ(read.errors[0].pointer, "/cluster/profile");
    EXPECT_THAT(read.errors[0].message, HasSubstr("there is no profile of this machine"));
}

TEST_F(MachineProfile, PricesAScenarioThatNamesIt) {
    write_profile(*own_profile_path(1), fit::timed_sources);
    const Outcome text = run(simulate("--unfolded"));
    ASSERT_EQ(text.code, 0) << text.err;
    EXPECT_EQ(text.err, "");
    EXPECT_THAT(text.out, HasSubstr(fs::path(*own_profile_path(1)).filename().string()));
    EXPECT_THAT(text.out, Not(HasSubstr("cluster.profile=this-machine prices")));
    const json object = json::parse(run(simulate("--json")).out);
    EXPECT_EQ(object["scenario"]["cluster"]["profile"], "this-machine");
    EXPECT_FALSE(object.contains("offers"));
}

TEST_F(MachineProfile, IsOfferedWhereRanksAreCoresOfNoComputer) {
    const Outcome text = run({"simulate", kTinyGpt});
    EXPECT_THAT(text.out, HasSubstr("--set cluster.profile=this-machine prices ranks"));
    const json object = json::parse(run({"simulate", kTinyGpt, "--json"}).out);
    EXPECT_EQ(object["offers"][0]["set"]["cluster.profile"], "this-machine");
    const std::string on_gpus = kScenarios + "runs/llama2-7b-a100x8.json";
    EXPECT_THAT(run({"simulate", on_gpus}).out, Not(HasSubstr("this-machine")));
    EXPECT_FALSE(json::parse(run({"simulate", on_gpus, "--json"}).out).contains("offers"));
}

// A profile of another device is refused by the rule for all profiles.
TEST_F(MachineProfile, IsNoneOfAGpu) {
    write_profile(*own_profile_path(1), fit::timed_sources);
    const Outcome outcome = run({"simulate", kScenarios + "runs/llama2-7b-a100x8.json", "--set",
                                 "cluster.profile=this-machine"});
    EXPECT_EQ(outcome.code, 3);
    EXPECT_THAT(outcome.err, HasSubstr("S023"));
}

json last_event(const std::vector<std::string>& more) {
    std::vector<std::string> words{"train", kTinyGpt, "--steps", "5", "--json"};
    words.insert(words.end(), kTwoRanks.begin(), kTwoRanks.end());
    words.insert(words.end(), more.begin(), more.end());
    RunningProgram program("orrery-run", words);
    json last;
    while (const auto event = program.next_event())
        last = *event;
    EXPECT_EQ(program.exit_code(), 0) << program.err();
    return last;
}

TEST_F(MachineProfile, StandsBesideWhatARunTook) {
    EXPECT_EQ(last_event({})["predicted"], nullptr);
    write_profile(*own_profile_path(1), fit::timed_sources);
    const json end = last_event({});
    const json& predicted = end["predicted"];
    ASSERT_TRUE(predicted.is_object()) << end;
    const double time = json::parse(run(simulate("--json")).out)["step"]["time_s"];
    EXPECT_DOUBLE_EQ(predicted["step_time_s"].get<double>(), time);
    EXPECT_LE(predicted["interval_s"][0].get<double>(), time);
    EXPECT_GE(predicted["interval_s"][1].get<double>(), time);
    EXPECT_NEAR(predicted["error_pct"].get<double>(),
                100 * (time / end["step_time_s"].get<double>() - 1), 1e-9);
    EXPECT_EQ(predicted["profile"], fs::path(*own_profile_path(1)).filename().string());
    // Of ranks with another number of threads the profile says nothing.
    EXPECT_EQ(last_event({"--set", "run.threads_per_rank=3"})["predicted"], nullptr);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
