#include "sim/cost/kernel_cost.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "plan/blocks/eight_bit.hpp"
#include "tests/sim/cost/tiny_profile.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::DType;
using plan::OpKind;

using Sizes = std::vector<std::int64_t>;

plan::Op op_of(OpKind kind, const Sizes& sizes, DType dtype = DType::bf16) {
    plan::Op op;
    op.spec = plan::spec_of(kind, sizes);
    op.dtype = dtype;
    return op;
}

// A block of one op that reads and writes a tensor of `elements` bf16 each.
plan::Block memory_block(OpKind kind, std::int64_t elements) {
    plan::Block block;
    for (const char* name : {"in", "out"}) {
        plan::Tensor tensor;
        tensor.name = name;
        tensor.dims = {elements};
        block.tensors.push_back(tensor);
    }
    plan::Op op = op_of(kind, {elements, 1});
    op.reads = {0};
    op.writes = {1};
    block.ops.push_back(op);
    return block;
}

class TinyCost : public testing::Test {
  protected:
    Price price(const plan::Op& op) const { return cost_.price(plan::Block{}, op); }
    Price memory_price(OpKind kind, std::int64_t elements) const {
        const plan::Block block = memory_block(kind, elements);
        return cost_.price(block, block.ops[0]);
    }

    Profile profile_ = parse_profile(tiny_profile_text(), "tiny.json");
    KernelCost cost_{profile_};
};

TEST_F(TinyCost, StacksHaveSlowerKernelsOfTheirOwn) {
    plan::Framework stack;
    stack.attention_factor = 2.5;
    stack.memory_kernel_factor = 0.75;
    const KernelCost cost(profile_, stack, 1);
    const plan::Op gemm = op_of(OpKind::gemm, {1000, 2000, 4000});
    EXPECT_EQ(cost.price({}, gemm).seconds, price(gemm).seconds);
    const plan::Block norm = memory_block(OpKind::norm, 1000);
    EXPECT_EQ(cost.price(norm, norm.ops[0]).seconds,
              0.75 * memory_price(OpKind::norm, 1000).seconds);
    const plan::Op attention = op_of(OpKind::attention, {1, 1024, 1024, 8, 8, 128, 0});
    EXPECT_EQ(cost.price({}, attention).seconds, 2.5 * price(attention).seconds);
}

// Columns with scales of their own are cast by a kernel of their own where those are slow.
TEST_F(TinyCost, CastsColumnsAsSlowlyAsTheStackDoes) {
    constexpr std::int64_t kRows = 4096, kWidth = 8192, kElements = kRows * kWidth;
    const auto cast = [](std::int64_t copies, std::int64_t scales) {
        plan::Block block;
        block.tensors = {{"x", plan::Role::scratch, plan::DType::bf16, {kRows, kWidth}}};
        plan::Op op = op_of(OpKind::quantize, {kRows, kWidth, copies});
        op.reads = {0};
        for (const bool data : {true, false})
            for (const std::int64_t copy : {plan::kRowsCopy, plan::kTransposedCopy}) {
                if ((copies & copy) == 0) continue;
                op.writes.push_back(static_cast<plan::TensorId>(block.tensors.size()));
                if (data)
                    block.tensors.push_back(
                        {"q", plan::Role::scratch, plan::DType::fp8_e4m3, {kRows, kWidth}});
                else
                    block.tensors.push_back(
                        {"s", plan::Role::scratch, plan::DType::fp32, {scales, 1}});
            }
        block.ops = {op};
        return block;
    };
    plan::Framework stack;
    stack.column_cast_factor = 3;
    const KernelCost slow(profile_, stack, 1);
    const double byte =
        kElements / (profile_.memory.efficiency.value * profile_.hardware.memory_GBps.value * 1e9);
    const auto more = [&](std::int64_t copies, std::int64_t scales) {
        const plan::Block block = cast(copies, scales);
        return slow.price(block, block.ops[0]).seconds - cost_.price(block, block.ops[0]).seconds;
    };
    const auto near = [&](double seconds) { return testing::DoubleNear(seconds, 1e-12); };
    EXPECT_EQ(more(plan::kRowsCopy, kRows), 0);
    EXPECT_EQ(more(plan::kTransposedCopy, 1), 0);  // one scale for all
    EXPECT_THAT(more(plan::kTransposedCopy, kRows), near((3 - 1) * 3 * byte));
    // Both at once moves 4 bytes; apart rows move 3 and columns as many.
    EXPECT_THAT(more(plan::kRowsCopy + plan::kTransposedCopy, kRows), near((3 + 3 * 3 - 4) * byte));
}

