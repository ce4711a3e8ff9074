// Who multiplies numbers of eight bits on an emulated device: cuBLASLt what it has, Orrery's kernel
// the rest, each with the oracle's results.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/cuda/cuda_backend.hpp"
#include "tests/gpu/checks/checks.hpp"
#include "tests/gpu/emulation/cublasLt.h"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

constexpr std::int64_t kWorkspace = 256;

// One device's kernels with memory of zeros, whose scales are all 0.
struct Rank {
    std::unique_ptr<StreamDriver> driver;
    std::unique_ptr<Kernels> kernels;

    explicit Rank(const std::string& choices = {})
        : driver(make_cuda_driver(0, {choices})),
          kernels(driver->kernels(driver->create_stream(StreamUse::compute),
                                  driver->allocate(kWorkspace), kWorkspace)) {}

    Buffer memory(DType dtype, std::int64_t elements) const {
        return {driver->allocate(elements * plan::size_bytes(dtype)), dtype};
    }
    Scales scales(std::int64_t rows, std::int64_t columns, std::int64_t across) const {
        return {memory(DType::fp32, 4096), rows, columns, across};
    }
    // a by 1 × 128, b by 128 × 128 or by 1 × 128.
    Gemm of_blocks(std::int64_t m, std::int64_t n, std::int64_t k, bool squares = true) const {
        Gemm gemm;
        gemm.m = m;
        gemm.n = n;
        gemm.k = k;
        gemm.a = memory(DType::fp8_e4m3, m * k);
        gemm.b = memory(DType::fp8_e4m3, n * k);
        gemm.c = memory(DType::bf16, m * n);
        gemm.a_scales = scales(1, 128, (k + 127) / 128);
        gemm.b_scales = scales(squares ? 128 : 1, 128, (k + 127) / 128);
        return gemm;
    }
};

class EightBitProducts : public testing::Test {
  protected:
    EightBitProducts() { emulation::products() = {}; }
    ~EightBitProducts() override {
        emulation::products() = {};
        emulation::compute_capability = 90;
    }

    // Instructions of tensor cores are of Orrery's kernel.
    static std::string multiplied_by(const Rank& rank, const Gemm& gemm) {
        const std::int64_t before = emulation::tensor_core_products;
        emulation::products().of_eight_bits = 0;
        rank.kernels->gemm(gemm);
        const bool own = emulation::tensor_core_products > before;
        if (emulation::products().of_eight_bits == 0) return own ? "own" : "nobody";
        return own ? "both" : "cublasLt";
    }
};

TEST_F(EightBitProducts, OfBlocksAreCublasLtsOnHopper) {
    const Rank rank;
    EXPECT_EQ(multiplied_by(rank, rank.of_blocks(32, 48, 256)), "cublasLt");
    EXPECT_EQ(multiplied_by(rank, rank.of_blocks(32, 48, 256, false)), "cublasLt");
    EXPECT_EQ(multiplied_by(rank, rank.of_blocks(32, 48, 256)), "cublasLt");
    EXPECT_EQ(emulation::products().searches, 2);
}

TEST_F(EightBitProducts, OfBlocksAreOwnOnesElsewhere) {
    for (const int capability : {80, 89, 100, 120}) {
        emulation::compute_capability = capability;
        const Rank rank;
        EXPECT_EQ(multiplied_by(rank, rank.of_blocks(32, 48, 256)), "own") << capability;
    }
    emulation::compute_capability = 90;
    emulation::products().version = 120800;
    const Rank rank;
    EXPECT_EQ(multiplied_by(rank, rank.of_blocks(32, 48, 256)), "own");
    EXPECT_EQ(emulation::products().searches, 0);
}

