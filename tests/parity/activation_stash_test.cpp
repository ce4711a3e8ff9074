// Activations that wait for backward in fewer bits: what is trained is what backward passes over
// rounded activations give, in every layout alike, and something is learned.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "plan/memory/arena.hpp"
#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::DType;
using plan::Op;
using plan::Role;
using plan::Tensor;
using plan::TensorId;

Trained train_sets(Sets sets, const RunOptions& options, const std::string& precision) {
    sets.push_back("training.precision=" + precision);
    return train(scenario(kGpt, sets), options);
}

RunOptions of_steps(std::int64_t steps) {
    RunOptions options;
    options.steps = steps;
    return options;
}

// Of a whole stash: what a kernel computes of activations, by name.
bool is_activation(const Tensor& tensor, DType dtype) {
    const auto ends = [&](const char* end) { return tensor.name.ends_with(end); };
    return tensor.role == Role::stash && tensor.dtype == dtype && !ends("_stats") && !ends("lse");
}

// The oracle: forward of a layer ends with rounding, in place, all that it keeps; backward is that
// of a plan that compresses nothing.
void round_in_place(Block& block, DType packed) {
    const auto tensors = static_cast<TensorId>(block.tensors.size());
    for (TensorId id = 0; id < tensors; ++id) {
        const Tensor tensor = block.tensors[static_cast<std::size_t>(id)];
        if (!is_activation(tensor, DType::fp32)) continue;
        const auto first = static_cast<TensorId>(block.tensors.size());
        block.tensors.push_back({"rounded", Role::scratch, packed, {tensor.elements()}});
        std::vector<TensorId> rounded = {first};
        if (packed == DType::fp8_e4m3) {
            block.tensors.push_back(
                {"scales", Role::scratch, DType::u8, {(tensor.elements() + 31) / 32}});
            rounded.push_back(first + 1);
        }
        Op there;
        there.spec = plan::Cast{tensor.elements()};
        Op back = there;
        there.reads = back.writes = {id};
        there.writes = back.reads = rounded;
        block.ops.push_back(there);
        block.ops.push_back(back);
    }
    plan::plan_scratch(block);
}

void round_stashes(plan::Plan& plan, DType packed) {
    std::int64_t scratch = 0;
    for (Block& block : plan.blocks) {
        if (block.name == "layer.forward") round_in_place(block, packed);
        scratch = std::max(scratch, block.scratch_bytes);
    }
    for (plan::Program& program : plan.programs) {
        program.residents[static_cast<std::size_t>(program.scratch)].bytes = scratch;
        plan::plan_arena(program);
    }
}

class Stash : public testing::TestWithParam<const char*> {
  protected:
    std::string key() const { return std::string("layout.activation_stash=") + GetParam(); }
    DType packed() const {
        return GetParam() == std::string("bf16") ? DType::bf16 : DType::fp8_e4m3;
    }
};

TEST_P(Stash, IsWhatForwardMadeRounded) {
    for (const Sets& sets : {Sets{}, Sets{"layout.pipeline_parallel=2", "layout.schedule=gpipe"},
                             Sets{"training.attention_kernel=unfused"}}) {
        Sets compressed = sets;
        compressed.push_back(key());
        const Trained found = train_sets(compressed, of_steps(3), "fp32");
        RunOptions oracle = of_steps(3);
        oracle.change_plan = [&](plan::Plan& plan) { round_stashes(plan, packed()); };
        const Trained expected = train_sets(sets, oracle, "fp32");
        EXPECT_EQ(found.losses, expected.losses);
        EXPECT_EQ(found.gradients, expected.gradients);
        EXPECT_EQ(found.parameters, expected.parameters);
        EXPECT_NE(found.gradients, train_sets(sets, of_steps(1), "fp32").gradients);
    }
}

// Blocks of 32 numbers divide what each of two tensor ranks holds of a row.
TEST_P(Stash, IsTheSameInEveryLayout) {
    const Trained alone = train_sets({key()}, of_steps(3), "fp64");
    std::vector<Sets> layouts = {
        {"layout.tensor_parallel=2"},
        {"layout.tensor_parallel=2", "layout.sequence_parallel=true", "layout.pipeline_parallel=2"},
        {"layout.pipeline_parallel=2", "layout.schedule=interleaved", "layout.virtual_pipeline=2"},
        {"layout.data_parallel=2", "layout.zero_stage=3"}};
    layouts.push_back(offload_cluster());
    layouts.back().insert(
        layouts.back().end(),
        {"layout.pipeline_parallel=2", "layout.schedule=gpipe", "layout.offload.activations=host"});
    for (Sets& sets : layouts) {
        SCOPED_TRACE(sets.back());
        sets.push_back(key());
        const Trained run = train_sets(sets, of_steps(3), "fp64");
        for (std::size_t i = 0; i < run.losses.size(); ++i)
            EXPECT_LE(std::abs(run.losses[i] / alone.losses[i] - 1), 1e-13);
        const Difference worst = difference(run.gradients, alone.gradients);
        EXPECT_LE(worst.relative, 1e-12) << worst.name;
        for (const runtime::RankMemory& memory : run.result.memory)
            EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
    }
}

TEST_P(Stash, OfRecomputedLayersIsTheirInput) {
    for (const char* recompute : {"full", "every_k"}) {
        const Sets sets = {key(), std::string("layout.recompute=") + recompute};
        RunOptions watched = of_steps(2);
        watched.cpu.guard = true;
        watched.cpu.poison = true;
        const Trained run = train_sets(sets, watched, "fp32");
        EXPECT_EQ(run.parameters, train_sets(sets, of_steps(2), "fp32").parameters);
    }
}

TEST_P(Stash, StillLearns) {
    const Trained run = train_sets({key()}, of_steps(usual_steps()), "fp32");
    const Trained exact = train_sets({}, of_steps(usual_steps()), "fp32");
    EXPECT_LT(run.losses.back(), run.losses.front());
    // As far as the exact one, but for a tenth.
    EXPECT_LT(run.losses.front() - run.losses.back(),
              1.1 * (exact.losses.front() - exact.losses.back()));
    EXPECT_GT(run.losses.front() - run.losses.back(),
              0.9 * (exact.losses.front() - exact.losses.back()));
}

INSTANTIATE_TEST_SUITE_P(Types, Stash, testing::Values("bf16", "fp8"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