// x.float(), its square, the mean, x times its root, back to 16 bits, times the weight: 36 bytes
// per element in 6 kernels, where one kernel reads and writes 4; backward 84 in 14. Two each way
// are casts of the plan, of 6 and 4 bytes.
TEST_F(TinyCost, PricesNormsBySingleOperations) {
    plan::Framework stack;
    stack.norm_kernel = plan::NormKernel::composed;
    const KernelCost single(profile_, stack, 1);
    const std::int64_t tokens = 4096, width = 8192;
    const auto seconds = [&](OpKind kind) {
        plan::Block block = memory_block(kind, tokens * width);
        plan::set_sizes(block.ops[0].spec, {tokens, width});
        return single.price(block, block.ops[0]).seconds;
    };
    const MemoryProfile& memory = profile_.memory;
    const double bandwidth = memory.efficiency.value * profile_.hardware.memory_GBps.value * 1e9;
    const double elements = static_cast<double>(tokens * width);
    EXPECT_DOUBLE_EQ(seconds(OpKind::norm),
                     4 * memory.t0_us.value * 1e-6 + (36 - 6 - 4) * elements / bandwidth);
    EXPECT_DOUBLE_EQ(seconds(OpKind::norm_backward),
                     12 * memory.t0_us.value * 1e-6 + (84 - 6 - 4) * elements / bandwidth);
}

// Logits less their maximum, its exponential, both in place, the sum of these, and the quotients in
// place: 7 passes in 4 kernels, where one reads them once. Not where one pass finds the maximum.
TEST_F(TinyCost, PricesExponentialsBySingleOperations) {
    plan::Framework stack;
    stack.loss_kernel = plan::LossKernel::composed;
    const KernelCost single(profile_, stack, 1);
    const std::int64_t elements = std::int64_t{4096} * 8192;
    plan::Block block = memory_block(OpKind::cross_entropy_sum, elements);
    const MemoryProfile& memory = profile_.memory;
    const double pass = static_cast<double>(block.tensors[0].bytes()) /
                        (memory.efficiency.value * profile_.hardware.memory_GBps.value * 1e9);
    const auto more = [&] {
        return single.price(block, block.ops[0]).seconds - cost_.price(block, block.ops[0]).seconds;
    };
    EXPECT_NEAR(more(), 3 * memory.t0_us.value * 1e-6 + 6 * pass, 1e-12);
    block.ops[0].as<plan::CrossEntropySum>().finds_largest = true;
    EXPECT_EQ(more(), 0);
}

TEST_F(TinyCost, StretchesEveryKernelWhereRanksShareTheMachine) {
    Profile shared = profile_;
    shared.sharing = SharingProfile{"made up", {{1, 0.5}, {2, 1.5}}, 0.1};
    const KernelCost alone(shared, {}, 1), pair(shared, {}, 2);
    const plan::Op gemm = op_of(OpKind::gemm, {1000, 2000, 4000});
    EXPECT_EQ(alone.price({}, gemm).seconds, 0.5 * price(gemm).seconds);
    EXPECT_EQ(pair.price({}, gemm).seconds, 1.5 * price(gemm).seconds);
    const plan::Block norm = memory_block(OpKind::norm, 1000);
    EXPECT_EQ(pair.price(norm, norm.ops[0]).seconds,
              1.5 * memory_price(OpKind::norm, 1000).seconds);
}

