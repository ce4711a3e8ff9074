// Which products take a function or its slope along: those whose result it is of, and whose
// gradient nobody else asks for. What waits for one of the two waits for the op that does both.
#include <gtest/gtest.h>

#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kRows = 4, kWidth = 8, kInner = 32;
constexpr ActivationFunction kGelu = ActivationFunction::gelu_tanh;

struct Built {
    Block block;

    TensorId tensor(const char* name, Role role, std::int64_t rows, std::int64_t width) {
        block.tensors.push_back({name, role, DType::bf16, {rows, width}});
        return static_cast<TensorId>(block.tensors.size() - 1);
    }
    Op& op(OpSpec spec, std::vector<TensorId> reads, std::vector<TensorId> writes) {
        Op op;
        op.spec = std::move(spec);
        op.reads = std::move(reads);
        op.writes = std::move(writes);
        block.ops.push_back(std::move(op));
        return block.ops.back();
    }

    // Of forward, then of backward.
    TensorId x = tensor("x", Role::scratch, kRows, kWidth);
    TensorId weight = tensor("fc1.weight", Role::parameter, kInner, kWidth);
    TensorId bias = tensor("fc1.bias", Role::parameter, 1, kInner);
    TensorId product = tensor("fc1", Role::stash, kRows, kInner);
    TensorId result = tensor("activated", Role::stash, kRows, kInner);
    TensorId dy = tensor("dy", Role::scratch, kRows, kWidth);
    TensorId second = tensor("fc2.weight", Role::parameter, kWidth, kInner);
    TensorId dresult = tensor("dactivated", Role::scratch, kRows, kInner);
    TensorId dproduct = tensor("dfc1", Role::scratch, kRows, kInner);
    TensorId copy = tensor("copy", Role::scratch, kRows, kInner);

    Op& multiply() { return op(Gemm{kRows, kInner, kWidth}, {x, weight, bias}, {product}); }
    Op& activate() { return op(Activate{kRows, kInner, kGelu}, {product}, {result}); }
    Op& multiply_back() {
        return op(Gemm{kRows, kInner, kWidth, GemmProduct::input_gradient}, {dy, second},
                  {dresult});
    }
    Op& slope() {
        return op(ActivateBackward{kRows, kInner, kGelu}, {dresult, product}, {dproduct});
    }
    const std::string& name(TensorId id) const {
        return block.tensors[static_cast<std::size_t>(id)].name;
    }
    std::vector<std::string> names(const std::vector<TensorId>& ids) const {
        std::vector<std::string> out;
        for (const TensorId id : ids)
            out.push_back(name(id));
        return out;
    }
};

using Names = std::vector<std::string>;

TEST(Epilogues, KeepTheProductThatASlopeIsToldBy) {
    Built built;
    built.multiply().label = "fc1";
    built.activate();
    fuse_epilogues(built.block);
    ASSERT_EQ(built.block.ops.size(), 1u);
    const Op& op = built.block.ops[0];
    EXPECT_EQ(op.spec,
              (OpSpec{ActivatedGemm{kRows, kInner, kWidth, GemmProduct::forward, 1, kGelu}}));
    EXPECT_EQ(built.names(op.reads), (Names{"x", "fc1.weight", "fc1.bias"}));
    EXPECT_EQ(built.names(op.writes), (Names{"activated", "fc1"}));
    EXPECT_EQ(op.label, "fc1");
}

TEST(Epilogues, LeaveOutAProductThatNobodyElseReads) {
    Built built;
    built.block.tensors[static_cast<std::size_t>(built.product)].role = Role::scratch;
    built.multiply();
    built.activate();
    const std::size_t tensors = built.block.tensors.size();
    fuse_epilogues(built.block);
    ASSERT_EQ(built.block.ops.size(), 1u);
    EXPECT_EQ(built.names(built.block.ops[0].writes), Names{"activated"});
    EXPECT_EQ(built.block.tensors.size(), tensors - 1);
    for (const Tensor& tensor : built.block.tensors)
        EXPECT_NE(tensor.name, "fc1");
}

