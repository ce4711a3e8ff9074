// Carried-over constants against the ratios of two made-up datasheets.
#include "calib/fit/carry_over.hpp"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calib/fit/fit_error.hpp"
#include "calib/fit/fit_profile.hpp"
#include "sim/cost/profile.hpp"
#include "sim/network/collective_table.hpp"
#include "tests/sim/cost/tiny_profile.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

using Json = nlohmann::ordered_json;

constexpr double kTransfer = 0.12;  // with the tiny profile's 0.05: √(0.12² + 0.05²) = 0.13

// A device of three times the bf16 peak of "tiny", twice its fp32 peak and memory bandwidth, half
// its cache and five times its multiprocessors.
Json datasheet() {
    return Json::parse(R"({
      "format": "orrery profile", "version": 1, "device": "big", "provenance": ["made up"],
      "hardware": {"source": "made up", "capacity_bytes": 32e9, "memory_GBps": 2000,
                   "cache_bytes": {"value": 20e6, "source": "made up"}, "multiprocessors": 50,
                   "power_w": 400, "link_GBps": 64,
                   "peak_tflops": {"bf16": {"value": 360, "source": "made up"}, "fp32": 20}},
      "links": {"hierarchical": false, "efficiency": 0.5, "relative_sd": 0.4, "source": "a guess"},
      "like": {"profile": "tiny.json", "relative_sd": {
        "gemm": {"value": 0.12, "source": "two others"},
        "attention": {"value": 0.3, "source": "two others"},
        "memory": {"value": 0.2, "source": "a guess"},
        "collectives": {"value": 0.4, "source": "two others"}}}})");
}

class CarryOver : public testing::Test {
  protected:
    void SetUp() override {
        like_path_ = testing::TempDir() + "tiny.json";
        datasheet_path_ = testing::TempDir() + "big.datasheet.json";
        output_path_ = testing::TempDir() + "big.json";
        std::ofstream(like_path_) << sim::tiny_profile_text();
    }
    sim::Profile profile_of(const Json& sheet) {
        std::ofstream(datasheet_path_) << sheet.dump();
        fit_profile({datasheet_path_, "", "", "", output_path_});
        return sim::load_profile(output_path_);
    }
    std::string error_of(const Json& sheet) {
        try {
            profile_of(sheet);
        } catch (const std::runtime_error& error) {
            return error.what();
        }
        return "no error";
    }

    std::string like_path_, datasheet_path_, output_path_;
};

const sim::GemmCurve& gemm(const sim::Profile& profile, plan::DType dtype) {
    return *profile.gemm[static_cast<std::size_t>(dtype)];
}

TEST_F(CarryOver, ScalesByTheRatiosOfTheDatasheets) {
    const sim::Profile tiny = sim::load_profile(like_path_);
    const sim::Profile big = profile_of(datasheet());
    EXPECT_EQ(big.device, "big");
    const sim::GemmCurve& bf16 = gemm(big, plan::DType::bf16);
    EXPECT_FALSE(bf16.measured);
    EXPECT_EQ(bf16.t0_us, 5);
    EXPECT_EQ(bf16.rate_tflops, 300);
    EXPECT_EQ(bf16.bandwidth_GBps, 4000);
    EXPECT_EQ(bf16.sustained, 0.8);
    EXPECT_EQ(gemm(big, plan::DType::fp32).rate_tflops, 20);
    const sim::AttentionCurve& d128 = big.attention.forward[1];
    EXPECT_FALSE(d128.measured);  // though tiny's is
    EXPECT_EQ(d128.rate_tflops, 150);
    EXPECT_EQ(d128.query_element_ps, 4);
    EXPECT_EQ(d128.key_element_ps, 2);
    EXPECT_EQ(d128.t0_us, 20);
    EXPECT_EQ(big.attention.backward_rate_ratio.value, 0.5);
    EXPECT_EQ(big.batched_gemm.rate_ratio.value, 0.5);
    EXPECT_EQ(big.memory.efficiency.value, 0.8);
    EXPECT_EQ(big.memory.resident_bytes.value, 10e6);
    EXPECT_EQ(big.memory.cache_GBps.value, 25000);
    EXPECT_EQ(big.overlap.compute_slowdown.value, tiny.overlap.compute_slowdown.value);
}

TEST_F(CarryOver, JoinsTheResidualsAndSaysWhere) {
    const sim::Profile big = profile_of(datasheet());
    const sim::GemmCurve& bf16 = gemm(big, plan::DType::bf16);
    EXPECT_DOUBLE_EQ(bf16.relative_sd, 0.13);
    EXPECT_NEAR(gemm(big, plan::DType::fp32).relative_sd, std::sqrt(0.04 + kTransfer * kTransfer),
                1e-4);
    EXPECT_NEAR(big.attention.forward[1].relative_sd, std::sqrt(0.0016 + 0.09), 1e-4);
    EXPECT_NEAR(big.attention.backward_relative_sd, std::sqrt(0.04 + 0.09), 1e-4);
    EXPECT_NEAR(big.memory.relative_sd, 0.25, 1e-9);  // 0.15 and 0.2
    EXPECT_NE(bf16.source.find("carried over from tiny"), std::string::npos) << bf16.source;
}