// The profile knows no fp16: as wide as bf16, at one tensor-core rate, and as sure.
TEST_F(TinyCost, PricesFp16AsBf16WithoutACurveOfItsOwn) {
    const auto same = [&](OpKind kind, const Sizes& shape) {
        const Price bf16 = price(op_of(kind, shape));
        const Price fp16 = price(op_of(kind, shape, DType::fp16));
        EXPECT_GT(fp16.seconds, 0);
        EXPECT_EQ(fp16.seconds, bf16.seconds);
        EXPECT_EQ(fp16.relative_sd, bf16.relative_sd);
    };
    same(OpKind::gemm, {1000, 2000, 4000});
    same(OpKind::batched_gemm, {100, 200, 400, 1000});
    same(OpKind::attention, {1, 2048, 2048, 8, 8, 128});
    same(OpKind::attention_backward, {1, 2048, 2048, 8, 8, 128});
}

TEST_F(TinyCost, PricesFp16ByItsOwnCurve) {
    std::string text = tiny_profile_text();
    const std::string bf16 = R"("bf16": {"measured")";
    text.insert(text.find(bf16), R"("fp16": {"measured": false, "source": "made up", "t0_us": 5,
        "rate_tflops": 50, "bandwidth_GBps": 2000, "sustained": 1, "relative_sd": 0.05}, )");
    const Profile profile = parse_profile(text, "tiny.json");
    const KernelCost cost(profile);
    const Price price =
        cost.price(plan::Block{}, op_of(OpKind::gemm, {1000, 2000, 4000}, DType::fp16));
    // 16 GFLOP ÷ 50 TFLOP/s + 28 MB ÷ 2 TB/s
    EXPECT_NEAR(price.seconds, (5 + 320 + 14) * 1e-6, 1e-15);
}

TEST_F(TinyCost, PricesMatrixProducts) {
    const Price bf16 = price(op_of(OpKind::gemm, {1000, 2000, 4000}));
    // 16 GFLOP ÷ 80 TFLOP/s + 28 MB ÷ 2 TB/s
    EXPECT_NEAR(bf16.seconds, (5 + 200 + 14) * 1e-6, 1e-15);
    EXPECT_EQ(bf16.family, CostFamily::gemm);
    EXPECT_EQ(bf16.relative_sd, 0.05);
    const Price fp32 = price(op_of(OpKind::gemm, {1000, 2000, 4000}, DType::fp32));
    EXPECT_NEAR(fp32.seconds, (6 + 1600 + 56) * 1e-6, 1e-14);
    const Price batched = price(op_of(OpKind::batched_gemm, {100, 200, 400, 1000}));
    // 16 GFLOP ÷ 40 TFLOP/s + 0.28 MB·1000 ÷ 0.8 TB/s, one launch
    EXPECT_NEAR(batched.seconds, (5 + 400 + 350) * 1e-6, 1e-14);
    EXPECT_EQ(batched.family, CostFamily::batched_gemm);
    // Rows of 100 two-byte elements are no whole 16 bytes: without tensor cores, half of the
    // 10 TFLOP/s of fp32, the same bytes.
    const Price odd = price(op_of(OpKind::batched_gemm, {400, 200, 100, 1000}));
    EXPECT_NEAR(odd.seconds, (5 + 3200 + 350) * 1e-6, 1e-14);
}