// Columns of scales that do not begin at 16 bytes are not asked for; what cuBLASLt refuses is,
// once.
TEST_F(EightBitProducts, OfSizesThatCublasLtDoesNotHaveAreOwnOnes) {
    const Rank rank;
    EXPECT_EQ(multiplied_by(rank, rank.of_blocks(30, 48, 256)), "own");
    EXPECT_EQ(emulation::products().searches, 0);
    EXPECT_EQ(multiplied_by(rank, rank.of_blocks(20, 48, 256)), "own");
    EXPECT_EQ(multiplied_by(rank, rank.of_blocks(20, 48, 256)), "own");
    EXPECT_EQ(emulation::products().searches, 1);
}

TEST_F(EightBitProducts, ThatLieOtherwiseAreOwnOnes) {
    const Rank rank;
    Gemm apart = rank.of_blocks(32, 48, 256);
    apart.a_stride = 512;
    apart.a = rank.memory(DType::fp8_e4m3, 32 * 512);
    EXPECT_EQ(multiplied_by(rank, apart), "own");
    Gemm columns = rank.of_blocks(32, 128, 128);
    columns.form = GemmForm::input_gradient;
    EXPECT_EQ(multiplied_by(rank, columns), "own");
    Gemm tensors = rank.of_blocks(32, 48, 256);
    tensors.a_scales = rank.scales(32, 256, 1);
    tensors.b_scales = rank.scales(48, 256, 1);
    EXPECT_EQ(multiplied_by(rank, tensors), "cublasLt");
    tensors.form = GemmForm::input_gradient;
    tensors.b = rank.memory(DType::fp8_e4m3, 256 * 256);
    tensors.b_scales = rank.scales(256, 256, 1);
    EXPECT_EQ(multiplied_by(rank, tensors), "own");
}

// Experts' rows have the algorithm that whole tiles have.
TEST_F(EightBitProducts, OfExpertsRowsAreSearchedForByTiles) {
    const Rank rank;
    for (const std::int64_t rows : {32, 48, 64}) {
        Gemm gemm = rank.of_blocks(rows, 48, 256);
        gemm.each_row_alone = true;
        EXPECT_EQ(multiplied_by(rank, gemm), "cublasLt") << rows;
    }
    EXPECT_EQ(emulation::products().searches, 1);
    Gemm odd = rank.of_blocks(20, 48, 256);
    odd.each_row_alone = true;
    EXPECT_EQ(multiplied_by(rank, odd), "own");
}

TEST_F(EightBitProducts, AreTheOraclesOnEachArchitecture) {
    for (const int capability : {80, 100}) {
        emulation::compute_capability = capability;
        const auto driver = make_cuda_driver(0);
        World world(*driver, DType::bf16, false);
        check_eight_bit_products(world);
        for (const Finding& finding : world.findings())
            EXPECT_TRUE(finding.right())
                << capability << ": " << finding.op << ", " << finding.variant << ", "
                << finding.output << ": " << finding.first_wrong;
    }
}

TEST_F(EightBitProducts, OfBlocksAreTimedAndKeptByTheirScales) {
    const std::string file = testing::TempDir() + "/eight-bit-choices.json";
    const Rank first(file);
    first.kernels->prepare(first.of_blocks(32, 48, 256));
    first.kernels->prepare(first.of_blocks(32, 48, 256, false));
    first.kernels->prepare(first.of_blocks(20, 48, 256));  // nobody has an algorithm
    std::ifstream written(file);
    const nlohmann::json entries = nlohmann::json::parse(written).at("choices");
    ASSERT_EQ(entries.size(), 2U);
    EXPECT_EQ(entries[0].at("scale_blocks"), "128x128");
    EXPECT_EQ(entries[1].at("scale_blocks"), "1x128");
    emulation::products() = {};
    const Rank next(file);
    for (const bool squares : {true, false}) {
        const Gemm gemm = next.of_blocks(32, 48, 256, squares);
        next.kernels->prepare(gemm);
        EXPECT_EQ(multiplied_by(next, gemm), "cublasLt");
    }
    EXPECT_EQ(emulation::products().searches, 0);
    EXPECT_EQ(emulation::products().launches[emulation::kFaster], 2);
}

}  // namespace
}  // namespace orrery::runtime::gpu_check
