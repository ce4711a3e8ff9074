// What offloading moves and where it puts it, over N data-parallel ranks, m micro-batches, Φ
// parameters in 16 bits, in bytes of a rank and step:
//   optimizer   12Φ/N to the device and back: states are read and written once
//               (Rajbhandari et al. 2021, ZeRO-Infinity, §4: 2 × the optimizer states)
//   parameters  ZeRO-3: 2m·2Φ/N to the device, for each forward and backward pass, and 2Φ/N back
//   gradients   ZeRO-2: 2mΦ/N out, one sum per micro-batch; in: all but the first sum, the norm
//               and the optimizer, 2(m + 1)Φ/N
//   activations every byte of a stash that waits, out and in once
// What a device then holds is one slot more than it fetches ahead.
#include <map>

#include "plan/memory/arena.hpp"
#include "sim/cost/profile.hpp"
#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::OpKind;
using plan::Resident;
using plan::Tier;

Sets with_memory(Sets sets) {
    sets.insert(sets.begin(), "training.precision=bf16");
    sets.push_back(
        R"(cluster.host_memory={"capacity_GB": 1000, "bandwidth_GBps": 20, "latency_us": 10})");
    sets.push_back(
        R"(cluster.storage={"capacity_GB": 1000, "read_GBps": 8, "write_GBps": 4, "latency_us": 50})");
    return sets;
}

std::map<OpKind, std::int64_t> moved(const plan::Plan& plan, std::size_t rank = 0) {
    std::map<OpKind, std::int64_t> bytes;
    for (const plan::Op* op : executed_ops(plan, rank))
        if (plan::is_copy(op->kind())) bytes[op->kind()] += plan::message_bytes(*op);
    return bytes;
}

std::int64_t kept_on(const plan::Program& program, Tier tier, plan::MemoryCategory category) {
    std::int64_t bytes = 0;
    for (const Resident& resident : program.residents)
        if (resident.tier == tier && resident.within < 0 && resident.category == category)
            bytes += resident.bytes;
    return bytes;
}

class OffloadOver : public testing::TestWithParam<std::int64_t> {
  protected:
    plan::Plan plan(const char* offload, int zero, std::int64_t m) const {
        return plan_of(with_memory({set("layout.data_parallel", GetParam()),
                                    set("layout.global_batch_size", GetParam() * m),
                                    set("layout.zero_stage", zero), offload}));
    }
};

TEST_P(OffloadOver, OptimizerStatesTravelOnceEachWay) {
    const plan::Plan planned = plan("layout.offload.optimizer=host", 1, 2);
    const std::int64_t phi = planned.conserved.parameters;
    auto bytes = moved(planned);
    EXPECT_EQ(bytes[OpKind::copy_to_device], 12 * phi / GetParam());
    EXPECT_EQ(bytes[OpKind::copy_to_host], 12 * phi / GetParam());
    EXPECT_EQ(planned.programs[0].host_bytes, 12 * phi / GetParam());
    EXPECT_EQ(planned.programs[0].disk_bytes, 0);
    EXPECT_EQ(kept_on(planned.programs[0], Tier::device, plan::MemoryCategory::optimizer), 0);
}

TEST_P(OffloadOver, DisksAreReachedThroughTheHost) {
    const plan::Plan planned = plan("layout.offload.optimizer=disk", 1, 2);
    const std::int64_t states = 12 * planned.conserved.parameters / GetParam();
    auto bytes = moved(planned);
    for (const OpKind kind :
         {OpKind::copy_to_device, OpKind::copy_to_host, OpKind::read_disk, OpKind::write_disk})
        EXPECT_EQ(bytes[kind], states) << name(kind);
    EXPECT_EQ(planned.programs[0].disk_bytes, states);
}