TEST_F(TinyCost, PricesTheUnmaskedHalfOfAttention) {
    // batch 2, 1000 queries and keys, 10 heads, 5 of keys and values, 128 wide
    const Price forward = price(op_of(OpKind::attention, {2, 1000, 1000, 10, 5, 128}));
    // 8 ps·2.56e6 + 4 ps·1.28e6 + 4·2·10·128·5e5 FLOP ÷ 50 TFLOP/s
    const double expected = 20 + 20.48 + 5.12 + 102.4;
    EXPECT_NEAR(forward.seconds, expected * 1e-6, 1e-14);
    EXPECT_EQ(forward.family, CostFamily::attention);
    EXPECT_EQ(forward.relative_sd, 0.04);
    // 2.5 times the work at half the rate
    const Price backward = price(op_of(OpKind::attention_backward, {2, 1000, 1000, 10, 5, 128}));
    EXPECT_NEAR(backward.seconds, 5 * expected * 1e-6, 1e-13);
    EXPECT_EQ(backward.relative_sd, 0.2);
    // 500 queries at the end of 1000 keys: 500·1000 − 500²/2 pairs
    const Price tail = price(op_of(OpKind::attention, {2, 500, 1000, 10, 5, 128}));
    EXPECT_NEAR(tail.seconds, (20 + 10.24 + 5.12) * 1e-6 + 4 * 2 * 10 * 128 * 375e3 / 50e12, 1e-14);
}

// 4 ps forward, 10 ps backward, for each of 2·10·5e5 pairs that the mask leaves; of a rank's share
// of the queries it is half of all pairs.
TEST_F(TinyCost, PricesDropoutOfProbabilities) {
    profile_.attention.forward_dropout_ps = Quantity{4, "made up"};
    profile_.attention.backward_dropout_ps = Quantity{10, "made up"};
    const auto added = [&](OpKind kind, const std::vector<std::int64_t>& sizes) {
        const plan::Op plain = op_of(kind, sizes);
        plan::Op dropped = plain;
        std::visit(
            [](auto& op) {
                if constexpr (requires { op.queries + op.drop.rate; }) op.drop.rate = 0.1;
            },
            dropped.spec);
        return price(dropped).seconds - price(plain).seconds;
    };
    EXPECT_NEAR(added(OpKind::attention, {2, 1000, 1000, 10, 5, 128}), 40e-6, 1e-15);
    EXPECT_NEAR(added(OpKind::attention_backward, {2, 1000, 1000, 10, 5, 128}), 100e-6, 1e-15);
    profile_.attention.forward_dropout_ps.reset();
    EXPECT_EQ(added(OpKind::attention, {2, 1000, 1000, 10, 5, 128}), 0);
}

// Values 64 wide beside queries and keys of 128: one of forward's two products and two of
// backward's five go over as few elements; so does a half of what either reads and writes of a
// head.
TEST_F(TinyCost, PricesHeadsOfTwoWidths) {
    plan::Attention attention;
    attention.batch = 2;
    attention.queries = attention.keys = 1000;
    attention.heads = 10;
    attention.kv_heads = 5;
    attention.head_dim = 128;
    attention.value_dim = 64;
    const auto priced = [&](plan::OpSpec spec) {
        plan::Op op;
        op.spec = std::move(spec);
        return price(op);
    };
    const double rows = 0.75 * (20.48 + 5.12);
    const Price forward = priced(attention);
    EXPECT_NEAR(forward.seconds, (20 + rows + 102.4 * (128 + 64) / (2 * 128)) * 1e-6, 1e-14);
    EXPECT_GT(forward.relative_sd, 0.04);  // of a curve that was measured with others
    plan::AttentionBackward backward;
    static_cast<plan::WindowedAttention&>(backward) = attention;
    EXPECT_NEAR(priced(backward).seconds,
                5 * (20 + rows + 102.4 * (3 * 128 + 2 * 64) / (5 * 128)) * 1e-6, 1e-13);
}

