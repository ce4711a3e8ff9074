// What a rank's process holds beside the plan's memory.
#include <gtest/gtest.h>

#include "plan/assemble/build_plan.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/ir/link.hpp"
#include "plan/memory/arena.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

const std::string kScenarios = std::string(ORRERY_SOURCE_DIR) + "/scenarios/";

// Two processes of four ranks: each rank has a quarter of what a process shares.
TEST(ProcessMemory, IsSharedByTheRanksOfANodeWhereTheProfileHasMeasuredIt) {
    const plan::ReadResult read = plan::read_scenario(
        kScenarios + "runs/tiny-gpt.json",
        {"cluster.nodes=2", "cluster.devices_per_node=4",
         R"(cluster.inter_node={"kind": "ethernet", "nics_per_node": 1, "bandwidth_Gbps": 10, "latency_us": 30})"},
        kScenarios);
    ASSERT_TRUE(read.scenario) << plan::format_text(read.errors);
    const plan::Plan plan = plan::build_plan(*read.scenario);
    Profile profile = load_profiles(read.scenario->cluster);
    profile.process.reset();
    const MemoryPrediction preset = predict_memory(plan, *read.scenario, profile);
    profile.process = ProcessProfile{{8e6, ""}, {1e6, ""}, {100, ""}, 0.05};
    const MemoryPrediction measured = predict_memory(plan, *read.scenario, profile);
    double ops = 0;
    for (const plan::Program& program : plan.programs)
        ops += static_cast<double>(plan::link(plan, program).size());
    const plan::Framework& framework = read.scenario->training.framework;
    const double groups = 5;  // tensor, data, pipeline, both ends' embedding, world
    for (std::size_t s = 0; s < preset.stages.size(); ++s)
        EXPECT_NEAR(
            static_cast<double>(measured.stages[s].other_bytes - preset.stages[s].other_bytes),
            8e6 / 4 + 1e6 + 100 * ops / 2 -
                1e6 * (framework.context_mb + groups * framework.communicator_mb),
            1);
}

// Eight experts over eight ranks, of which two are tensor ranks: a rank has one expert of each
// layer, and 2 × group ÷ 8 ranks of a part have the same one, among which its 12 bytes a parameter
// are shared out. What is not of experts is cut in two by tensor ranks but for norms and routers.
TEST(Memory, OfSpreadExpertsIsSharedOutWithinPartsOfTheDataRanks) {
    for (const std::int64_t group : {4, 8, 16}) {
        const plan::ReadResult read = plan::read_scenario(
            kScenarios + "runs/mixtral-8x22b-h100x128.json",
            {"model.num_hidden_layers=8", "cluster.nodes=4", "layout.data_parallel=16",
             "layout.pipeline_parallel=1", "layout.virtual_pipeline=1", "layout.schedule=1f1b",
             "layout.zero_group_size=" + std::to_string(group)},
            kScenarios);
        ASSERT_TRUE(read.scenario) << plan::format_text(read.errors);
        const plan::Plan plan = plan::build_plan(*read.scenario);
        double held = 0;
        for (const plan::Resident& resident : plan.programs.front().residents)
            if (resident.category == plan::MemoryCategory::optimizer)
                held += static_cast<double>(resident.bytes);
        const double expert = 3.0 * 6144 * 16384, own = 8 * expert, all = 8 * own;
        const double others =
            (static_cast<double>(plan::conserved_of(*read.scenario).parameters) - all) / 2;
        const double same = 2.0 * static_cast<double>(group) / 8;
        const double expected = 12 * (others / static_cast<double>(group) + own / same);
        EXPECT_NEAR(held / expected, 1, 0.001) << group;
        // As process groups: tensor, world, expert; parts and their replicas, of experts where
        // there is more than one.
        EXPECT_EQ(communicators(plan.mesh), group == 16 ? 5 : group == 8 ? 7 : 6) << group;
    }
}

// Zero bubble in a V is the hardest to lay out: stashes, what their weight gradients wait for and
// what is kept of it, of three sizes, begin and end in different orders. In order of birth the last
// rank's arena is a third larger than what lives in it.
TEST(Memory, LosesLittleBetweenSlotsOfUnequalSizes) {
    const plan::ReadResult read =
        plan::read_scenario(kScenarios + "runs/llama3-70b-h100x256.json",
                            {"layout.schedule=zb-v", "layout.pipeline_parallel=8",
                             "layout.virtual_pipeline=2", "layout.recompute=none"},
                            kScenarios);
    ASSERT_TRUE(read.scenario) << plan::format_text(read.errors);
    const plan::Plan plan = plan::build_plan(*read.scenario);
    for (const plan::Program& program : plan.programs) {
        const double live = static_cast<double>(plan::memory_peak(plan, program).live);
        EXPECT_GE(static_cast<double>(program.arena_bytes), live);
        EXPECT_LE(static_cast<double>(program.arena_bytes), 1.05 * live);
    }
}

// A stack's caching allocator loses its share of what it has handed out; without one, what is
// allocated is the arena.
TEST(Memory, LosesAShareOrWhatTheArenaLeaves) {
    for (const char* share : {"0", "0.1"}) {
        const plan::ReadResult read =
            plan::read_scenario(kScenarios + "runs/tiny-gpt.json",
                                {std::string("training.fragmentation=") + share}, kScenarios);
        ASSERT_TRUE(read.scenario) << plan::format_text(read.errors);
        const plan::Plan plan = plan::build_plan(*read.scenario);
        const MemoryPrediction memory =
            predict_memory(plan, *read.scenario, load_profiles(read.scenario->cluster));
        for (const StageMemory& stage : memory.stages) {
            std::int64_t live = 0;
            for (const std::int64_t bytes : stage.bytes)
                live += bytes;
            EXPECT_EQ(stage.live_bytes, live);
            const std::int64_t lost =
                share[0] == '0' && share[1] == 0
                    ? stage.arena_bytes - live
                    : static_cast<std::int64_t>(0.1 * static_cast<double>(live));
            EXPECT_EQ(stage.lost_bytes, lost);
            EXPECT_EQ(stage.other_bytes, stage.lost_bytes + stage.process_bytes);
            EXPECT_EQ(stage.peak_bytes, live + stage.other_bytes);
        }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
