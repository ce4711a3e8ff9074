#include "calib/fit/import_collectives.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calib/fit/fit_error.hpp"
#include "calib/fit/write_profile.hpp"
#include "sim/network/collective_table.hpp"
#include "tests/calib/fit/nccl_output.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Json = nlohmann::ordered_json;

std::string written(const std::string& name, const std::string& text) {
    const std::string path = testing::TempDir() + "import_" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
}

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::string shipped_profile() {
    return std::string(ORRERY_SOURCE_DIR) + "/scenarios/profiles/h100-sxm.json";
}

ImportInputs inputs(const std::vector<std::string>& paths) {
    return {paths, "", shipped_profile(), testing::TempDir() + "import_profile.json", "1.2.3"};
}

std::string error_of(const ImportInputs& wanted) {
    try {
        import_collectives(wanted);
    } catch (const ImportError& error) {
        return error.what();
    }
    return "";
}

std::vector<double> every_power_of_two() {
    std::vector<double> sizes;
    for (double bytes = 1024; bytes <= (1 << 30); bytes *= 2)
        sizes.push_back(bytes);
    return sizes;
}

// The machine of the outputs takes α + sent / β; what is read back from the profile must too.
TEST(ImportCollectives, RecoversTheMachineOfTheOutputs) {
    NcclMachine reduce;
    reduce.sizes = every_power_of_two();
    NcclMachine gather = reduce;
    gather.collective = "all_gather";
    gather.GBps = 300;
    const ImportReport report = import_collectives(inputs(
        {written("reduce.txt", reduce.table()), written("gather.json", gather.json().dump())}));
    EXPECT_EQ(report.runs.size(), 2u);

    const sim::Profile profile =
        sim::parse_profile(read(inputs({}).output_path), inputs({}).output_path);
    const auto table = sim::parse_collectives(profile.collectives_json, "p");
    EXPECT_EQ(table.system, "NVIDIA Test GPU");
    EXPECT_GT(table.curves.size(), 2u);  // those of the profile stay
    for (const NcclMachine& machine : {reduce, gather}) {
        const auto* curve = table.find(*plan::from_name<plan::OpKind>(machine.collective), 8);
        ASSERT_NE(curve, nullptr);
        // 1 % is the tolerance of thinning; 1 part in 4000 the rounding of the table.
        for (const double bytes : machine.sizes)
            EXPECT_NEAR(sim::interpolate(curve->points, bytes) * 1e6 / machine.time_us(bytes), 1,
                        0.0103);
        EXPECT_THAT(curve->source, HasSubstr("42 timings of 21 sizes, library version 2.28.5"));
        EXPECT_THAT(curve->source, HasSubstr("float"));
    }
    // Of 450 GB/s, the link of the profile, 400 and 300 are reached: 0.889 and 0.667 in the middle,
    // less the latency of the largest size, 20 µs of some 4 ms.
    EXPECT_NEAR(table.intra_node.efficiency, (400.0 / 450 + 300.0 / 450) / 2, 0.005);
}