// As above, but a backward that was timed by itself: 30 us, 10 ps·2.56e6, no time for keys, and the
// forward's 5.12 GFLOP at 20 TFLOP/s.
TEST(KernelCost, PricesABackwardByItsOwnCurve) {
    std::string text = tiny_profile_text();
    const std::string ratios = R"("flop_ratio": 2.5, "rate_ratio": 0.5,
                 "relative_sd": 0.2})";
    ASSERT_NE(text.find(ratios), std::string::npos);
    text.replace(text.find(ratios), ratios.size(),
                 R"("curves": {"128": {"measured": false, "t0_us": 30, "query_element_ps": 10,
                    "key_element_ps": 0, "rate_tflops": 20, "relative_sd": 0.07}}})");
    const Profile profile = parse_profile(text, "tiny.json");
    const KernelCost cost(profile);
    const auto price = [&](OpKind kind) {
        return cost.price({}, op_of(kind, {2, 1000, 1000, 10, 5, 128}));
    };
    EXPECT_NEAR(price(OpKind::attention_backward).seconds, (30 + 25.6 + 256) * 1e-6, 1e-14);
    EXPECT_EQ(price(OpKind::attention_backward).relative_sd, 0.07);
    EXPECT_NEAR(price(OpKind::attention).seconds, (20 + 20.48 + 5.12 + 102.4) * 1e-6, 1e-14);
}

// Of a zigzag: half of all pairs, on keys of one rank as on those of all; sums and their lse in
// fp32 go to and from memory besides.
TEST_F(TinyCost, PricesHalfOfABalancedBlock) {
    const double elements = 20 + 20.48 + 5.12;  // of 1000 queries and as many keys, as above
    const Price hop = price(op_of(OpKind::attention_block, {2, 1000, 1000, 10, 5, 128, 3}));
    EXPECT_NEAR(hop.seconds, (elements + 102.4) * 1e-6, 1e-14);
    EXPECT_EQ(hop.relative_sd, 0.04);
    const Price all = price(op_of(OpKind::attention_block, {2, 1000, 4000, 10, 5, 128, 0}));
    EXPECT_NEAR(all.seconds, (20 + 20.48 + 4 * 5.12 + 4 * 102.4) * 1e-6, 1e-14);
    const Price backward =
        price(op_of(OpKind::attention_block_backward, {2, 1000, 1000, 10, 5, 128, 3}));
    EXPECT_NEAR(backward.seconds, 5 * hop.seconds, 1e-13);
    plan::Block block = memory_block(OpKind::attention_block, 1);
    plan::set_sizes(block.ops[0].spec, {2, 1000, 1000, 10, 5, 128, 3});
    block.tensors[0].dtype = block.tensors[1].dtype = DType::fp32;
    block.tensors[0].dims = {10'000'000};
    block.tensors[1].dims = {10'000'000};
    // 80 MB over 0.8 TB/s
    EXPECT_NEAR(cost_.price(block, block.ops[0]).seconds, hop.seconds + 100e-6, 1e-13);
}

// 100 of 1000 keys: 1000·100 − 100²/2 pairs, by a rate that was measured without a window.
TEST_F(TinyCost, PricesWhatAWindowLeavesOfAttention) {
    const Price price_100 = price(op_of(OpKind::attention, {2, 1000, 1000, 10, 5, 128, 100}));
    EXPECT_NEAR(price_100.seconds, (20 + 20.48 + 5.12) * 1e-6 + 4 * 2 * 10 * 128 * 95e3 / 50e12,
                1e-14);
    EXPECT_EQ(price_100.relative_sd, 0.15);
}

TEST_F(TinyCost, TakesTheNearestHeadSizeAndSaysSo) {
    // 80 is nearer to 64 by ratio: 40 TFLOP/s, 10 µs
    const Price price_80 = price(op_of(OpKind::attention, {1, 1000, 1000, 10, 10, 80}));
    EXPECT_NEAR(price_80.seconds, 10e-6 + 12e-12 * 8e5 + 4.0 * 10 * 80 * 5e5 / 40e12, 1e-14);
    EXPECT_EQ(price_80.relative_sd, 0.15);
    // fp32 at a tenth of the GEMM rate, elements twice as wide
    const Price fp32 = price(op_of(OpKind::attention, {1, 1000, 1000, 10, 10, 128}, DType::fp32));
    EXPECT_NEAR(fp32.seconds, 20e-6 + 24e-12 * 1.28e6 + 4.0 * 10 * 128 * 5e5 / 5e12, 1e-14);
}

