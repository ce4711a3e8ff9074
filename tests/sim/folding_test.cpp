// Folding changes nothing: the unfolded trace restricted to the representatives is the folded one,
// event by event, and so are the accounts; on a grid of layouts that straddle nodes, and on random
// ones. The same scenarios prove that plans are sound, run to the end and give memory back.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "plan/build/validate_plan.hpp"
#include "plan/memory/arena.hpp"
#include "sim/engine/fold.hpp"
#include "sim/machine.hpp"
#include "sim/prediction.hpp"
#include "tests/sim/random_layouts.hpp"

namespace orrery::sim {
namespace {

using theory::set;
using theory::Sets;

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/a100-80gb-sxm.json");
    return loaded;
}

// Program of the member that came last; −1: none.
std::int32_t late_program(const trace::Trace& trace, const trace::Event& event) {
    return event.late_track < 0 ? -1
                                : trace.tracks[static_cast<std::size_t>(event.late_track)].program;
}

// What is wrong with the folded run of a scenario, one line; empty when all is well.
std::string folding_fault(const plan::Scenario& scenario) {
    const Prediction folded = simulate(scenario, profile(), {}, "");
    const Prediction unfolded = simulate(scenario, profile(), {true}, "");
    if (!folded.stuck.empty() || !unfolded.stuck.empty()) return "stuck: " + folded.stuck;
    std::int64_t represented = 0;
    for (std::size_t t = 0; t < folded.trace.tracks.size(); ++t) {
        const trace::Track& one = folded.trace.tracks[t];
        represented += one.represents;
        const trace::Track& all = unfolded.trace.tracks[static_cast<std::size_t>(one.rank)];
        if (all.rank != one.rank || all.program != one.program) return "tracks are not ranks";
        for (std::size_t i = 0; i < one.events.size(); ++i) {
            trace::Event expected = all.events[i];
            const trace::Event& e = one.events[i];
            // Of several that were last together a folded run may name another, of the same
            // program.
            const bool named =
                late_program(folded.trace, e) == late_program(unfolded.trace, expected);
            expected.late_track = e.late_track;
            if (named && e == expected) continue;
            const trace::OpName& op = folded.trace.op_of(one, i);
            auto text = [](const trace::Event& v) {
                return std::to_string(v.ready) + " " + std::to_string(v.start) + " " +
                       std::to_string(v.end) + " blocker " + std::to_string(v.blocker) + " late " +
                       std::to_string(v.late_track);
            };
            return "rank " + std::to_string(one.rank) + " op " + std::to_string(i) + " " +
                   op.block + " " + op.label + ": folded " + text(e) + ", unfolded " +
                   text(expected);
        }
    }
    if (represented != scenario.layout.ranks()) return "not every rank is represented";
    const double time = folded.step.time_s;
    if (time != unfolded.step.time_s) return "step times differ";
    double sum = 0;
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        const double difference = folded.step.breakdown_s[a] - unfolded.step.breakdown_s[a];
        if (difference > 1e-12 * time || difference < -1e-12 * time)
            return "accounts differ: " + std::string(name(static_cast<trace::Account>(a)));
        sum += folded.step.breakdown_s[a];
    }
    if (sum < time * (1 - 1e-12) || sum > time * (1 + 1e-12)) return "accounts do not sum";
    return "";
}

// What is wrong with the plan itself.
std::string plan_fault(const plan::Scenario& scenario) {
    const plan::Plan plan = plan::build_plan(scenario);
    const auto faults = plan_faults(plan, scenario);
    if (!faults.empty()) return faults.front();
    for (const plan::Program& program : plan.programs) {
        const auto last = static_cast<std::int32_t>(program.steps.size()) - 1;
        for (const plan::Resident& resident : program.residents)
            if (resident.last_step == last && resident.first_step != 0)
                return resident.name + " is alive at the end but not at the start";
        // Between the first forward's birth and the last death the base line is the same.
        std::int64_t base = 0;
        for (const plan::Resident& resident : program.residents)
            if (resident.first_step == 0 && resident.last_step == last) base += resident.bytes;
        const std::int64_t scratch =
            program.residents[static_cast<std::size_t>(program.scratch)].bytes;
        if (plan::live_bytes_by_step(plan, program).back() > base ||
            plan::live_bytes_by_step(plan, program).back() < base - scratch)
            return "memory does not return to its base line";
    }
    return "";
}

TEST(Folding, OfRanksThatAreAlikeIsOneTrackPerPipelineRank) {
    const plan::Scenario asked = theory::scenario(joined(
        world(32, 8),
        {"layout.tensor_parallel=4", "layout.pipeline_parallel=4", "layout.data_parallel=2"}));
    const plan::Plan plan = plan::build_plan(asked);
    const Classes classes = fold_ranks(plan.mesh, asked.cluster, false);
    ASSERT_EQ(classes.members.size(), 4U);
    for (const auto& member : classes.members)
        EXPECT_EQ(member.represents, 8);
    EXPECT_EQ(fold_ranks(plan.mesh, asked.cluster, true).members.size(), 32U);
}

