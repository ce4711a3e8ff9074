// Steps that are not held together by a global gradient norm overlap: the period is that of the
// busiest rank, or the pipeline's fill, drain and work, whichever is longer. With forward F,
// backward B on two stages, and an optimizer that takes X on the last stage alone:
//   one step from an idle machine ends at max((m + 1)·(F + B), F + m·(F + B) + X),
//   the period of successive steps is max((m + 1)·(F + B), m·(F + B) + X).
#include <algorithm>

#include "sim/engine/engine.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using sim::Picoseconds;

constexpr Picoseconds kForward = 1000;
constexpr Picoseconds kBackward = 2000;
constexpr std::int64_t kMicroBatches = 8;

std::vector<Picoseconds> durations(const plan::Plan& plan, Picoseconds optimizer) {
    std::vector<Picoseconds> all;
    for (const plan::Block& block : plan.blocks)
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
            Picoseconds time = 0;
            if (i == 0 && block.name == "layer.forward") time = kForward;
            if (i == 0 && block.name == "layer.backward") time = kBackward;
            all.push_back(time);
        }
    // One op stands for the whole optimizer of the stage: the first of its last procedure.
    const plan::Program& last = plan.programs.back();
    const plan::Step& step = last.steps.back();
    EXPECT_EQ(step.action.kind, plan::ActionKind::step);
    const auto block = static_cast<std::size_t>(
        last.procedures[static_cast<std::size_t>(step.procedure)].uses.front().block);
    all[plan.first_ops()[block]] = optimizer;
    return all;
}

// When the last op of each repetition ends, over all ranks.
std::vector<Picoseconds> ends(Picoseconds optimizer, int repetitions) {
    const plan::Plan plan =
        plan_of({"model.n_embd=16", "model.n_head=2", "model.vocab_size=16", "model.n_layer=2",
                 "training.sequence_length=4", "layout.pipeline_parallel=2",
                 "training.optimizer.clip_norm=0", set("layout.global_batch_size", kMicroBatches)});
    const std::vector<Picoseconds> first = durations(plan, 0);
    const std::vector<Picoseconds> last = durations(plan, optimizer);
    sim::EngineInput input;
    input.plan = &plan;
    input.launch_queue = 1'000'000;
    for (const plan::Program& program : plan.programs) {
        input.linked.push_back(plan::link(plan, program, repetitions));
        sim::EngineTrack track;
        track.program = program.pipeline_rank;
        track.durations = program.pipeline_rank == 0 ? &first : &last;
        track.groups.fill(-1);
        track.pipeline_peers = {0, 1};
        track.transfer_to_peer = {0, 0};
        input.tracks.push_back(std::move(track));
    }
    const sim::EngineResult result = run_engine(input);
    EXPECT_TRUE(result.stuck.empty());
    std::vector<Picoseconds> ends(static_cast<std::size_t>(repetitions), 0);
    for (const auto& events : result.events)
        for (std::size_t i = 0; i < events.size(); ++i) {
            Picoseconds& end = ends[i * static_cast<std::size_t>(repetitions) / events.size()];
            end = std::max(end, events[i].end);
        }
    return ends;
}

TEST(SuccessiveSteps, OverlapWhereNoNormHoldsThem) {
    constexpr Picoseconds kWork = kMicroBatches * (kForward + kBackward);
    for (const Picoseconds x : {0, 1500, 3000, 5000, 9000}) {
        const Picoseconds pipeline = kWork + kForward + kBackward;
        const auto end = ends(x, 2);
        EXPECT_EQ(end[0], std::max(pipeline, kForward + kWork + x)) << x;
        EXPECT_EQ(end[1] - end[0], std::max(pipeline, kWork + x)) << x;
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