TEST_F(CarryOver, PricesCollectivesByTheLinksWhereTheSheetSaysSo) {
    const sim::Profile big = profile_of(datasheet());
    const auto table = sim::parse_collectives(big.collectives_json, big.path);
    EXPECT_TRUE(table.curves.empty());
    EXPECT_EQ(table.measured_bandwidth_GBps, 64);
    EXPECT_EQ(table.intra_node.efficiency, 0.5);
    EXPECT_EQ(table.intra_node.relative_sd, 0.4);
    EXPECT_EQ(big.hardware.link_GBps->value, 64);
}

TEST_F(CarryOver, PutsWhatTheSheetStatesBeforeWhatIsCarriedOver) {
    Json sheet = datasheet();
    sheet["gemm"]["bf16"]["rate_tflops"] = {{"value", 200}, {"source", "a bench"}};
    sheet["memory"]["t0_us"] = {{"value", 3}, {"source", "a bench"}};
    const sim::Profile big = profile_of(sheet);
    EXPECT_EQ(gemm(big, plan::DType::bf16).rate_tflops, 200);
    EXPECT_EQ(gemm(big, plan::DType::bf16).bandwidth_GBps, 4000);
    EXPECT_EQ(big.memory.t0_us.source, "a bench");
    // attention is as much slower as the products are: 50 × 200 ÷ 100
    EXPECT_EQ(big.attention.forward[1].rate_tflops, 100);
}

TEST_F(CarryOver, LeavesOutWhatTheDeviceDoesNotHave) {
    Json sheet = datasheet();
    sheet["hardware"]["peak_tflops"].erase("fp32");
    const sim::Profile big = profile_of(sheet);
    EXPECT_FALSE(big.gemm[static_cast<std::size_t>(plan::DType::fp32)]);
    sheet.erase("links");  // tiny has no collectives to carry over either
    EXPECT_TRUE(profile_of(sheet).collectives_json.empty());
}

TEST_F(CarryOver, TakesFp16ForBf16WhereTheDeviceHasOnlyThat) {
    Json like = Json::parse(sim::tiny_profile_text());
    like["hardware"]["peak_tflops"]["fp16"] = 120;
    std::ofstream(like_path_) << like.dump();
    Json sheet = datasheet();
    sheet["hardware"]["peak_tflops"] = {{"fp16", 60}, {"fp32", 20}};
    const Json profile = carry_over(sheet, like_path_, TransferError(), datasheet_path_);
    EXPECT_FALSE(profile["gemm"].contains("bf16"));
    EXPECT_EQ(profile["gemm"]["fp16"]["rate_tflops"], 50);
    EXPECT_EQ(profile["attention"]["dtype"], "fp16");
    EXPECT_EQ(profile["attention"]["forward"]["128"]["rate_tflops"], 25);
}

TEST_F(CarryOver, SaysWhatASheetLacks) {
    const std::string at = datasheet_path_ + ": ";
    auto without = [&](const char* section, const char* key) {
        Json sheet = datasheet();
        sheet[section].erase(key);
        return error_of(sheet);
    };
    EXPECT_EQ(without("hardware", "memory_GBps"),
              at + "/hardware/memory_GBps: missing, and what is carried over is in units of it");
    EXPECT_EQ(without("hardware", "link_GBps"),
              at + "/hardware/link_GBps: missing, and \"links\" is a share of it");
    EXPECT_EQ(without("like", "relative_sd"), at + "/like/relative_sd: missing");
    EXPECT_EQ(without("links", "source"), at + "/links/source: missing");
    Json sheet = datasheet();
    sheet["hardware"]["peak_tflops"].erase("bf16");
    EXPECT_EQ(error_of(sheet), at + "/hardware/peak_tflops/bf16: missing, and the attention of "
                                    "tiny is in units of it");
    sheet = datasheet();
    sheet["like"]["relative_sd"]["gemm"]["value"] = 0;
    EXPECT_EQ(error_of(sheet),
              at + "/like/relative_sd/gemm: a positive number and a text are expected");
    sheet = datasheet();
    sheet["like"]["profile"] = "none.json";
    EXPECT_EQ(error_of(sheet),
              testing::TempDir() + "none.json: cannot be read: No such file or directory");
    sheet = datasheet();
    sheet["hardware"]["memory_GBps"] = "fast";
    EXPECT_EQ(error_of(sheet).rfind(at + "a value has another form than in a profile", 0), 0u);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