// Nodes of 6 devices under tensor groups of 4: of every three groups one lies across two nodes.
TEST(Folding, PartsRanksWhoseTensorGroupStraddlesNodes) {
    const plan::Scenario asked =
        theory::scenario(joined(world(24, 6), {"layout.tensor_parallel=4", "layout.data_parallel=6",
                                               "layout.global_batch_size=6"}));
    const plan::Plan plan = plan::build_plan(asked);
    const Classes classes = fold_ranks(plan.mesh, asked.cluster, false);
    EXPECT_GT(classes.members.size(), 1U);
    // Ranks 0–3 lie in node 0, ranks 4–7 on both sides of its end.
    EXPECT_NE(classes.class_of[0], classes.class_of[4]);
    EXPECT_EQ(folding_fault(asked), "");
}

// Two shard groups of a data group of six ranks on nodes of four: one of them lies across nodes.
TEST(Folding, PartsRanksWhoseShardGroupStraddlesNodes) {
    const plan::Scenario asked = theory::scenario(
        joined(world(6, 4), {"layout.data_parallel=6", "layout.global_batch_size=6",
                             "layout.zero_stage=3", "layout.zero_group_size=3"}));
    const plan::Plan plan = plan::build_plan(asked);
    EXPECT_EQ(plan.mesh.group(plan::GroupKind::shard, 4), (std::vector<plan::Rank>{3, 4, 5}));
    EXPECT_EQ(plan.mesh.group(plan::GroupKind::replica, 4), (std::vector<plan::Rank>{1, 4}));
    const Classes classes = fold_ranks(plan.mesh, asked.cluster, false);
    EXPECT_NE(classes.class_of[0], classes.class_of[3]);
    EXPECT_EQ(folding_fault(asked), "");
}

struct Case {
    std::int64_t tensor, pipeline, data, chunks, devices_per_node;
    int zero;
    const char* schedule;
    Sets more;
};

TEST(Folding, ChangesNothingOnAGridOfLayouts) {
    const Case cases[] = {
        {1, 1, 1, 1, 8, 0, "1f1b", {}},
        {8, 2, 2, 1, 8, 1, "1f1b", {"model.n_head=8"}},
        {4, 4, 2, 1, 3, 1, "1f1b", {"layout.sequence_parallel=true"}},
        {2, 4, 4, 1, 6, 0, "gpipe", {}},
        {2, 2, 3, 2, 4, 1, "interleaved", {"layout.recompute=full"}},
        {4, 2, 3, 2, 6, 3, "interleaved", {"layout.sequence_parallel=true"}},
        {1, 4, 4, 1, 3, 2, "1f1b", {"model.tie_word_embeddings=true"}},
        {4, 4, 4, 1, 6, 3, "1f1b", {"training.overlap_gradient_reduce=false"}},
        {2, 2, 4, 1, 3, 1, "1f1b", {"layout.zero_group_size=2"}},
        {1, 2, 8, 1, 6, 3, "1f1b", {"layout.zero_group_size=4", "training.zero_prefetch=0"}},
        {2,
         2,
         4,
         2,
         8,
         3,
         "interleaved",
         {"layout.zero_group_size=2", "layout.reshard_after_forward=false"}},
        {2, 4, 2, 1, 5, 1, "1f1b", {"training.framework=megatron-2021"}},
    };
    for (const Case& c : cases) {
        const std::int64_t ranks = c.tensor * c.pipeline * c.data;
        const Sets sets = joined(
            joined(world(ranks, c.devices_per_node),
                   {set("layout.tensor_parallel", c.tensor),
                    set("layout.pipeline_parallel", c.pipeline),
                    set("layout.data_parallel", c.data), set("layout.virtual_pipeline", c.chunks),
                    set("model.n_layer", c.pipeline * c.chunks),
                    set("layout.global_batch_size", 4 * c.data), set("layout.zero_stage", c.zero),
                    std::string("layout.schedule=") + c.schedule}),
            c.more);
        const plan::Scenario asked = theory::scenario(sets);
        EXPECT_EQ(folding_fault(asked), "") << testing::PrintToString(sets);
        EXPECT_EQ(plan_fault(asked), "") << testing::PrintToString(sets);
    }
}

RC_GTEST_PROP(Folding, ChangesNothingOnRandomLayouts, ()) {
    const Sets sets = random_sets();
    RC_LOG() << testing::PrintToString(sets) << "\n";
    const plan::Scenario asked = theory::scenario(sets);
    const std::string plan = plan_fault(asked);
    RC_LOG() << plan << "\n";
    RC_ASSERT(plan.empty());
    const std::string folding = folding_fault(asked);
    RC_LOG() << folding << "\n";
    RC_ASSERT(folding.empty());
}

}  // namespace
}  // namespace orrery::sim
