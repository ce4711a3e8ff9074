// Which products and residual additions become one op: those between which nothing comes, of a
// result that nobody else asks for.
#include <gtest/gtest.h>

#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kRows = 4, kWidth = 8, kInner = 16;

struct Built {
    Block block;

    TensorId tensor(const char* name, Role role, std::vector<std::int64_t> dims) {
        block.tensors.push_back({name, role, DType::bf16, std::move(dims)});
        return static_cast<TensorId>(block.tensors.size() - 1);
    }
    TensorId rows(const char* name) { return tensor(name, Role::scratch, {kRows, kWidth}); }
    Op& op(OpSpec spec, std::vector<TensorId> reads, std::vector<TensorId> writes) {
        Op op;
        op.spec = std::move(spec);
        op.reads = std::move(reads);
        op.writes = std::move(writes);
        block.ops.push_back(std::move(op));
        return block.ops.back();
    }

    TensorId residual = rows("residual"), sum = rows("sum"), copy = rows("copy");
    TensorId input = tensor("input", Role::scratch, {kRows, kInner}),
             weight = tensor("weight", Role::parameter, {kWidth, kInner}),
             bias = tensor("bias", Role::parameter, {kWidth}),
             other_bias = tensor("other bias", Role::parameter, {kWidth}),
             positions = tensor("positions", Role::parameter, {kRows, kWidth}),
             branch = rows("branch");

    Op& product() { return op(Gemm{kRows, kWidth, kInner}, {input, weight}, {branch}); }
    Op& add() { return op(ResidualAdd{kRows, kWidth}, {branch, residual, bias}, {sum}); }
};

TEST(ResidualProducts, HaveTheOperandsOfBoth) {
    Built built;
    built.product().as<Gemm>().factor = 0.5;
    built.block.ops[0].label = "fc2";
    built.add();
    built.op(Cast{kRows * kWidth}, {built.sum}, {built.copy}).after = {0, 1};
    fuse_residuals(built.block);
    ASSERT_EQ(built.block.ops.size(), 2U);
    const Op& op = built.block.ops[0];
    EXPECT_EQ(op.spec, (OpSpec{ResidualGemm{kRows, kWidth, kInner, 0.5}}));
    EXPECT_EQ(op.reads, (std::vector{built.input, built.weight, built.residual, built.bias}));
    EXPECT_EQ(op.writes, std::vector{built.sum});
    EXPECT_EQ(op.label, "fc2");
    EXPECT_EQ(built.block.ops[1].after, (std::vector<std::int32_t>{0, 0}));
    // The branch, which was the last tensor, is no more.
    EXPECT_EQ(built.block.tensors.back().name, "positions");
}

TEST(ResidualProducts, MayHaveABiasOfTheirOwn) {
    Built built;
    built.product().reads.push_back(built.bias);
    built.op(ResidualAdd{kRows, kWidth}, {built.branch, built.residual}, {built.sum});
    fuse_residuals(built.block);
    ASSERT_EQ(built.block.ops.size(), 1U);
    EXPECT_EQ(built.block.ops[0].reads,
              (std::vector{built.input, built.weight, built.residual, built.bias}));
}

TEST(ResidualProducts, NothingMayComeBetween) {
    const auto stays = [](const char* why, auto build) {
        Built built;
        build(built);
        const Block before = built.block;
        fuse_residuals(built.block);
        EXPECT_EQ(built.block, before) << why;
    };
    stays("a sum over ranks", [](Built& b) {
        b.product();
        b.op(AllReduce{kRows * kWidth}, {b.branch}, {b.branch});
        b.add();
    });
    stays("somebody else reads the branch", [](Built& b) {
        b.product();
        b.add();
        b.op(Cast{kRows * kWidth}, {b.branch}, {b.copy});
    });
    stays("the branch is kept", [](Built& b) {
        b.product();
        b.add();
        b.block.tensors[static_cast<std::size_t>(b.branch)].role = Role::stash;
    });
    stays("dropout", [](Built& b) {
        b.product();
        b.add().as<ResidualAdd>().drop.rate = 0.1;
    });
    stays("two biases", [](Built& b) {
        b.product();
        b.add().reads.push_back(b.other_bias);
    });
    stays("a bias of either", [](Built& b) {
        b.product().reads.push_back(b.other_bias);
        b.add();
    });
    stays("a residual of another type", [](Built& b) {
        b.product();
        b.add();
        b.block.tensors[static_cast<std::size_t>(b.residual)].dtype = DType::fp32;
    });
    stays("a residual that is not there yet", [](Built& b) {
        b.product();
        b.op(Cast{kRows * kWidth}, {b.copy}, {b.residual});
        b.add();
    });
    stays("the sum's memory is in use", [](Built& b) {
        b.product();
        b.op(Cast{kRows * kWidth}, {b.sum}, {b.copy});
        b.add();
    });
    stays("a table of positions in the residual's place", [](Built& b) {
        b.product();
        b.op(ResidualAdd{kRows, kWidth}, {b.branch, b.positions}, {b.sum});
    });
    stays("forward and what is made again", [](Built& b) {
        b.product();
        b.add().phase = Phase::recompute;
    });
    stays("a part of the rows", [](Built& b) {
        b.product().parts = 2;
        b.add();
    });
    stays("the gradient of an input", [](Built& b) {
        b.product().as<Gemm>().product = GemmProduct::input_gradient;
        b.add();
    });
    stays("the branch is the residual", [](Built& b) {
        b.product();
        b.op(ResidualAdd{kRows, kWidth}, {b.residual, b.branch}, {b.sum});
    });
    stays("twice the branch", [](Built& b) {
        b.product();
        b.op(ResidualAdd{kRows, kWidth}, {b.branch, b.branch}, {b.sum});
    });
    stays("products of eight bits", [](Built& b) {
        b.product();
        b.add();
        b.block.tensors[static_cast<std::size_t>(b.input)].dtype = DType::fp8_e4m3;
    });
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
