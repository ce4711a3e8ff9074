#include "calib/fit/this_machine.hpp"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;

const ThisMachine kLaptop{"Some(R) Core(TM) i7 @ 3.0GHz", 8};

sim::Profile profile_of(const ThisMachine& machine, const std::string& kernels) {
    sim::Profile profile;
    profile.hardware.multiprocessors.value = 2;
    profile.machine = {machine.processor, machine.cores, kernels, "2026-11-23", "1.2.3"};
    return profile;
}

std::optional<std::string> path_by(std::map<std::string, std::string> variables) {
    return machine_profile_path(kLaptop, 2, [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

TEST(ThisMachine, HoldsAsLongAsProcessorCoresAndKernelsAreTheSame) {
    EXPECT_EQ(why_not_of(kLaptop, 2, profile_of(kLaptop, timed_sources)), "");
    EXPECT_THAT(why_not_of(kLaptop, 2, profile_of({"Other", 8}, timed_sources)),
                HasSubstr("another processor: Other, this is Some(R)"));
    EXPECT_THAT(why_not_of(kLaptop, 2, profile_of({kLaptop.processor, 4}, timed_sources)),
                HasSubstr("of 4 cores, this process may use 8"));
    EXPECT_THAT(
        why_not_of(kLaptop, 2, profile_of(kLaptop, "0123")),
        HasSubstr("other kernels than this program's (made by orrery 1.2.3 on 2026-11-23)"));
    EXPECT_THAT(why_not_of(kLaptop, 2, {}), HasSubstr("does not say"));
    EXPECT_EQ(why_not_of(kLaptop, 1, profile_of(kLaptop, timed_sources)),
              "it is of ranks of 2 threads, not 1");
}

TEST(ThisMachine, WritesWhatItReads) {
    const auto json = machine_json(kLaptop, "1.2.3", "2026-11-23");
    EXPECT_EQ(json["processor"], kLaptop.processor);
    EXPECT_EQ(json["cores"], 8);
    EXPECT_EQ(json["kernels"], timed_sources);
    EXPECT_EQ(std::string(timed_sources).size(), 16U);
}

// Eight cores: four for each of two ranks, two for each of three, one each for eight and for more.
TEST(ThisMachine, SharesItsCoresOut) {
    EXPECT_EQ(threads_of_rank(kLaptop, 2), 4);
    EXPECT_EQ(threads_of_rank(kLaptop, 3), 2);
    EXPECT_EQ(threads_of_rank(kLaptop, 8), 1);
    EXPECT_EQ(threads_of_rank(kLaptop, 9), 1);
}

// XDG Base Directory Specification: "all paths … must be absolute", a relative one is ignored.
TEST(ThisMachine, IsKeptInTheCacheFolderOfTheUser) {
    const std::string name = "/orrery/some-r-core-tm-i7-3-0ghz-8-cores-2-per-rank.json";
    EXPECT_EQ(path_by({{"XDG_CACHE_HOME", "/c"}, {"HOME", "/h"}}), "/c" + name);
    EXPECT_EQ(path_by({{"HOME", "/h"}}), "/h/.cache" + name);
    EXPECT_EQ(path_by({{"XDG_CACHE_HOME", "c"}, {"HOME", "/h"}}), "/h/.cache" + name);
    EXPECT_EQ(path_by({{"XDG_CACHE_HOME", ""}}), std::nullopt);
    EXPECT_EQ(path_by({}), std::nullopt);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
