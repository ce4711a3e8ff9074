// Ops whose tensors are not what their fields say.
#include "plan/checks/operand_faults.hpp"

#include <gtest/gtest.h>

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

// y[4,6] = x[4,8]·w[6,8]ᵀ + bias[6], and what weight and bias gain.
struct World {
    Block block;
    TensorId x, w, bias, y, dw;

    World() {
        block.name = "world";
        x = tensor("x", {4, 8}, Role::input);
        w = tensor("w", {6, 8}, Role::parameter);
        bias = tensor("bias", {6}, Role::parameter);
        y = tensor("y", {4, 6}, Role::output);
        dw = tensor("dw", {6, 8}, Role::gradient);
    }
    TensorId tensor(std::string name, std::vector<std::int64_t> dims, Role role) {
        block.tensors.push_back({std::move(name), role, DType::fp32, std::move(dims)});
        return static_cast<TensorId>(block.tensors.size() - 1);
    }
    std::vector<std::string> faults(OpSpec spec, std::vector<TensorId> reads,
                                    std::vector<TensorId> writes) const {
        Op op;
        op.spec = std::move(spec);
        op.label = "a label";
        op.reads = std::move(reads);
        op.writes = std::move(writes);
        return operand_faults(block, op);
    }
    std::string fault(OpSpec spec, std::vector<TensorId> reads,
                      std::vector<TensorId> writes) const {
        const auto all = faults(std::move(spec), std::move(reads), std::move(writes));
        return all.size() == 1 ? all.front() : std::to_string(all.size()) + " faults";
    }
};

TEST(OperandFaults, NoneWhereTensorsAreWhatFieldsSay) {
    const World world;
    const auto none = std::vector<std::string>{};
    EXPECT_EQ(world.faults(Gemm{4, 6, 8}, {world.x, world.w}, {world.y}), none);
    EXPECT_EQ(world.faults(Gemm{4, 6, 8}, {world.x, world.w, world.bias}, {world.y}), none);
    // A sum goes on: it is read and written.
    const Gemm gradient{6, 8, 4, GemmProduct::weight_gradient};
    EXPECT_EQ(world.faults(gradient, {world.y, world.x, world.dw}, {world.dw}), none);
    EXPECT_EQ(world.faults(gradient, {world.y, world.x}, {world.dw}), none);
}

TEST(OperandFaults, SizesThatReachBeyondATensor) {
    const World world;
    EXPECT_EQ(world.fault(Gemm{5, 6, 8}, {world.x, world.w}, {world.y}), "2 faults");
    EXPECT_EQ(world.fault(Gemm{4, 7, 8}, {world.x, world.w}, {world.y}), "2 faults");
    EXPECT_EQ(world.fault(BiasGradient{4, 6}, {world.y}, {world.bias}), "0 faults");
    EXPECT_EQ(world.fault(BiasGradient{5, 6}, {world.y}, {world.bias}),
              "bias_gradient \"a label\" reads y of 24 elements as doutput, which has 30");
}

TEST(OperandFaults, RowsOfAnotherWidth) {
    const World world;
    // As many elements, in rows that are not those of the product.
    EXPECT_EQ(world.fault(Gemm{8, 3, 4}, {world.x, world.w}, {world.y}), "2 faults");
    EXPECT_EQ(world.fault(Normalize{4, 6, false}, {world.x, world.bias}, {world.y, world.bias}),
              "norm \"a label\" reads x in rows of 8 as input, which has rows of 6");
}

TEST(OperandFaults, TooFewAndTooMany) {
    const World world;
    EXPECT_EQ(world.fault(Gemm{4, 6, 8}, {world.x}, {world.y}), "gemm \"a label\" reads no weight");
    EXPECT_EQ(world.fault(Gemm{4, 6, 8}, {world.x, world.w}, {}),
              "gemm \"a label\" writes no result");
    // Two operands may be scales of eight bits, but no more.
    EXPECT_EQ(
        world.fault(Gemm{4, 6, 8},
                    {world.x, world.w, world.bias, world.bias, world.bias, world.bias}, {world.y}),
        "gemm \"a label\" reads bias, which it has no operand for");
    EXPECT_EQ(world.fault(Add{4, 6}, {world.y, world.y}, {world.y, world.x}),
              "add \"a label\" writes x, which it has no operand for");
}

// Whoever takes the memory over waits for who read it; to no other op is it so.
TEST(OperandFaults, WhatLeavesTheDeviceGivesItsMemoryUp) {
    const World world;
    EXPECT_EQ(world.fault(CopyToHost{6}, {world.x}, {world.y, world.x}), "0 faults");
    EXPECT_EQ(world.fault(CopyToDevice{6}, {world.x}, {world.y, world.x}),
              "copy_to_device \"a label\" writes x, which it has no operand for");
}

// What one field says another operand is there for.
TEST(OperandFaults, FieldsAskForOperands) {
    const World world;
    EXPECT_EQ(world.fault(Normalize{4, 8, true}, {world.x, world.dw}, {world.dw, world.x}),
              "norm \"a label\" reads no bias");
    AdamW adamw{6};
    adamw.clip_norm = 1;
    const auto step = [&](const AdamW& op) {
        return world.fault(op, {world.bias, world.dw, world.y}, {world.dw, world.y});
    };
    EXPECT_EQ(step(AdamW{6}), "0 faults");
    EXPECT_EQ(step(adamw), "adamw \"a label\" reads no norm");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
