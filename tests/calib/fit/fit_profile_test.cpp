#include "calib/fit/fit_profile.hpp"

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "calib/fit/fit_error.hpp"
#include "sim/cost/attention_model.hpp"
#include "sim/cost/gemm_model.hpp"
#include "sim/cost/profile.hpp"
#include "sim/network/collective_table.hpp"
#include "tests/sim/cost/tiny_profile.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// Tables of a device of 7 µs, 250 TFLOP/s, 3 TB/s, and the tiny profile as its datasheet.
class FitProfile : public testing::Test {
  protected:
    void SetUp() override {
        const std::string folder =
            testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
        inputs_ = {folder + "_datasheet.json", folder + "_gemm.csv", folder + "_attention.csv",
                   folder + "_collectives.csv", folder + "_profile.json"};
        std::remove(inputs_.output_path.c_str());
        write_gemm();
        write_attention();
        write_collectives();
        write_datasheet(R"("system": "tiny",
            "gemm": {"dtype": "bf16", "source": "a table", "sustained": {"value": 0.9,
                     "source": "a guess"}},
            "attention": {"source": "another table"},
            "collectives": {"library": "2.27.3", "intra_node_bandwidth_GBps": 300,
                            "intra_node_kind": "nvswitch", "intra_node_latency_us": 2,
                            "hierarchical": false})");
    }

    void write_datasheet(const std::string& tables) {
        std::string text = sim::tiny_profile_text();
        text.insert(text.rfind('}'), ", \"tables\": {" + tables + "}");
        std::ofstream(inputs_.datasheet_path) << text;
    }

    void write_gemm() {
        sim::GemmCurve truth;
        truth.t0_us = 7;
        truth.rate_tflops = 250;
        truth.bandwidth_GBps = 3000;
        std::ofstream file(inputs_.gemm_csv);
        file << "system,dtype,m,n,k,time_us,source\n";
        for (int m = 512; m <= 8192; m *= 2)
            for (int n = 256; n <= 16384; n *= 2)
                for (int k = 256; k <= 16384; k *= 2)
                    file << fmt::format(
                        "tiny,bf16,{},{},{},{},made up\n", m, n, k,
                        1e6 * sim::gemm_seconds(truth, {double(m), double(n), double(k)}, 2));
    }

    void write_attention() {
        sim::AttentionCurve truth;
        truth.t0_us = 30;
        truth.query_element_ps = 6;
        truth.key_element_ps = 2;
        truth.rate_tflops = 140;
        std::ofstream file(inputs_.attention_csv);
        file << "system,batch,sequence,heads,kv_heads,head_dim,time_us,source\n";
        for (int batch : {1, 4})
            for (int sequence = 512; sequence <= 16384; sequence *= 2)
                for (int heads : {8, 32})
                    for (int kv_heads : {1, 8}) {
                        const sim::AttentionShape shape{double(batch),    double(sequence),
                                                        double(sequence), double(heads),
                                                        double(kv_heads), 128};
                        file << fmt::format("tiny,{},{},{},{},128,{},made up\n", batch, sequence,
                                            heads, kv_heads,
                                            1e6 * sim::attention_seconds(truth, shape));
                    }
    }

    // 20 µs and 200 GB/s of bus bandwidth
    void write_collectives() {
        std::ofstream file(inputs_.collectives_csv);
        file << "system,nccl,collective,ranks,nodes,bytes,time_us,source\n";
        for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter"})
            for (double bytes = 1024; bytes < 2e9; bytes *= 4)
                file << fmt::format("tiny,2.27.3,{},8,1,{},{},made up\n", collective, bytes,
                                    20 + bytes * 7 / 8 / 200e3);
    }

    FitInputs inputs_;
};