TEST_F(TinyCost, WidensOutsideTheMeasuredSequences) {
    EXPECT_EQ(price(op_of(OpKind::attention, {1, 8192, 8192, 4, 4, 128})).relative_sd, 0.04);
    EXPECT_NEAR(price(op_of(OpKind::attention, {1, 32768, 32768, 4, 4, 128})).relative_sd, 0.08,
                1e-12);
    EXPECT_NEAR(price(op_of(OpKind::attention, {1, 256, 256, 4, 4, 128})).relative_sd, 0.06, 1e-12);
}

TEST_F(TinyCost, PricesMemoryInTwoRegimes) {
    // 2·2.5e6·2 B = 10 MB in a cache of 0.8·5 TB/s
    EXPECT_NEAR(memory_price(OpKind::norm, 2'500'000).seconds, (2 + 2.5) * 1e-6, 1e-15);
    // 400 MB over 0.8 TB/s
    EXPECT_NEAR(memory_price(OpKind::norm, 100'000'000).seconds, (2 + 500) * 1e-6, 1e-14);
    // 30 MB: half way between 20 MB in cache (5 µs) and 40 MB in memory (50 µs)
    EXPECT_NEAR(memory_price(OpKind::norm, 7'500'000).seconds, (2 + 27.5) * 1e-6, 1e-14);
    EXPECT_NEAR(memory_price(OpKind::norm_backward, 100'000'000).seconds, 507e-6, 1e-14);
    EXPECT_EQ(memory_price(OpKind::norm, 0).seconds, 2e-6);
}

// 3 µs and 100 GB/s, which is slower than cache and memory; or as fast as they are.
TEST_F(TinyCost, PricesAKernelByItsOwnCurve) {
    KernelCurve& own = profile_.memory.kernels[static_cast<std::size_t>(OpKind::norm)].emplace();
    own = {"made up", 3, 100, 0.07, {}};
    EXPECT_NEAR(memory_price(OpKind::norm, 2'500'000).seconds, (3 + 100) * 1e-6, 1e-15);
    EXPECT_EQ(memory_price(OpKind::norm, 2'500'000).relative_sd, 0.07);
    EXPECT_EQ(memory_price(OpKind::rope, 2'500'000).seconds, (2 + 2.5) * 1e-6);
    own.GBps = 1e5;
    EXPECT_NEAR(memory_price(OpKind::norm, 100'000'000).seconds, (3 + 500) * 1e-6, 1e-14);
    own.GBps = 0;
    EXPECT_NEAR(memory_price(OpKind::norm, 2'500'000).seconds, (3 + 2.5) * 1e-6, 1e-15);
}

// An addition of bf16 rows and the norm of the sum, RMSNorm without a bias; or both in one.
plan::Block summed_and_normed(std::int64_t rows, bool at_once) {
    constexpr std::int64_t kWidth = 1000;
    plan::Block block;
    const auto tensor = [&](DType dtype, std::vector<std::int64_t> dims) {
        block.tensors.push_back({"", plan::Role::scratch, dtype, std::move(dims)});
        return static_cast<plan::TensorId>(block.tensors.size() - 1);
    };
    const auto of_rows = [&] { return tensor(DType::bf16, {rows, kWidth}); };
    const plan::TensorId branch = of_rows(), residual = of_rows(), sum = of_rows(), y = of_rows(),
                         weight = tensor(DType::bf16, {kWidth}),
                         stats = tensor(DType::fp32, {rows, 1});
    const auto add = [&](plan::OpSpec spec, std::vector<plan::TensorId> reads,
                         std::vector<plan::TensorId> writes) {
        plan::Op op;
        op.spec = std::move(spec);
        op.reads = std::move(reads);
        op.writes = std::move(writes);
        block.ops.push_back(std::move(op));
    };
    if (at_once) {
        add(plan::ResidualNormalize{rows, kWidth, {}, false}, {branch, residual, weight},
            {sum, y, stats});
    } else {
        add(plan::ResidualAdd{rows, kWidth}, {branch, residual}, {sum});
        add(plan::Normalize{rows, kWidth, false}, {sum, weight}, {y, stats});
    }
    return block;
}