TEST(ImportCollectives, ChangesNothingButCollectivesAndProvenance) {
    const ImportReport report =
        import_collectives(inputs({written("reduce.txt", NcclMachine().table())}));
    Json before = Json::parse(read(shipped_profile()));
    Json after = Json::parse(read(inputs({}).output_path));
    for (const char* kept : {"algorithms", "inter_node"})
        EXPECT_EQ(after["collectives"][kept], before["collectives"][kept]);
    EXPECT_EQ(after["provenance"].size(), before["provenance"].size() + 1);
    EXPECT_THAT(after["provenance"].back().get<std::string>(),
                ::testing::MatchesRegex(
                    "Collectives imported from nccl-tests by orrery 1.2.3, import_reduce.txt "
                    "\\(FNV-1a [0-9a-f]+\\): all_reduce over 8 ranks of one node, float, NCCL "
                    "2.28.5, NVIDIA Test GPU."));
    // Curves that were there stay as they were and are named; all but all_reduce over 8.
    const Json& curves = after["collectives"]["curves"];
    EXPECT_EQ(curves.size(), before["collectives"]["curves"].size());
    EXPECT_EQ(report.kept.size(), curves.size() - 1);
    EXPECT_THAT(report.kept, ::testing::Not(::testing::Contains("all_reduce 8")));
    for (const Json& curve : before["collectives"]["curves"]) {
        const bool imported = curve["collective"] == "all_reduce" && curve["ranks"] == 8;
        EXPECT_EQ(std::count(curves.begin(), curves.end(), curve), imported ? 0 : 1);
    }
    for (Json* profile : {&before, &after})
        for (const char* changed : {"collectives", "provenance"})
            profile->erase(changed);
    EXPECT_EQ(profile_text(after), profile_text(before));

    // Again, into the same file: the earlier import is no longer where the numbers come from.
    ImportInputs again = inputs({written("again.txt", NcclMachine().table())});
    again.profile_path = again.output_path;
    const std::string once = read(again.output_path);
    EXPECT_EQ(import_collectives(again).kept, report.kept);
    const Json twice = Json::parse(read(again.output_path));
    EXPECT_EQ(twice["provenance"].size(), Json::parse(once)["provenance"].size());
    EXPECT_THAT(twice["provenance"].back().get<std::string>(), HasSubstr("again.txt"));
}

TEST(ImportCollectives, ReportsFaultsOfAllFilesAndWritesNothing) {
    nlohmann::json wrong = NcclMachine().json();
    wrong["results"][0]["in_place"]["nwrong"] = 7.0;
    ImportInputs wanted =
        inputs({written("a.txt", "nothing\n"), written("b.json", wrong.dump()), "no such file"});
    wanted.output_path = testing::TempDir() + "import_none.json";
    const std::string error = error_of(wanted);
    EXPECT_THAT(error, HasSubstr("import_a.txt: no output of nccl-tests\n"));
    EXPECT_THAT(error, HasSubstr("import_b.json: /results/0/in_place: #wrong 7: "));
    EXPECT_THAT(error, HasSubstr("no such file: cannot be read: No such file or directory\n3 "
                                 "errors; nothing was written."));
    EXPECT_FALSE(std::filesystem::exists(wanted.output_path));
}

TEST(ImportCollectives, RefusesToMixVersionsAndDevices) {
    NcclMachine other;
    other.nccl_version = 21903;
    other.device = "NVIDIA Other GPU";
    const std::string error = error_of(
        inputs({written("one.txt", NcclMachine().table()), written("two.txt", other.table())}));
    EXPECT_THAT(error, HasSubstr("several versions of NCCL"));
    EXPECT_THAT(error, HasSubstr("2.28.5 ("));
    EXPECT_THAT(error, HasSubstr("several devices"));
    EXPECT_THAT(error, HasSubstr("2 errors;"));
}

TEST(ImportCollectives, NeedsTheLineRateOfTheLinks) {
    Json profile = Json::parse(read(shipped_profile()));
    profile.erase("collectives");
    ImportInputs wanted = inputs({written("reduce.txt", NcclMachine().table())});
    wanted.profile_path = written("bare.json", profile.dump());
    EXPECT_EQ(error_of(wanted), "");  // hardware.link_GBps is there
    profile["hardware"].erase("link_GBps");
    wanted.profile_path = written("bare.json", profile.dump());
    EXPECT_THAT(error_of(wanted), HasSubstr("/hardware/link_GBps: missing"));
    wanted.profile_path = "no profile";
    EXPECT_EQ(error_of(wanted), "no profile: cannot be read: No such file or directory");
}

TEST(ImportCollectives, AnUnwritableProfileIsNoFaultOfTheFiles) {
    ImportInputs wanted = inputs({written("reduce.txt", NcclMachine().table())});
    wanted.output_path = testing::TempDir() + "no_such_folder/p.json";
    EXPECT_THROW(import_collectives(wanted), FitStorageError);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
