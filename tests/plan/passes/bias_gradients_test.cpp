// Which weight gradients take a bias's along: those that read the rows it is the sum of, whole and
// as they are. What waited for either waits for the op that makes both.
#include <gtest/gtest.h>

#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kRows = 4, kWidth = 8, kInner = 32;

struct Built {
    Block block;

    TensorId tensor(const char* name, Role role, std::int64_t rows, std::int64_t width,
                    DType dtype = DType::bf16) {
        block.tensors.push_back({name, role, dtype, {rows, width}});
        return static_cast<TensorId>(block.tensors.size() - 1);
    }
    Op& op(OpSpec spec, std::vector<TensorId> reads, std::vector<TensorId> writes) {
        Op op;
        op.spec = std::move(spec);
        op.phase = Phase::backward;
        op.reads = std::move(reads);
        op.writes = std::move(writes);
        block.ops.push_back(std::move(op));
        return block.ops.back();
    }

    TensorId x = tensor("x", Role::stash, kRows, kWidth);
    TensorId dy = tensor("dy", Role::scratch, kRows, kInner);
    TensorId other = tensor("other", Role::scratch, kRows, kInner);
    TensorId dweight = tensor("weight", Role::gradient, kInner, kWidth, DType::fp32);
    TensorId dbias = tensor("bias", Role::gradient, 1, kInner, DType::fp32);

    Op& multiply() {
        return op(Gemm{kInner, kWidth, kRows, GemmProduct::weight_gradient}, {dy, x, dweight},
                  {dweight});
    }
    Op& sum() { return op(BiasGradient{kRows, kInner}, {dy, dbias}, {dbias}); }
    Op& between() { return op(Cast{kRows * kInner}, {dy}, {other}); }
};

void expect_both_at(const Built& built, std::size_t at) {
    const Op& op = built.block.ops.at(at);
    EXPECT_EQ(op.spec, (OpSpec{BiasGradientGemm{kInner, kWidth, kRows}}));
    EXPECT_EQ(op.reads, (std::vector<TensorId>{built.dy, built.x, built.dweight, built.dbias}));
    EXPECT_EQ(op.writes, (std::vector<TensorId>{built.dweight, built.dbias}));
    EXPECT_EQ(op.label, "fc1 wgrad");
}

TEST(BiasGradients, AreMadeWithTheWeightsBeforeThem) {
    Built built;
    built.multiply().label = "fc1 wgrad";
    built.between().after = {0};
    built.sum();
    built.between().after = {1, 2};
    fuse_bias_gradients(built.block);
    ASSERT_EQ(built.block.ops.size(), 3u);
    expect_both_at(built, 0);
    EXPECT_EQ(built.block.ops[1].after, std::vector<std::int32_t>{0});
    EXPECT_EQ(built.block.ops[2].after, (std::vector<std::int32_t>{1, 0}));
}

TEST(BiasGradients, AreMadeWithTheWeightsBehindThem) {
    Built built;
    built.sum();
    built.between();
    built.multiply().label = "fc1 wgrad";
    built.between().after = {0, 1, 2};
    fuse_bias_gradients(built.block);
    ASSERT_EQ(built.block.ops.size(), 3u);
    expect_both_at(built, 1);
    EXPECT_EQ(built.block.ops[2].after, (std::vector<std::int32_t>{1, 0, 1}));
}

// Two branches of one sum: each product has one.
TEST(BiasGradients, AreOnesOfEachProduct) {
    Built built;
    built.sum();
    const TensorId second = built.tensor("second bias", Role::gradient, 1, kInner, DType::fp32);
    built.op(BiasGradient{kRows, kInner}, {built.dy, second}, {second});
    built.multiply();
    built.multiply();
    fuse_bias_gradients(built.block);
    ASSERT_EQ(built.block.ops.size(), 2u);
    EXPECT_EQ(built.block.ops[0].writes.back(), built.dbias);
    EXPECT_EQ(built.block.ops[1].writes.back(), second);
}

TEST(BiasGradients, StayWhereTheProductIsOfOtherRowsOrAnotherKind) {
    const auto stays = [](const char* why, auto build) {
        Built built;
        build(built);
        const Block before = built.block;
        fuse_bias_gradients(built.block);
        EXPECT_EQ(built.block, before) << why;
    };
    stays("rows of another tensor", [](Built& b) {
        b.multiply();
        b.sum().reads[0] = b.other;
    });
    stays("rows that are changed between", [](Built& b) {
        b.multiply();
        b.op(Cast{kRows * kInner}, {b.other}, {b.dy});
        b.sum();
    });
    stays("sums that another op reads before the product", [](Built& b) {
        b.sum();
        b.op(Cast{kInner}, {b.dbias}, {b.other});
        b.multiply();
    });
    stays("an op between that waits for the sums", [](Built& b) {
        b.sum();
        b.between().after = {0};
        b.multiply();
    });
    stays("a product with a factor", [](Built& b) {
        b.multiply().as<Gemm>().factor = 0.5;
        b.sum();
    });
    stays("a part of the tokens", [](Built& b) {
        b.multiply().parts = 2;
        b.sum();
    });
    stays("eight bits", [](Built& b) {
        b.block.tensors[static_cast<std::size_t>(b.dy)].dtype = DType::fp8_e5m2;
        b.multiply();
        b.sum();
    });
    stays("another type than the weight's", [](Built& b) {
        b.block.tensors[static_cast<std::size_t>(b.dbias)].dtype = DType::bf16;
        b.multiply();
        b.sum();
    });
    stays("an input's gradient", [](Built& b) {
        b.op(Gemm{kRows, kWidth, kInner, GemmProduct::input_gradient}, {b.dy, b.dweight}, {b.x});
        b.sum();
    });
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