TEST_F(FitProfile, WritesAProfileOfDatasheetAndTables) {
    const FitReport report = fit_profile(inputs_);
    EXPECT_EQ(report.device, "tiny");
    ASSERT_EQ(report.families.size(), 2u);
    EXPECT_EQ(report.families[0].family, "gemm bf16");
    EXPECT_EQ(report.families[1].family, "attention d128");
    EXPECT_EQ(report.families[0].fitted_rows + report.families[0].held_out.absolute.rows,
              5 * 7 * 7);
    const sim::Profile profile = sim::load_profile(inputs_.output_path);
    const auto& gemm = profile.gemm[static_cast<std::size_t>(plan::DType::bf16)];
    EXPECT_TRUE(gemm->measured);
    EXPECT_EQ(gemm->t0_us, 7);  // to the four digits that are written
    EXPECT_EQ(gemm->rate_tflops, 250);
    EXPECT_EQ(gemm->bandwidth_GBps, 3000);
    EXPECT_EQ(gemm->sustained, 0.9);
    EXPECT_EQ(profile.attention.forward[1].rate_tflops, 140);
    EXPECT_EQ(profile.attention.forward[1].query_element_ps, 6);
    EXPECT_EQ(profile.attention.forward[0].rate_tflops, 40);  // head size 64: the datasheet's
    EXPECT_EQ(profile.hardware.power_w.source, "its sticker");
    EXPECT_EQ(report.collectives.size(), 3u);
    const auto table = sim::parse_collectives(profile.collectives_json, profile.path);
    ASSERT_NE(table.find(plan::OpKind::all_gather, 8), nullptr);
    EXPECT_EQ(table.find(plan::OpKind::all_gather, 4), nullptr);
}

TEST_F(FitProfile, WritesTheSameBytesAgain) {
    fit_profile(inputs_);
    const std::string first = read(inputs_.output_path);
    fit_profile(inputs_);
    EXPECT_EQ(read(inputs_.output_path), first);
    EXPECT_GT(first.size(), 1000u);
}

TEST_F(FitProfile, SaysWhichTablesItLacksAndWhichItDoesNotRead) {
    EXPECT_THAT(fit_profile(inputs_).unread, testing::IsEmpty());
    write_datasheet(R"("system": "tiny", "attention": {"source": "x"})");
    EXPECT_THAT(fit_profile(inputs_).unread,
                testing::ElementsAre("--gemm " + inputs_.gemm_csv,
                                     "--collectives " + inputs_.collectives_csv));
    write_datasheet(R"("system": "tiny", "gemm": {}, "attention": {})");
    FitInputs none = inputs_;
    none.gemm_csv = none.attention_csv = "";
    EXPECT_THAT([&] { fit_profile(none); },
                testing::ThrowsMessage<FitError>(
                    inputs_.datasheet_path +
                    ": /tables/gemm: asks for a table: --gemm CSV; /tables/attention: asks for a "
                    "table: --attention CSV"));
}

TEST_F(FitProfile, LeavesTheOutputAloneWhenItFails) {
    std::ofstream(inputs_.output_path) << "old";
    auto error_of = [&](const std::string& tables) -> std::string {
        write_datasheet(tables);
        try {
            fit_profile(inputs_);
        } catch (const std::runtime_error& error) {
            return error.what();
        }
        return "no error";
    };
    const std::string at = inputs_.datasheet_path + ": ";
    EXPECT_EQ(error_of(R"("system": "tiny", "norm": {})"), at + "/tables/norm: unknown key");
    EXPECT_EQ(error_of(R"("system": "tiny", "attention": {})"),
              at + "/tables/attention/source: missing");
    EXPECT_EQ(error_of(R"("system": "tiny", "collectives": {"library": "2.27.3",
                          "intra_node_bandwidth_GBps": "fast", "intra_node_kind": "nvswitch",
                          "intra_node_latency_us": 2, "hierarchical": false})"),
              at + "/tables/collectives: numbers of GB/s and of microseconds, and true or false "
                   "are expected");
    EXPECT_EQ(error_of(R"("system": "tiny", "collectives": {"library": "2.27.3",
                          "intra_node_bandwidth_GBps": 300, "intra_node_kind": "nvlink",
                          "intra_node_latency_us": 2, "hierarchical": false})"),
              at + "/tables/collectives/intra_node_kind: no link is called \"nvlink\"");
    EXPECT_EQ(error_of(R"("system": "huge", "attention": {"source": "x"})"),
              inputs_.attention_csv + ": no rows of huge");
    EXPECT_EQ(error_of(R"("system": "tiny", "gemm": {"dtype": "bf16", "source": "x",
                          "sustained": 0.9, "t0": 1})"),
              at + "/tables/gemm/t0: unknown key");
    // valid tables, but a factor that is none
    EXPECT_EQ(error_of(R"("system": "tiny", "gemm": {"dtype": "bf16", "source": "x",
                          "sustained": "high"})"),
              inputs_.output_path + ": /gemm/bf16/sustained: a number is expected");
    EXPECT_EQ(read(inputs_.output_path), "old");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