TEST_P(OffloadOver, ParametersComeForEveryPassOverThem) {
    for (const std::int64_t m : {1, 3}) {
        const plan::Plan planned = plan("layout.offload.parameters=host", 3, m);
        const std::int64_t shard = 2 * planned.conserved.parameters / GetParam();
        auto bytes = moved(planned);
        EXPECT_EQ(bytes[OpKind::copy_to_device], 2 * m * shard) << m;
        EXPECT_EQ(bytes[OpKind::copy_to_host], shard) << m;
        // A final norm's shard is less than an allocation.
        const plan::Program& program = planned.programs[0];
        EXPECT_GE(program.host_bytes, shard);
        EXPECT_LT(program.host_bytes,
                  shard + plan::kAlignment * static_cast<std::int64_t>(program.buckets.size()));
    }
}

TEST_P(OffloadOver, GradientsLeaveWithEveryMicroBatch) {
    for (const std::int64_t m : {1, 3}) {
        const plan::Plan planned = plan("layout.offload.gradients=host", 2, m);
        const std::int64_t shard = 4 * planned.conserved.parameters / GetParam();  // fp32
        auto bytes = moved(planned);
        EXPECT_EQ(bytes[OpKind::copy_to_host], m * shard) << m;
        EXPECT_EQ(bytes[OpKind::copy_to_device], (m + 1) * shard) << m;
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, OffloadOver, testing::Values(2, 8));

TEST(OffloadSlots, AreOneMoreThanAreFetchedAhead) {
    for (const std::int64_t prefetch : {0, 1, 3}) {
        const plan::Plan planned = plan_of(with_memory(
            {"layout.zero_stage=3", "layout.data_parallel=2", "layout.offload.optimizer=host",
             set("layout.offload.prefetch", prefetch)}));
        const plan::Program& program = planned.programs[0];
        std::int64_t slots = 0, largest = 0, held = 0;
        for (const Resident& resident : program.residents) {
            if (resident.name.starts_with("optimizer slot")) {
                ++slots;
                held += resident.bytes;
            }
            if (resident.category == plan::MemoryCategory::optimizer)
                largest = std::max(largest, resident.bytes);
        }
        EXPECT_EQ(slots, prefetch + 1);
        EXPECT_LE(held, slots * largest);
        EXPECT_GE(held, largest);
    }
}

// GPipe: all micro-batches wait before the first backward pass.
TEST(OffloadActivations, MoveEveryStashOnce) {
    for (const char* where : {"host", "disk"}) {
        const std::int64_t m = 6;
        const plan::Plan planned = plan_of(with_memory(
            {"layout.pipeline_parallel=2", "layout.schedule=gpipe", "layout.micro_batch_size=1",
             set("layout.global_batch_size", m), "layout.offload.prefetch=1",
             std::string("layout.offload.activations=") + where}));
        for (std::size_t rank = 0; rank < 2; ++rank) {
            const plan::Program& program = planned.programs[rank];
            // The second stage keeps what it received, too: 32 tokens of width 512 in bf16.
            const std::int64_t kept =
                stash_bytes(program) + (rank == 1 ? 2 * std::int64_t{32} * 512 : 0);
            auto bytes = moved(planned, rank);
            EXPECT_EQ(bytes[OpKind::copy_to_host], m * kept);
            EXPECT_EQ(bytes[OpKind::copy_to_device], m * kept);
            const bool disk = std::string(where) == "disk";
            EXPECT_EQ(bytes[OpKind::write_disk], disk ? m * kept : 0);
            EXPECT_EQ(bytes[OpKind::read_disk], disk ? m * kept : 0);
            // When the last one leaves, the first one has been fetched ahead.
            EXPECT_EQ(disk ? program.disk_bytes : program.host_bytes, (m - 1) * kept);
        }
    }
}

// On the device there are those of the action that runs and of `prefetch` beside it, one leaving
// and one coming.
TEST(OffloadActivations, LeaveAFewOnTheDevice) {
    auto stashes_alive = [](const plan::Plan& planned) {
        const plan::Program& program = planned.programs[0];
        std::int64_t most = 0;
        for (std::int32_t s = 0; s < static_cast<std::int32_t>(program.steps.size()); ++s) {
            std::int64_t now = 0;
            for (const Resident& r : program.residents)
                now += r.tier == Tier::device && r.name.find("stash") != std::string::npos &&
                       r.first_step <= s && s <= r.last_step;
            most = std::max(most, now);
        }
        return most;
    };
    for (const std::int64_t prefetch : {0, 1, 2}) {
        const Sets sets = {"layout.pipeline_parallel=2", "layout.schedule=gpipe",
                           "layout.global_batch_size=8", set("layout.offload.prefetch", prefetch)};
        Sets offloaded = sets;
        offloaded.push_back("layout.offload.activations=host");
        EXPECT_EQ(stashes_alive(plan_of(with_memory(sets))), 8);
        EXPECT_EQ(stashes_alive(plan_of(with_memory(offloaded))), 1 + 2 * prefetch) << prefetch;
    }
}

// Links: latency and bytes ÷ bandwidth for each copy; a node's storage is shared by its 8 ranks.
TEST(OffloadTime, IsThatOfTheLinks) {
    const plan::Scenario asked = scenario(with_memory(
        {"layout.data_parallel=8", "layout.zero_stage=1", "layout.offload.optimizer=disk"}));
    const plan::Plan planned = plan::build_plan(asked);
    const sim::Profile profile = sim::load_profile(library() + "/profiles/a100-80gb-sxm.json");
    const sim::Prediction prediction = sim::simulate(asked, profile, {}, "{}");
    const double bytes = 12.0 * static_cast<double>(planned.conserved.parameters) / 8;
    std::map<OpKind, double> count;
    for (const plan::Op* op : executed_ops(planned))
        count[op->kind()] += 1;
    const std::map<OpKind, std::pair<double, double>> links = {
        {OpKind::copy_to_device, {20e9, 10e-6}},
        {OpKind::copy_to_host, {20e9, 10e-6}},
        {OpKind::read_disk, {8e9 / 8, 50e-6}},
        {OpKind::write_disk, {4e9 / 8, 50e-6}}};
    double seconds = 0;
    for (const auto& [kind, link] : links) {
        const auto& sums = prediction.copies[trace::copy_index(kind)];
        EXPECT_DOUBLE_EQ(sums.bytes_per_rank, bytes) << name(kind);
        EXPECT_NEAR(sums.busy_s, bytes / link.first + count[kind] * link.second, 1e-9)
            << name(kind);
        seconds = std::max(seconds, sums.busy_s);
    }
    // Both directions at once: the step takes the slowest link's time, and not the sum of all.
    EXPECT_GT(prediction.step.time_s, seconds);
    double sum = 0;
    for (const double part : prediction.step.breakdown_s)
        sum += part;
    EXPECT_NEAR(sum, prediction.step.time_s, 1e-12);
}

TEST(OffloadMemory, BeyondWhatANodeHasDoesNotFit) {
    Sets sets = with_memory(
        {"layout.data_parallel=8", "layout.zero_stage=1", "layout.offload.optimizer=host"});
    const plan::Plan planned = plan_of(sets);
    const std::int64_t all = 12 * planned.conserved.parameters;  // 8 ranks of one node
    const sim::Profile profile = sim::load_profile(library() + "/profiles/a100-80gb-sxm.json");
    for (const bool enough : {true, false}) {
        plan::Scenario asked = scenario(sets);
        asked.cluster.host_memory.capacity_GB =
            static_cast<double>(all) / 1e9 * (enough ? 1.01 : 0.99);
        const sim::MemoryPrediction memory = sim::predict_memory(planned, asked, profile);
        EXPECT_EQ(memory.host.bytes, all);
        EXPECT_EQ(memory.host.ranks, 8);
        EXPECT_EQ(memory.verdict == sim::Verdict::exceeds, !enough);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
