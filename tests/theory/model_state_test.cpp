// Rajbhandari et al. 2020: mixed-precision Adam holds 2Φ of parameters, 2Φ of gradients and 12Φ of
// optimizer state, 16Φ bytes, and 18Φ where gradients are summed in fp32; ZeRO-1 divides the
// optimizer by N, ZeRO-2 the gradients too, ZeRO-3 everything. In fp64, for tests, all is twice
// what fp32 takes. The bytes are those of the plan's residents, compared exactly.
#include <cstdint>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::MemoryCategory;
using plan::Program;

constexpr std::int64_t kData = 4;

// GPT: 12h² + 13h per layer; table, positions, final norm, untied head.
std::int64_t gpt_parameters(const plan::Model& m) {
    const std::int64_t h = m.hidden;
    return m.layers * (12 * h * h + 13 * h) + 2 * m.vocabulary * h + m.max_positions * h + 2 * h;
}

struct Precision {
    const char* name;
    Sets sets;
    std::int64_t parameter, gradient, optimizer;  // bytes per parameter
};

const char* const kSixteenBits = "training.gradient_dtype=same";

const Precision kPrecisions[] = {
    {"bf16", {"training.precision=bf16", kSixteenBits}, 2, 2, 12},
    {"bf16: fp32 gradients", {"training.precision=bf16"}, 2, 4, 12},
    {"Megatron Core: fp32 main gradients", {"training.framework=megatron"}, 2, 4, 12},
    {"fp16", {"training.precision=fp16", kSixteenBits}, 2, 2, 12},
    {"fp16: fp32 gradients", {"training.precision=fp16"}, 2, 4, 12},
    // fp32 parameters are their own master copy: 4 + 4 + 8 is 16 again.
    {"fp32", {"training.precision=fp32"}, 4, 4, 8},
    {"fp64", {"training.precision=fp64"}, 8, 8, 16},
    // Megatron Core's precision-aware optimizer: moments of 16 bits, of 8, main parameters of 16.
    {"bf16 moments",
     {kSixteenBits, "training.optimizer.exp_avg_dtype=bf16",
      "training.optimizer.exp_avg_sq_dtype=bf16"},
     2,
     2,
     8},
    {"fp8 moments, fp16 main parameters",
     {kSixteenBits, "training.optimizer.exp_avg_dtype=fp8",
      "training.optimizer.exp_avg_sq_dtype=fp8", "training.optimizer.main_params_dtype=fp16"},
     2,
     2,
     4},
    {"a first moment of 16 bits",
     {kSixteenBits, "training.optimizer.exp_avg_dtype=fp16"},
     2,
     2,
     10},
    // Weights that are stepped themselves, as PyTorch does without mixed precision.
    {"bf16 alone",
     {kSixteenBits, "training.optimizer.exp_avg_dtype=bf16",
      "training.optimizer.exp_avg_sq_dtype=bf16", "training.optimizer.main_params_dtype=none"},
     2,
     2,
     4},
};

// Hybrid sharding (MiCS, Zhang et al. 2022; HSDP): a group of g ranks holds one copy of the states.
class ModelState : public testing::TestWithParam<int> {};

TEST_P(ModelState, IsDividedByTheGroupThatSharesItOut) {
    const int zero = GetParam();
    if (zero == 0) return;
    for (const std::int64_t group : {1, 2, 4})
        for (const Precision& precision : kPrecisions) {
            Sets sets = precision.sets;
            sets.push_back("layout.data_parallel=8");
            sets.push_back(set("layout.zero_stage", zero));
            sets.push_back(set("layout.zero_group_size", group));
            const plan::Scenario asked = scenario(sets);
            const std::int64_t phi = gpt_parameters(asked.model);
            const plan::Plan plan = plan::build_plan(asked);
            const Program& program = plan.programs.front();
            EXPECT_EQ(resident_bytes(program, MemoryCategory::parameters),
                      precision.parameter * phi / (zero >= 3 ? group : 1));
            EXPECT_EQ(resident_bytes(program, MemoryCategory::gradients),
                      precision.gradient * phi / (zero >= 2 ? group : 1));
            EXPECT_EQ(resident_bytes(program, MemoryCategory::optimizer),
                      precision.optimizer * phi / group);
        }
}

