// The shipped datasheets: profiles without measurements are what they make, byte for byte, and
// their figures are those that the vendors published.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calib/fit/fit_profile.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

fs::path profiles() {
    return fs::path(ORRERY_SOURCE_DIR) / "scenarios/profiles";
}

std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::vector<fs::path> datasheets() {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(profiles() / "sources"))
        if (entry.path().extension() == ".json") paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

// "a100-40gb-sxm" of ".../a100-40gb-sxm.datasheet.json"
std::string device_of(const fs::path& datasheet) {
    return datasheet.stem().stem().string();
}

TEST(ShippedDatasheets, MakeTheProfilesThatNobodyMeasured) {
    int made = 0;
    for (const fs::path& datasheet : datasheets()) {
        const auto sheet = nlohmann::json::parse(read(datasheet));
        if (sheet.contains("tables")) continue;  // those need the tables, which are not shipped
        const std::string device = device_of(datasheet);
        const std::string output = testing::TempDir() + device + ".json";
        fit_profile({datasheet.string(), "", "", "", output});
        EXPECT_TRUE(read(output) == read(profiles() / (device + ".json"))) << device;
        ++made;
    }
    EXPECT_GE(made, 10);
}

// What a fit cannot change comes from the datasheet as it stands.
TEST(ShippedDatasheets, HaveAProfileEachWithTheSameHardware) {
    for (const fs::path& datasheet : datasheets()) {
        const auto sheet = nlohmann::json::parse(read(datasheet));
        const auto profile =
            nlohmann::json::parse(read(profiles() / (device_of(datasheet) + ".json")));
        EXPECT_EQ(sheet.at("hardware"), profile.at("hardware")) << datasheet;
        EXPECT_EQ(sheet.at("provenance"), profile.at("provenance")) << datasheet;
    }
}

// A transfer never makes surer: every residual of a derived profile is above that of the device
// whose constants it has.
TEST(ShippedDatasheets, DerivedProfilesAreLessSure) {
    for (const fs::path& datasheet : datasheets()) {
        const auto sheet = nlohmann::json::parse(read(datasheet));
        if (!sheet.contains("like")) continue;
        SCOPED_TRACE(datasheet.string());
        const sim::Profile derived =
            sim::load_profile((profiles() / (device_of(datasheet) + ".json")).string());
        const sim::Profile like = sim::load_profile(
            (datasheet.parent_path() / sheet["like"]["profile"].get<std::string>()).string());
        for (std::size_t dtype = 0; dtype < derived.gemm.size(); ++dtype) {
            if (!derived.gemm[dtype]) continue;
            EXPECT_FALSE(derived.gemm[dtype]->measured);
            EXPECT_GT(derived.gemm[dtype]->relative_sd, like.gemm[dtype]->relative_sd);
            EXPECT_THAT(derived.gemm[dtype]->source, testing::HasSubstr(like.device));
        }
        ASSERT_EQ(derived.attention.forward.size(), like.attention.forward.size());
        for (std::size_t i = 0; i < derived.attention.forward.size(); ++i)
            EXPECT_GT(derived.attention.forward[i].relative_sd,
                      like.attention.forward[i].relative_sd);
        EXPECT_GT(derived.memory.relative_sd, like.memory.relative_sd);
    }
}

struct Published {
    const char* device;
    double half_tflops;  // of 16-bit formats, dense
    double memory_GBps;
    double gigabytes;  // as sold
    double power_w;
};

TEST(ShippedDatasheets, HaveThePublishedFigures) {
    for (const Published& card :
         {Published{"v100-16gb-sxm", 125, 900, 16, 300},
          Published{"v100-32gb-sxm", 125, 900, 32, 300},
          Published{"v100-32gb-sxm3", 125, 900, 32, 350},
          Published{"a100-40gb-sxm", 312, 1555, 40, 400},
          Published{"a100-80gb-sxm", 312, 2039, 80, 400},
          Published{"a100-80gb-pcie", 312, 1935, 80, 300},
          Published{"h100-sxm", 989, 3350, 80, 700},
          Published{"h100-80gb-pcie", 756, 2000, 80, 350},
          Published{"h100-96gb-sxm", 989, 2400, 96, 500}, Published{"h800-sxm", 989, 3350, 80, 700},
          Published{"h200-sxm", 989, 4800, 141, 700}, Published{"b200-sxm", 2250, 8000, 180, 1000},
          Published{"gb200", 2500, 8000, 186, 1200}, Published{"l40s", 362, 864, 48, 350},
          Published{"rtx-4090", 165.15, 1008, 24, 450},
          Published{"mi250x-gcd", 191.5, 1640, 64, 280}, Published{"mi300x", 1300, 5300, 192, 750},
          Published{"mi325x", 1300, 6000, 256, 1000}, Published{"mi355x", 2500, 8000, 288, 1400}}) {
        SCOPED_TRACE(card.device);
        const sim::Profile profile =
            sim::load_profile((profiles() / (std::string(card.device) + ".json")).string());
        // Tensor cores run both 16-bit formats at one rate; Volta's know fp16 alone.
        const bool volta = profile.device.rfind("v100", 0) == 0;
        ASSERT_EQ(profile.hardware.peak("bf16") == nullptr, volta);
        if (!volta) {
            EXPECT_EQ(profile.hardware.peak("bf16")->value, card.half_tflops);
        }
        ASSERT_NE(profile.hardware.peak("fp16"), nullptr);
        EXPECT_EQ(profile.hardware.peak("fp16")->value, card.half_tflops);
        EXPECT_EQ(profile.hardware.memory_GBps.value, card.memory_GBps);
        EXPECT_EQ(profile.hardware.power_w.value, card.power_w);
        // GB as sold are 1e9 or 2^30 bytes, less what the driver and ECC keep: a GDDR card's 7 %.
        EXPECT_LT(profile.hardware.capacity_bytes.value, card.gigabytes * 1.0738e9);
        EXPECT_GT(profile.hardware.capacity_bytes.value, card.gigabytes * 0.99e9);
        for (const auto& [dtype, peak] : profile.hardware.peak_tflops)
            EXPECT_FALSE(peak.source.empty());
        ASSERT_TRUE(profile.hardware.link_GBps);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
