#include "calib/fit/judge_transfer.hpp"

#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calib/fit/fit_error.hpp"
#include "sim/cost/attention_model.hpp"
#include "sim/cost/gemm_model.hpp"
#include "tests/sim/cost/tiny_profile.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

// A device of twice the peaks and the memory bandwidth of "tiny", whose kernels take `slowness`
// times what that says: every error is 1 ÷ slowness − 1.
class JudgeTransfer : public testing::Test {
  protected:
    void SetUp() override {
        like_path_ = testing::TempDir() + "judge_tiny.json";
        std::ofstream(like_path_) << sim::tiny_profile_text();
        auto sheet = nlohmann::json::parse(sim::tiny_profile_text());
        sheet["device"] = "twice";
        sheet["hardware"]["memory_GBps"] = 2000;
        sheet["hardware"]["peak_tflops"] = {{"bf16", 240}, {"fp32", 20}};
        sheet["tables"] = {{"system", "twice"},
                           {"gemm", {{"dtype", "bf16"}, {"source", "x"}, {"sustained", 1}}},
                           {"attention", {{"source", "x"}}}};
        inputs_.datasheet_path = testing::TempDir() + "judge_twice.datasheet.json";
        std::ofstream(inputs_.datasheet_path) << sheet.dump();
        inputs_.gemm_csv = testing::TempDir() + "judge_gemm.csv";
        inputs_.attention_csv = testing::TempDir() + "judge_attention.csv";
    }

    void write_tables(double slowness) {
        sim::GemmCurve products;
        products.t0_us = 5;
        products.rate_tflops = 200;  // at burst: without tiny's sustained 0.8
        products.bandwidth_GBps = 4000;
        std::ofstream gemm(inputs_.gemm_csv);
        gemm << "system,dtype,m,n,k,time_us,source\n";
        for (int m : {512, 513, 8192})  // 513 is left out, as in a fit: its time is nonsense
            for (int k : {256, 4096}) {
                const double us =
                    1e6 * sim::gemm_seconds(products, {double(m), 1024, double(k)}, 2);
                gemm << fmt::format("twice,bf16,{},1024,{},{},x\n", m, k,
                                    m == 513 ? 1 : us * slowness);
            }
        sim::AttentionCurve curve;
        curve.t0_us = 20;
        curve.query_element_ps = 4;
        curve.key_element_ps = 2;
        curve.rate_tflops = 100;
        std::ofstream attention(inputs_.attention_csv);
        attention << "system,batch,sequence,heads,kv_heads,head_dim,time_us,source\n";
        for (int s : {512, 4096})
            attention << fmt::format(
                "twice,1,{},8,8,128,{},x\n", s,
                slowness * 1e6 *
                    sim::attention_seconds(curve, {1, double(s), double(s), 8, 8, 128}));
    }

    FitInputs inputs_;
    std::string like_path_;
};

TEST_F(JudgeTransfer, FindsNoErrorWhereTheRatiosHold) {
    write_tables(1);
    const TransferReport report = judge_transfer(inputs_, like_path_);
    EXPECT_EQ(report.from, "tiny");
    EXPECT_EQ(report.device, "twice");
    ASSERT_EQ(report.families.size(), 2u);
    EXPECT_EQ(report.families[0].errors.absolute.rows, 4);
    EXPECT_EQ(report.families[1].family, "attention d128");
    for (const TransferredFamily& family : report.families)
        EXPECT_LT(family.errors.standard_deviation, 1e-4) << family.family;
}

TEST_F(JudgeTransfer, FindsTheErrorWhereTheyDoNot) {
    write_tables(1.25);
    for (const TransferredFamily& family : judge_transfer(inputs_, like_path_).families) {
        EXPECT_NEAR(family.errors.bias, -0.2, 1e-4) << family.family;
        EXPECT_NEAR(family.errors.standard_deviation, 0.2, 1e-4) << family.family;
    }
}

TEST_F(JudgeTransfer, NeedsTables) {
    inputs_.datasheet_path = like_path_;
    EXPECT_THROW(judge_transfer(inputs_, like_path_), FitError);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