class PriceOfSums : public TinyCost {
  protected:
    double seconds(std::int64_t rows, bool at_once) const {
        const plan::Block block = summed_and_normed(rows, at_once);
        double sum = 0;
        for (const plan::Op& op : block.ops)
            sum += cost_.price(block, op).seconds;
        return sum;
    }
};

// 1000 rows are 2 MB: 8 MB of them, a weight of 2 kB and statistics of 4 kB in a cache of 4 TB/s;
// 100,000 over 0.8 TB/s.
TEST_F(PriceOfSums, AreThatOfTheirBytesWhereAllFitTheCacheAndWhereNoneDo) {
    EXPECT_NEAR(seconds(1000, true), 2e-6 + (8e6 + 6e3) / 4e12, 1e-15);
    EXPECT_NEAR(seconds(100'000, true), 2e-6 + (8e8 + 4e5 + 2e3) / 0.8e12, 1e-13);
}

// 4000 rows: 24 and 16 MB of the two are in the cache or half way there, where 32 MB are not.
TEST_F(PriceOfSums, AreLessThanThoseOfTwoKernelsWhateverFitsTheCache) {
    for (std::int64_t rows = 1; rows < 40'000; rows += rows / 8 + 1) {
        const plan::Block block = summed_and_normed(rows, false);
        const double norm = cost_.price(block, block.ops[1]).seconds;
        const double saved = seconds(rows, false) - seconds(rows, true);
        EXPECT_GT(saved, 2e-6) << rows;
        EXPECT_LT(saved, 2e-6 + (norm - 2e-6) / 2) << rows;
    }
}

// Curves of the two kernels, or one of its own.
TEST_F(PriceOfSums, FollowTheCurvesThatAProfileHas) {
    auto& kernels = profile_.memory.kernels;
    const auto curve = [&](OpKind kind) -> std::optional<KernelCurve>& {
        return kernels[static_cast<std::size_t>(kind)];
    };
    curve(OpKind::residual_add) = {"made up", 4, 200, 0.06, {}};
    curve(OpKind::norm) = {"made up", 3, 100, 0.07, {}};
    const plan::Block block = summed_and_normed(1000, true);
    // 6 MB, weight and statistics at 200 GB/s; the norm's result of 2 MB at 100.
    EXPECT_NEAR(cost_.price(block, block.ops[0]).seconds, 4e-6 + (6e6 + 6e3) / 200e9 + 2e6 / 100e9,
                1e-14);
    EXPECT_EQ(cost_.price(block, block.ops[0]).relative_sd, 0.07);
    curve(OpKind::residual_norm) = {"made up", 5, 400, 0.08, {}};
    EXPECT_NEAR(seconds(1000, true), 5e-6 + (8e6 + 6e3) / 400e9, 1e-14);
    EXPECT_EQ(cost_.price(block, block.ops[0]).relative_sd, 0.08);
}

TEST_F(TinyCost, ALookupMovesItsRowsAndNotTheTable) {
    plan::Block block;
    const std::vector<std::pair<DType, std::vector<std::int64_t>>> tensors = {
        {DType::i32, {4096}}, {DType::bf16, {128000, 8192}}, {DType::bf16, {4096, 8192}}};
    for (const auto& [dtype, dims] : tensors) {
        plan::Tensor tensor;
        tensor.dtype = dtype;
        tensor.dims = dims;
        block.tensors.push_back(tensor);
    }
    block.tensors[1].role = plan::Role::parameter;
    plan::Op op = op_of(OpKind::embedding, {4096, 8192});
    op.reads = {0, 1};
    op.writes = {2};
    const double bytes = 4096 * 4 + 2.0 * 4096 * 8192 * 2;
    EXPECT_NEAR(cost_.price(block, op).seconds, 2e-6 + bytes / 0.8e12, 1e-14);
}

TEST_F(TinyCost, PricesEveryKindThatIsNoCommunication) {
    for (std::size_t k = 0; k < plan::kOpKinds; ++k) {
        const auto kind = static_cast<OpKind>(k);
        plan::Block block = memory_block(kind, 4096);
        plan::Op& op = block.ops[0];
        plan::set_sizes(op.spec, {64, 64, 64, 4, 4, 64});
        op.writes.push_back(1);  // some make two tensors
        if (plan::is_communication(kind) || plan::is_copy(kind)) {
            EXPECT_DEATH(cost_.price(block, op), "no kernel");
            continue;
        }
        const Price price = cost_.price(block, op);
        EXPECT_GT(price.seconds, 0) << plan::name(kind);
        EXPECT_LT(price.seconds, 1e-3) << plan::name(kind);
        EXPECT_GT(price.relative_sd, 0) << plan::name(kind);
    }
}

TEST_F(TinyCost, SaysWhichCurveIsMissing) {
    profile_.gemm[static_cast<std::size_t>(DType::fp32)].reset();
    try {
        price(op_of(OpKind::gemm, {8, 8, 8}, DType::fp32));
        FAIL();
    } catch (const ProfileError& error) {
        EXPECT_STREQ(error.what(), "tiny.json: /gemm/fp32: missing, and the plan computes in fp32");
    }
}

// More work is never cheaper: any dimension of any kind, strictly without neighbours.
// In steps of 8: a row that comes to be of whole 16 bytes is cheaper.
RC_GTEST_FIXTURE_PROP(TinyCost, NeverFallsInAnyDimension, ()) {
    const OpKind kind = *rc::gen::element(OpKind::gemm, OpKind::batched_gemm,
                                          OpKind::activated_gemm, OpKind::attention);
    Sizes shape(7);
    for (auto& value : shape)
        value = 8 * *rc::gen::inRange<std::int64_t>(1, 2500);
    const auto field = *rc::gen::inRange<std::size_t>(0, 7);
    shape[5] = 128;  // head sizes have curves of their own
    Sizes larger = shape;
    if (field != 5) larger[field] += 8 * *rc::gen::inRange<std::int64_t>(1, 2500);
    RC_ASSERT(price(op_of(kind, larger)).seconds >= price(op_of(kind, shape)).seconds);
}

RC_GTEST_FIXTURE_PROP(TinyCost, NeverFallsInBytes, ()) {
    const auto elements = *rc::gen::inRange<std::int64_t>(1, 30'000'000);
    const auto more = *rc::gen::inRange<std::int64_t>(0, 30'000'000);
    RC_ASSERT(memory_price(OpKind::cast, elements + more).seconds >=
              memory_price(OpKind::cast, elements).seconds);
}

// With neighbours: twice a dimension is never cheaper (the ratio moves slower than the work).
RC_GTEST_PROP(ShippedCost, TwiceADimensionIsNeverCheaper, ()) {
    static const Profile profile =
        load_profile(std::string(ORRERY_SOURCE_DIR) + "/scenarios/profiles/a100-80gb-sxm.json");
    const KernelCost cost(profile);
    Sizes shape(3);
    for (std::size_t i = 0; i < 3; ++i)
        shape[i] = std::int64_t{1} << *rc::gen::inRange(7, 17);
    const auto field = *rc::gen::inRange<std::size_t>(0, 3);
    for (std::size_t i = 0; i < 3; ++i)
        shape[i] += *rc::gen::inRange<std::int64_t>(0, shape[i]);
    Sizes doubled = shape;
    doubled[field] *= 2;
    const plan::Block block;
    RC_ASSERT(cost.price(block, op_of(OpKind::gemm, doubled)).seconds >
              cost.price(block, op_of(OpKind::gemm, shape)).seconds);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
