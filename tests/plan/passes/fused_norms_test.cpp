// Which additions and norms become one op: those between which nothing stands but copies of the
// sum. What waits for one of the two waits for the op that does both.
#include <gtest/gtest.h>

#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kRows = 4, kWidth = 8;

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

    TensorId branch = rows("branch"), residual = rows("residual"), sum = rows("sum"),
             normed = rows("normed"), copy = rows("copy");
    TensorId weight = tensor("weight", Role::parameter, {kWidth}),
             bias = tensor("bias", Role::parameter, {kWidth}),
             positions = tensor("positions", Role::parameter, {kRows, kWidth}),
             stats = tensor("stats", Role::scratch, {kRows, 1});

    Op& add() { return op(ResidualAdd{kRows, kWidth}, {branch, residual, bias}, {sum}); }
    Op& norm(TensorId of) {
        return op(Normalize{kRows, kWidth, false, 1e-6}, {of, weight}, {normed, stats});
    }
};

TEST(FusedNorms, HaveTheOperandsOfBoth) {
    Built built;
    built.add();
    built.norm(built.sum).label = "norm2";
    fuse_norms(built.block);
    ASSERT_EQ(built.block.ops.size(), 1u);
    const Op& op = built.block.ops[0];
    EXPECT_EQ(op.spec, (OpSpec{ResidualNormalize{kRows, kWidth, {}, false, 1e-6}}));
    EXPECT_EQ(op.reads, (std::vector{built.branch, built.residual, built.weight, built.bias}));
    EXPECT_EQ(op.writes, (std::vector{built.sum, built.normed, built.stats}));
    EXPECT_EQ(op.label, "norm2");
}

TEST(FusedNorms, CopiesOfTheSumMayStandBetween) {
    Built built;
    built.op(Cast{kRows * kWidth}, {built.residual}, {built.copy});
    built.add();
    built.op(Cast{kRows * kWidth}, {built.sum}, {built.copy}).after = {1};
    built.norm(built.sum);
    built.op(Cast{kRows * kWidth}, {built.copy}, {built.branch}).after = {0, 2, 3};
    fuse_norms(built.block);
    ASSERT_EQ(built.block.ops.size(), 4u);
    EXPECT_TRUE(built.block.ops[1].is<ResidualNormalize>());
    EXPECT_EQ(built.block.ops[2].after, std::vector<std::int32_t>{1});
    EXPECT_EQ(built.block.ops[3].after, (std::vector<std::int32_t>{0, 2, 1}));
}

TEST(FusedNorms, NothingElseMay) {
    const auto stays = [](const char* why, auto build) {
        Built built;
        build(built);
        const Block before = built.block;
        fuse_norms(built.block);
        EXPECT_EQ(built.block, before) << why;
    };
    stays("another op between", [](Built& b) {
        b.add();
        b.op(Add{kRows, kWidth}, {b.residual, b.branch}, {b.copy});
        b.norm(b.sum);
    });
    stays("a copy of something else between", [](Built& b) {
        b.add();
        b.op(Cast{kRows * kWidth}, {b.residual}, {b.copy});
        b.norm(b.sum);
    });
    stays("the norm of something else", [](Built& b) {
        b.add();
        b.norm(b.residual);
    });
    stays("forward and what is made again", [](Built& b) {
        b.add();
        b.norm(b.sum).phase = Phase::recompute;
    });
    stays("rows of another width", [](Built& b) {
        b.add();
        b.norm(b.sum).as<Normalize>() = {2 * kRows, kWidth / 2, false};
    });
    stays("a table of positions in the residual's place", [](Built& b) {
        b.op(ResidualAdd{kRows, kWidth}, {b.branch, b.positions}, {b.sum});
        b.norm(b.sum);
    });
    stays("the end of the block", [](Built& b) { b.add(); });
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
