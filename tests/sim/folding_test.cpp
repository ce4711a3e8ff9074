// Folding changes nothing: the unfolded trace restricted to the representatives is the folded one,
// event by event, and so are the accounts; on a grid of layouts that straddle nodes, and on random
// ones. The same scenarios prove that plans are sound, run to the end and give memory back.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "plan/scenario/diagnostic.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/engine/fold.hpp"
#include "sim/machine.hpp"
#include "tests/sim/random_layouts.hpp"
#include "tests/sim/soundness.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using theory::set;
using theory::Sets;

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/h100-sxm.json");
    return loaded;
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
    EXPECT_EQ(folding_fault(asked, profile()), "");
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
    EXPECT_EQ(folding_fault(asked, profile()), "");
}

// Nodes of 6 devices under tensor groups of 4, as above.
TEST(Folding, NumbersMembersByTheShapesOfTheirGroups) {
    const plan::Scenario asked = theory::scenario(
        joined(world(48, 6), {"layout.tensor_parallel=4", "layout.pipeline_parallel=2",
                              "layout.data_parallel=6", "layout.global_batch_size=6"}));
    const plan::Plan plan = plan::build_plan(asked);
    const Classes classes = fold_ranks(plan.mesh, asked.cluster, false);
    const auto shapes = [](const Classes::Member& member) {
        std::vector<std::int64_t> key;
        for (const GroupShape& shape : member.shapes)
            append_key(shape, key);
        return key;
    };
    std::size_t alike = 0;
    for (const auto& one : classes.members)
        for (const auto& other : classes.members) {
            EXPECT_EQ(one.alike == other.alike, shapes(one) == shapes(other));
            if (one.rank != other.rank && one.alike == other.alike) ++alike;
        }
    EXPECT_GT(alike, 0U) << "of the two pipeline ranks";
    EXPECT_LT(alike, classes.members.size() * (classes.members.size() - 1));
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
        EXPECT_EQ(folding_fault(asked, profile()), "") << testing::PrintToString(sets);
        EXPECT_EQ(plan_fault(plan::build_plan(asked), asked), "") << testing::PrintToString(sets);
    }
}

// Nodes of five: groups of one kind that share out experts lie within a node and across several.
TEST(Folding, ChangesNothingWherePartsOfTheDataRanksHaveSpreadExperts) {
    const std::string library = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
    for (const char* stage : {"layout.zero_stage=1", "layout.zero_stage=3"}) {
        const plan::ReadResult read = plan::read_scenario(
            library + "/runs/mixtral-8x22b-h100x128.json",
            {"model.num_hidden_layers=4", "cluster.nodes=7", "cluster.devices_per_node=5",
             "layout.data_parallel=8", "layout.pipeline_parallel=2", "layout.virtual_pipeline=1",
             "layout.schedule=1f1b", "layout.global_batch_size=32", "layout.expert_parallel=4",
             "layout.zero_group_size=4", stage},
            library);
        ASSERT_TRUE(read.scenario) << plan::format_text(read.errors);
        const plan::Mesh mesh = plan::build_plan(*read.scenario).mesh;
        EXPECT_EQ(mesh.group_size(plan::GroupKind::expert_shard), 2);
        EXPECT_EQ(mesh.group_size(plan::GroupKind::expert_replica), 2);
        EXPECT_EQ(folding_fault(*read.scenario, load_profiles(read.scenario->cluster)), "");
    }
}

// Gradients are reduced while activations travel, over one slow adapter per node: both take longer
// than alone, and all ranks as long as the first of their class.
TEST(Folding, ChangesNothingWhereUnlikeGroupsShareTheNetwork) {
    const plan::Scenario asked = theory::scenario(
        joined(world(8, 2),
               {"layout.pipeline_parallel=2", "layout.data_parallel=4", "model.n_layer=8",
                "layout.global_batch_size=16", "training.overlap_gradient_reduce=true",
                "training.gradient_bucket_mb=0.01", "training.overlap_pipeline_transfers=always",
                "cluster.inter_node.bandwidth_Gbps=0.1"}));
    EXPECT_EQ(folding_fault(asked, profile()), "");
    const plan::Plan plan = plan::build_plan(asked);
    Machine machine = build_machine(plan, asked, profile(), false);
    const Picoseconds shared = step_window(machine, run_engine(machine.input)).end;
    machine.input.node_network_kBps = 0;
    EXPECT_GT(shared, step_window(machine, run_engine(machine.input)).end);
}

// A node of eight V100 under tensor groups of two, data groups across quads, and a fabric of which
// a leaf holds two of the four nodes.
TEST(Folding, ChangesNothingOnMeshesAndFabrics) {
    const Sets mesh = {R"(cluster.intra_node={"kind": "hybrid_cube_mesh", "bandwidth_GBps": 150, )"
                       R"("latency_us": 2, "host_GBps": 10})"};
    const Sets layout = {"layout.tensor_parallel=2", "layout.pipeline_parallel=2",
                         "layout.data_parallel=8", "layout.global_batch_size=16"};
    for (const char* fabric : {"fat_tree", "rail"}) {
        const Sets sets = joined(
            joined(joined(world(32, 8), mesh), layout),
            {R"(cluster.inter_node.fabric={"kind": ")" + std::string(fabric) +
             R"(", "levels": [{"nodes": 2, "oversubscription": 4}], "switch_latency_us": 1})"});
        const plan::Scenario asked = theory::scenario(sets);
        EXPECT_EQ(folding_fault(asked, profile()), "") << fabric;
        EXPECT_LT(fold_ranks(plan::build_plan(asked).mesh, asked.cluster, false).members.size(),
                  32U)
            << fabric;
    }
}

// Tensor groups on one axis of a torus, of which the other does not wrap, pipeline stages beyond
// it.
TEST(Folding, ChangesNothingOnATorus) {
    const plan::Scenario asked = theory::scenario(
        joined(world(32, 16),
               {R"(cluster.intra_node={"kind": "torus", "bandwidth_GBps": 150, "latency_us": 1, )"
                R"("shape": [4, 4], "wraparound": [true, false]})",
                "layout.tensor_parallel=4", "layout.pipeline_parallel=4", "layout.data_parallel=2",
                "layout.global_batch_size=8", "model.n_layer=4"}));
    EXPECT_EQ(folding_fault(asked, profile()), "");
    EXPECT_LT(fold_ranks(plan::build_plan(asked).mesh, asked.cluster, false).members.size(), 32U);
}

RC_GTEST_PROP(Folding, ChangesNothingOnRandomLayouts, ()) {
    const Sets sets = random_sets();
    RC_LOG() << testing::PrintToString(sets) << "\n";
    const plan::Scenario asked = theory::scenario(sets);
    const std::string plan = plan_fault(plan::build_plan(asked), asked);
    RC_LOG() << plan << "\n";
    RC_ASSERT(plan.empty());
    const std::string folding = folding_fault(asked, profile());
    RC_LOG() << folding << "\n";
    RC_ASSERT(folding.empty());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
