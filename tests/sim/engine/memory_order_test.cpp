// However long ops take, none touches memory before it may: dependencies through tensors, reuse of
// scratch within a block, reuse of the arena between residents. Random durations, an oracle that
// knows no counts, and mutations that show that the oracle sees a missing wait.
#include "tests/sim/engine/memory_order.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/sim/engine/plan_world.hpp"
#include "tests/sim/random_layouts.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

// Numerical Recipes' 64-bit congruential generator: the same numbers everywhere.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    Picoseconds below(std::uint64_t limit) {
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        return static_cast<Picoseconds>((state_ >> 33) % limit);
    }

  private:
    std::uint64_t state_;
};

// A third of the ops take no time, some take long.
void shuffle_durations(PlanWorld& world, Random& random) {
    for (auto& track : world.durations)
        for (Picoseconds& duration : track) {
            const Picoseconds kind = random.below(3);
            duration = kind == 0 ? 0 : random.below(kind == 1 ? 100 : 5000);
        }
}

const Sets kTiny = {"model.n_embd=16", "model.n_head=4", "model.vocab_size=16",
                    "model.n_positions=8", "training.sequence_length=8"};

Sets tiny(const Sets& more) {
    Sets sets = kTiny;
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

const Sets kCases[] = {
    {},
    {"layout.tensor_parallel=4", "layout.sequence_parallel=true"},
    {"layout.tensor_parallel=2", "layout.recompute=full", "training.overlap_tensor_backward=false"},
    {"training.attention_kernel=unfused", "training.dropout=0.1", "layout.recompute=selective"},
    {"layout.data_parallel=2", "layout.zero_stage=1", "training.gradient_bucket_mb=0.001"},
    {"layout.data_parallel=2", "layout.zero_stage=2"},
    {"layout.data_parallel=4", "layout.zero_stage=3", "layout.global_batch_size=16"},
    {"layout.data_parallel=4", "layout.zero_stage=3", "model.tie_word_embeddings=true"},
    {"layout.data_parallel=4", "layout.zero_stage=3", "training.zero_prefetch=0"},
    {"layout.data_parallel=4", "layout.zero_stage=3", "training.zero_prefetch=3",
     "layout.zero_group_size=2"},
    {"layout.data_parallel=4", "layout.zero_stage=3", "layout.reshard_after_forward=false",
     "layout.pipeline_parallel=2", "layout.global_batch_size=16"},
    {"layout.data_parallel=4", "layout.zero_stage=2", "layout.zero_group_size=2",
     "model.tie_word_embeddings=true"},
    {"layout.data_parallel=2", "training.overlap_gradient_reduce=false"},
    {"layout.pipeline_parallel=4"},
    {"layout.pipeline_parallel=4", "layout.schedule=gpipe"},
    {"layout.pipeline_parallel=2", "layout.virtual_pipeline=2", "layout.schedule=interleaved"},
    {"layout.pipeline_parallel=2", "model.tie_word_embeddings=true", "layout.tensor_parallel=2"},
    {"layout.pipeline_parallel=2", "layout.tensor_parallel=2", "layout.sequence_parallel=true",
     "layout.data_parallel=2", "layout.zero_stage=3"},
    {"layout.pipeline_parallel=4", "layout.tensor_parallel=2", "layout.data_parallel=2",
     "layout.zero_stage=1", "layout.recompute=full", "model.tie_word_embeddings=true"},
};

// The first violation of a run with random durations; empty when there is none.
std::string first_violation(const plan::Plan& plan, std::uint64_t seed) {
    Random random(seed);
    PlanWorld world(plan, random.below(2000));
    shuffle_durations(world, random);
    const EngineResult result = run_engine(world.input);
    if (!result.stuck.empty()) return "stuck";
    for (std::size_t t = 0; t < plan.programs.size(); ++t) {
        const auto violations =
            MemoryOrder(plan, plan.programs[t], world.input.linked[t], result.events[t])
                .violations();
        if (!violations.empty()) return "rank " + std::to_string(t) + ": " + violations.front();
    }
    return "";
}

class MemoryOrderOf : public testing::TestWithParam<Sets> {};

TEST_P(MemoryOrderOf, IsKeptWhateverOpsTake) {
    const plan::Plan plan = theory::plan_of(tiny(GetParam()));
    for (std::uint64_t seed = 1; seed <= 8; ++seed)
        EXPECT_EQ(first_violation(plan, seed), "") << "seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(Cases, MemoryOrderOf, testing::ValuesIn(kCases));

RC_GTEST_PROP(MemoryOrder, IsKeptOnRandomLayouts, ()) {
    const Sets sets = random_sets();
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    RC_LOG() << testing::PrintToString(sets) << " seed " << seed << "\n";
    const std::string violation = first_violation(theory::plan_of(sets), seed);
    RC_LOG() << violation << "\n";
    RC_ASSERT(violation.empty());
}

// The op that a wait waits for, as an id.
std::uint32_t waited_op(const plan::Plan& plan, const plan::LinkedProgram& linked,
                        const plan::Wait& wait) {
    const auto ops = theory::all_ops(plan);
    std::uint32_t count = 0;
    for (std::uint32_t id = 0; id < linked.size(); ++id)
        if (ops[linked.op[id]]->stream == wait.stream && ++count == wait.count) return id;
    return 0;
}

// Without wait number `index`, and with the op that it waits for taking very long.
std::size_t violations_without(const plan::Plan& plan, std::size_t index) {
    PlanWorld world(plan);
    plan::LinkedProgram& linked = world.input.linked[0];
    for (auto& track : world.durations)
        for (Picoseconds& duration : track)
            duration = 1;
    const std::uint32_t slow = waited_op(plan, linked, linked.waits[index]);
    world.durations[0][linked.op[slow]] = 1'000'000;
    linked.waits.erase(linked.waits.begin() + static_cast<std::ptrdiff_t>(index));
    for (std::uint32_t& first : linked.first_wait)
        if (first > index) --first;
    const EngineResult result = run_engine(world.input);
    EXPECT_TRUE(result.stuck.empty());
    return MemoryOrder(plan, plan.programs[0], linked, result.events[0]).violations().size();
}

// On one rank with two streams no wait is implied by others: each is missed when it is gone.
TEST(MemoryOrderMutation, EveryMissingWaitOfATensorParallelRankIsSeen) {
    const plan::Plan plan = theory::plan_of(
        tiny({"layout.tensor_parallel=2", "layout.global_batch_size=2", "model.n_layer=2"}));
    const std::size_t waits = plan::link(plan, plan.programs[0]).waits.size();
    ASSERT_GT(waits, 20U);
    for (std::size_t i = 0; i < waits; ++i)
        EXPECT_GT(violations_without(plan, i), 0U) << "wait " << i;
}

// Memory that changes hands between residents: the waits that only reuse needs.
TEST(MemoryOrderMutation, ResidentsThatAreForgottenInReuseAreSeen) {
    plan::Plan plan = theory::plan_of(tiny({"layout.pipeline_parallel=2"}));
    const plan::Plan sound = plan;
    std::size_t reusing = 0;
    for (plan::Resident& resident : plan.programs[0].residents) {
        reusing += resident.reuses.empty() ? 0 : 1;
        resident.reuses.clear();
    }
    ASSERT_GT(reusing, 0U);
    PlanWorld world(plan, 50'000);  // transfers so slow that memory is wanted before they end
    for (auto& track : world.durations)
        for (Picoseconds& duration : track)
            duration = 1;
    const EngineResult result = run_engine(world.input);
    EXPECT_GT(MemoryOrder(sound, sound.programs[0], world.input.linked[0], result.events[0])
                  .violations()
                  .size(),
              0U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
