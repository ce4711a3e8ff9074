#include "calib/fit/carry_unmeasured.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "calib/fit/datasheet.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

using testing::StartsWith;

const std::string kBase = ORRERY_SOURCE_DIR "/scenarios/profiles/h100-sxm.json";
const std::string kWhose = "not measured here: as in the profile of h100-sxm: ";

// Every number and text is the base's, but sources say whose they are.
void expect_carried(const Json& carried, const Json& base, int& sources) {
    ASSERT_EQ(carried.size(), base.size());
    for (const auto& item : base.items()) {
        const Json& value = carried.is_array()
                                ? carried.at(static_cast<std::size_t>(std::stoi(item.key())))
                                : carried.at(item.key());
        if (item.key() == "source") {
            EXPECT_EQ(value, kWhose + item.value().get<std::string>());
            ++sources;
        } else if (value.is_structured()) {
            expect_carried(value, item.value(), sources);
        } else {
            EXPECT_EQ(value, item.value());
        }
    }
}

TEST(CarryUnmeasured, TakesSectionsAsTheyStand) {
    const Json base = read_json_object(kBase);
    Json profile = {{"hardware", {{"peak_tflops", {{"bf16", 700}}}, {"memory_GBps", 3000}}},
                    {"gemm", {{"kept", 1}}},
                    {"overlap", {{"measured", false}}}};
    carry_unmeasured(profile, kBase);
    for (const char* section : {"overlap", "collectives"}) {
        int sources = 0;
        expect_carried(profile.at(section), base.at(section), sources);
        EXPECT_GT(sources, 0) << section;
    }
    EXPECT_EQ(profile.at("gemm"), Json({{"kept", 1}}));
    EXPECT_EQ(profile["hardware"]["memory_GBps"], 3000);
}

// A number without a source of its own brings the one above it.
TEST(CarryUnmeasured, TakesPeaksOfTheDatasheet) {
    const Json hardware = read_json_object(kBase).at("hardware");
    Json profile = {{"hardware", {{"peak_tflops", {{"bf16", 700}}}}}};
    carry_unmeasured(profile, kBase);
    for (const auto& item : hardware.at("peak_tflops").items()) {
        const Json& peak = profile["hardware"]["peak_tflops"].at(item.key());
        EXPECT_EQ(peak.at("value"), item.value()) << item.key();
        EXPECT_EQ(peak.at("source"), kWhose + hardware.at("source").get<std::string>());
    }
    EXPECT_THAT(profile["hardware"]["link_GBps"]["source"].get<std::string>(), StartsWith(kWhose));
}

TEST(CarryUnmeasured, RefusesWhatIsNoProfile) {
    Json profile;
    EXPECT_THROW(carry_unmeasured(profile, "no such file"), sim::ProfileError);
    EXPECT_THROW(carry_unmeasured(profile, ORRERY_SOURCE_DIR "/scenarios/clusters/cpu-8.json"),
                 sim::ProfileError);
    EXPECT_TRUE(profile.is_null());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