TEST_P(ModelState, IsItsBytesPerParameterDividedByTheZeroStage) {
    const int zero = GetParam();
    for (const Precision& precision : kPrecisions) {
        SCOPED_TRACE(precision.name);
        Sets sets = precision.sets;
        sets.push_back(set("layout.data_parallel", kData));
        sets.push_back(set("layout.zero_stage", zero));
        const plan::Scenario asked = scenario(sets);
        const plan::Plan plan = plan::build_plan(asked);
        const std::int64_t phi = gpt_parameters(asked.model);
        // Every part of this model is a multiple of 512 elements, so that 4 shards of at least two
        // bytes are whole allocations of 256 bytes.
        ASSERT_EQ(phi % 512, 0);
        ASSERT_EQ(plan.conserved.parameters, phi);
        const Program& program = plan.programs.front();
        EXPECT_EQ(resident_bytes(program, MemoryCategory::parameters),
                  precision.parameter * phi / (zero >= 3 ? kData : 1));
        EXPECT_EQ(resident_bytes(program, MemoryCategory::gradients),
                  precision.gradient * phi / (zero >= 2 ? kData : 1));
        EXPECT_EQ(resident_bytes(program, MemoryCategory::optimizer),
                  precision.optimizer * phi / (zero >= 1 ? kData : 1));
    }
}

TEST_P(ModelState, IsPaddedByLessThanAShardAndAnAllocationPerBucket) {
    const int zero = GetParam();
    const std::int64_t data = 3;  // divides none of the parts
    const plan::Scenario asked =
        scenario({"model.n_embd=40", "model.n_head=4", "model.vocab_size=101",
                  set("layout.data_parallel", data), "layout.global_batch_size=3",
                  set("layout.zero_stage", zero)});
    const plan::Plan plan = plan::build_plan(asked);
    const std::int64_t phi = gpt_parameters(asked.model);
    const Program& program = plan.programs.front();
    const auto buckets = static_cast<std::int64_t>(program.buckets.size());
    auto check = [&](MemoryCategory category, std::int64_t per_element, bool sharded) {
        const std::int64_t bytes = resident_bytes(program, category);
        const std::int64_t least = per_element * phi / (sharded ? data : 1);
        EXPECT_GE(bytes, least);
        EXPECT_LT(bytes, least + buckets * (256 + per_element)) << name(category);
    };
    check(MemoryCategory::parameters, 2, zero >= 3);
    check(MemoryCategory::gradients, 4, zero >= 2);
    check(MemoryCategory::optimizer, 12, zero >= 1);
}

INSTANTIATE_TEST_SUITE_P(Zero, ModelState, testing::Values(0, 1, 2, 3));

// One copy of the model over the stages of a pipeline is Φ; a tied embedding is held at both ends.
TEST(ModelStateOverAPipeline, SumsToTheModelAndTheSecondTable) {
    for (const bool tied : {false, true}) {
        const plan::Scenario asked =
            scenario({"layout.pipeline_parallel=4",
                      std::string("model.tie_word_embeddings=") + (tied ? "true" : "false")});
        const plan::Plan plan = plan::build_plan(asked);
        std::int64_t bytes = 0;
        for (const Program& program : plan.programs)
            bytes += resident_bytes(program, MemoryCategory::parameters);
        EXPECT_EQ(bytes, 2 * gpt_parameters(asked.model)) << tied;
        EXPECT_EQ(
            plan.conserved.parameters,
            gpt_parameters(asked.model) - (tied ? asked.model.vocabulary * asked.model.hidden : 0));
    }
}

// Tensor parallelism divides everything but norms and the biases of row-parallel linears (6h per
// layer), positions and the final norm.
TEST(ModelStateOverTensorRanks, DividesAllButTheReplicatedVectors) {
    const plan::Scenario asked = scenario({"layout.tensor_parallel=4"});
    const plan::Plan plan = plan::build_plan(asked);
    const plan::Model& m = asked.model;
    const std::int64_t whole = m.hidden * (6 * m.layers + m.max_positions + 2);
    EXPECT_EQ(resident_bytes(plan.programs.front(), MemoryCategory::parameters),
              2 * ((gpt_parameters(m) - whole) / 4 + whole));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
