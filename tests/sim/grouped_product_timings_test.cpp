// Products of a rank's experts as the shipped profiles price them, beside kernels that were timed
// by themselves. None of these timings is in a profile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/cost/kernel_cost.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::GemmProduct;

struct Timed {
    const char* device;
    std::int64_t experts, rows, n, k;  // rows of each expert
    double tflops;
    GemmProduct product = GemmProduct::forward;
    plan::DType dtype = plan::DType::bf16;

    // Of one of so many microseconds.
    static double rate(double experts, double rows, double n, double k, double us) {
        return 2 * experts * rows * n * k / us * 1e-6;
    }
};

std::vector<Timed> hopper() {
    return {
        // NVIDIA/TransformerEngine pull request 2045 (2.7): cuBLAS on several streams, CUTLASS.
        {"h100-sxm", 8, 4096, 768, 2048, 627.903},
        {"h100-sxm", 16, 2048, 768, 2048, 553.945},
        {"h100-sxm", 8, 4096, 768, 2048, 650.574},
        {"h100-sxm", 16, 2048, 768, 2048, 636.927},
        // pytorch/ao pull request 2490: torch._grouped_mm, experts of 128 to 1,328 rows.
        {"h100-sxm", 16, 512, 8192, 5120, Timed::rate(16, 512, 8192, 5120, 1310)},
        {"h100-sxm", 16, 512, 5120, 8192, Timed::rate(16, 512, 5120, 8192, 1260)},
        // pytorch/pytorch pull request 156203.
        {"h200-sxm", 16, 128000, 7168, 7168, Timed::rate(16, 128000, 7168, 7168, 298667)},
        // tile-ai/TileOPs pull request 1567, at the power limit: torch._grouped_mm, DeepGEMM.
        {"h200-sxm", 256, 1024, 4096, 6144, 603},
        {"h200-sxm", 256, 1024, 4096, 6144, 658},
        {"h200-sxm", 256, 2048, 4096, 6144, 624},
        {"h200-sxm", 256, 2048, 4096, 6144, 670},
        {"h200-sxm", 256, 4096, 4096, 6144, 617},
        {"h200-sxm", 256, 4096, 4096, 6144, 666},
        {"h200-sxm", 256, 8192, 4096, 6144, 597},
        {"h200-sxm", 256, 8192, 4096, 6144, 657},
    };
}

std::vector<Timed> blackwell() {
    constexpr auto kFp8 = plan::DType::fp8_e4m3;
    constexpr std::int64_t kRows = 131072 / 8;
    return {
        // pytorch/ao pull request 3271: torch._grouped_mm.
        {"b200-sxm", 2, 8192, 8192, 5120, Timed::rate(2, 8192, 8192, 5120, 1169.42)},
        {"b200-sxm", 4, 4096, 8192, 5120, Timed::rate(4, 4096, 8192, 5120, 1119.22)},
        {"b200-sxm", 8, 2048, 8192, 5120, Timed::rate(8, 2048, 8192, 5120, 1160.26)},
        // pytorch/ao, torchao/prototype/moe_training/README.md: torch._scaled_grouped_mm of MXFP8,
        // of which the last is said there to want work.
        {"b200-sxm", 8, kRows, 2048, 7168, Timed::rate(8, kRows, 2048, 7168, 1671.2),
         GemmProduct::forward, kFp8},
        {"b200-sxm", 8, kRows, 7168, 2048, Timed::rate(8, kRows, 7168, 2048, 1683.4),
         GemmProduct::input_gradient, kFp8},
        {"b200-sxm", 8, kRows, 2048, 7168, Timed::rate(8, kRows, 2048, 7168, 2103.3),
         GemmProduct::weight_gradient, kFp8},
    };
}

// AMD-AGI/Primus-Turbo pull request 284: hipBLASLt, balanced.
std::vector<Timed> mi355x() {
    std::vector<Timed> all;
    const auto add = [&](std::int64_t rows, std::int64_t n, std::int64_t k, double forward,
                         double input, double weights) {
        all.push_back({"mi355x", 16, rows, n, k, forward});
        all.push_back({"mi355x", 16, rows, n, k, input, GemmProduct::input_gradient});
        all.push_back({"mi355x", 16, rows, n, k, weights, GemmProduct::weight_gradient});
    };
    add(2048, 4096, 7168, 992, 1091, 1256);
    add(4096, 4096, 7168, 1534, 1554, 1385);
    add(2048, 7168, 2048, 1203, 1208, 1182);
    return all;
}

struct Priced {
    double over_timed = 0;  // the logarithm
    double relative_sd = 0;
};

Priced priced(const Timed& timed) {
    const Profile profile = load_profile(theory::library() + "/profiles/" + timed.device + ".json");
    plan::GroupedGemm product;
    product.experts = timed.experts;
    product.expected = timed.experts * timed.rows;
    product.product = timed.product;
    product.m = product.expected;
    product.n = timed.n;
    product.k = timed.k;
    if (timed.product == GemmProduct::weight_gradient) {
        product.m = timed.n;
        product.n = timed.k;
        product.k = product.expected;
    }
    plan::Op op;
    op.spec = product;
    op.dtype = timed.dtype;
    op.reads = {0, 1, 2, 3};
    plan::Block block;
    block.tensors.resize(4);
    block.tensors[3].dtype = plan::DType::u8;  // a scale for each 32 numbers
    block.tensors[3].dims = {product.m, product.k / 32};
    const Price price = KernelCost(profile).price(block, op);
    return {std::log(price.seconds * timed.tflops * 1e12 / product.flops()), price.relative_sd};
}

std::vector<Priced> priced(const std::vector<Timed>& timed) {
    std::vector<Priced> all;
    for (const Timed& one : timed)
        all.push_back(priced(one));
    return all;
}

double median_miss(const std::vector<Priced>& all) {
    std::vector<double> misses;
    for (const Priced& one : all)
        misses.push_back(std::abs(one.over_timed));
    std::sort(misses.begin(), misses.end());
    return misses[misses.size() / 2];
}

TEST(GroupedProductTimings, AreMetOnHopperAndBlackwell) {
    const std::vector<Priced> old = priced(hopper()), recent = priced(blackwell());
    EXPECT_LE(median_miss(old), 0.06);
    EXPECT_LE(median_miss(recent), 0.06);
    for (const Priced& one : old)
        EXPECT_LE(std::abs(one.over_timed), 0.15);
    for (std::size_t i = 0; i + 1 < recent.size(); ++i)
        EXPECT_LE(std::abs(recent[i].over_timed), 0.06) << i;
}

// As far as the interval says of a shape that the device's curve was fitted to.
TEST(GroupedProductTimings, LieAsFarOffAsTheIntervalSays) {
    double squares = 0, promised = 1, count = 0;
    for (const auto& timed : {hopper(), blackwell(), mi355x()})
        for (const Priced& one : priced(timed)) {
            squares += one.over_timed * one.over_timed;
            promised = std::min(promised, one.relative_sd);
            ++count;
        }
    EXPECT_EQ(count, 30);
    EXPECT_NEAR(std::sqrt(squares / count), promised, 0.01);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