TEST(Epilogues, OthersMayStandBetweenAndCopyTheProduct) {
    Built built;
    built.block.tensors[static_cast<std::size_t>(built.product)].role = Role::scratch;
    built.multiply();
    built.op(Cast{kRows * kInner}, {built.product}, {built.copy});
    built.op(Cast{kRows * kWidth}, {built.x}, {built.dy}).after = {0};
    built.activate();
    built.op(Cast{kRows * kInner}, {built.result}, {built.dproduct}).after = {1, 3};
    fuse_epilogues(built.block);
    ASSERT_EQ(built.block.ops.size(), 4u);
    EXPECT_EQ(built.names(built.block.ops[0].writes), (Names{"activated", "fc1"}));
    EXPECT_EQ(built.block.ops[2].after, std::vector<std::int32_t>{0});
    EXPECT_EQ(built.block.ops[3].after, (std::vector<std::int32_t>{1, 0}));
}

TEST(Epilogues, MultiplyAGradientWithTheSlope) {
    Built built;
    built.multiply_back().label = "fc2 dgrad";
    built.op(Gemm{kWidth, kInner, kRows, GemmProduct::weight_gradient}, {built.dy, built.result},
             {built.copy});
    built.slope();
    fuse_epilogues(built.block);
    ASSERT_EQ(built.block.ops.size(), 2u);
    const Op& op = built.block.ops[0];
    EXPECT_EQ(
        op.spec,
        (OpSpec{ActivatedGemm{kRows, kInner, kWidth, GemmProduct::input_gradient, 1, kGelu}}));
    EXPECT_EQ(built.names(op.reads), (Names{"dy", "fc2.weight", "fc1"}));
    EXPECT_EQ(built.names(op.writes), Names{"dfc1"});
    for (const Tensor& tensor : built.block.tensors)
        EXPECT_NE(tensor.name, "dactivated");
}

TEST(Epilogues, AreNotOfWhatSomebodyElseMakesOrReads) {
    const auto stays = [](const char* why, auto build) {
        Built built;
        build(built);
        const Block before = built.block;
        fuse_epilogues(built.block);
        EXPECT_EQ(built.block, before) << why;
    };
    stays("a function that no product takes along", [](Built& b) {
        b.multiply();
        b.activate().as<Activate>().function = ActivationFunction::gelu_erf;
    });
    stays("gate and up", [](Built& b) {
        b.multiply();
        b.op(Activate{kRows, kInner / 2, kGelu}, {b.product}, {b.result});
    });
    stays("another op that reads the product first", [](Built& b) {
        b.multiply();
        b.op(Add{kRows, kInner}, {b.product, b.copy}, {b.dproduct});
        b.activate();
    });
    stays("forward and what is made again", [](Built& b) {
        b.multiply();
        b.activate().phase = Phase::recompute;
    });
    stays("a part of the tokens", [](Built& b) {
        b.multiply().parts = 2;
        b.activate();
    });
    stays("eight bits", [](Built& b) {
        b.block.tensors[static_cast<std::size_t>(b.x)].dtype = DType::fp8_e4m3;
        b.multiply();
        b.activate();
    });
    stays("a product that is added to", [](Built& b) {
        b.multiply_back().reads.push_back(b.dresult);
        b.slope();
    });
    stays("a gradient with another part", [](Built& b) {
        b.multiply_back();
        b.op(Add{kRows, kInner}, {b.dresult, b.copy}, {b.dresult});
        b.slope();
    });
    stays("a gradient that is read again", [](Built& b) {
        b.multiply_back();
        b.slope();
        b.op(BiasGradient{kRows, kInner}, {b.dresult}, {b.bias});
    });
    stays("a slope that is told by what is made between", [](Built& b) {
        b.multiply_back();
        b.op(Cast{kRows * kInner}, {b.copy}, {b.product});
        b.slope();
    });
    stays("a gradient that is handed on", [](Built& b) {
        b.multiply_back();
        b.slope();
        b.block.output = b.dresult;
    });
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
