// Offloading moves bytes and changes none: every layout trains what it trains without, to the last
// bit, under any timing of copies and whatever lies in memory that changes hands.
#include <gmock/gmock.h>

#include <filesystem>

#include "runtime/streams/disk_tier.hpp"
#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;

constexpr std::int64_t kSteps = 3;

Trained train_sets(Sets sets, const RunOptions& options, const char* precision = "fp32") {
    sets.push_back(std::string("training.precision=") + precision);
    return train(scenario(kGpt, sets), options);
}

RunOptions few_steps() {
    RunOptions options;
    options.steps = kSteps;
    return options;
}

class Offloaded : public testing::TestWithParam<NamedLayout> {};

TEST_P(Offloaded, TrainsWhatItDoesOnTheDevice) {
    const Trained expected = train_sets(on_the_device(GetParam()), few_steps());
    const Trained calm = train_sets(GetParam().sets, few_steps());
    expect_same_bits(calm, expected);
    for (const runtime::RankMemory& memory : calm.result.memory)
        EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        RunOptions delayed = few_steps();
        delayed.cpu.poison = true;
        delayed.cpu.delay_seed = seed;
        expect_same_bits(train_sets(GetParam().sets, delayed), expected);
    }
}

TEST_P(Offloaded, KeepsToItsTensors) {
    RunOptions watched = few_steps();
    watched.steps = 2;
    RunOptions calm = watched;
    watched.cpu.guard = true;
    watched.cpu.poison = true;
    expect_same_bits(train_sets(GetParam().sets, watched), train_sets(GetParam().sets, calm));
}

INSTANTIATE_TEST_SUITE_P(All, Offloaded, testing::ValuesIn(offload_layouts()),
                         [](const auto& tested) { return tested.param.name; });

// 16-bit parameters have fp32 masters among the states, and fp16 a loss scale to take off.
TEST(OffloadedHalf, TrainsWhatItDoesOnTheDevice) {
    for (const char* precision : {"fp16", "bf16"})
        for (const NamedLayout& named : offload_layouts())
            if (named.name == "infinity" || named.name == "all_tensor_pipeline_data")
                expect_same_bits(train_sets(named.sets, few_steps(), precision),
                                 train_sets(on_the_device(named), few_steps(), precision));
}

// A copy that reads before what it copies is there, or a use that does not wait for its copy.
TEST(OffloadMutation, AMissingFetchIsFound) {
    const std::vector<NamedLayout> all = offload_layouts();
    for (const char* name :
         {"optimizer_host", "gradients_host", "parameters_host_zero3", "activations_host_gpipe"}) {
        const auto named = std::find_if(all.begin(), all.end(),
                                        [&](const NamedLayout& n) { return n.name == name; });
        const Trained expected = train_sets(named->sets, few_steps());
        RunOptions faulty = few_steps();
        faulty.cpu.poison = true;
        int left_out = 0;
        faulty.change_plan = [&](plan::Plan& plan) {
            for (plan::Program& program : plan.programs)
                for (plan::Procedure& procedure : program.procedures)
                    left_out += static_cast<int>(
                        std::erase_if(procedure.uses, [&](const plan::BlockUse& use) {
                            return plan.blocks[static_cast<std::size_t>(use.block)]
                                       .ops.front()
                                       .kind() == plan::OpKind::copy_to_device;
                        }));
        };
        const Trained found = train_sets(named->sets, faulty);
        EXPECT_GT(left_out, 0) << name;
        EXPECT_NE(found.parameters, expected.parameters) << name;
    }
}

// Without the order that memory demands between copies and kernels, some delay shows it.
TEST(OffloadMutation, AMissingEdgeIsFound) {
    const std::vector<NamedLayout> all = offload_layouts();
    for (const char* name : {"optimizer_host", "activations_host_gpipe"}) {
        const auto named = std::find_if(all.begin(), all.end(),
                                        [&](const NamedLayout& n) { return n.name == name; });
        const Trained expected = train_sets(named->sets, few_steps());
        bool found = false;
        for (std::uint64_t seed = 1; seed <= 8 && !found; ++seed) {
            RunOptions faulty = few_steps();
            faulty.cpu.poison = true;
            faulty.cpu.delay_seed = seed;
            // Each copy has a slot to itself as far as its order goes.
            faulty.change_plan = [&](plan::Plan& plan) {
                for (plan::Program& program : plan.programs)
                    for (plan::Resident& resident : program.residents) {
                        resident.within = -1;
                        resident.reuses.clear();
                    }
            };
            found = train_sets(named->sets, faulty).parameters != expected.parameters;
        }
        EXPECT_TRUE(found) << name;
    }
}

std::string fault_of(const std::string& folder) {
    Sets sets = offload_cluster();
    sets.insert(sets.end(), {"layout.offload.optimizer=disk", "run.offload_path=" + folder});
    try {
        train_sets(sets, few_steps());
    } catch (const runtime::StorageError& error) {
        return error.what();
    }
    return "";
}

TEST(OffloadToDisk, NamesAFolderThatIsMissing) {
    EXPECT_THAT(fault_of("/no/such/folder"), HasSubstr("/no/such/folder: "));
    EXPECT_THAT(fault_of("/no/such/folder"), HasSubstr("No such file or directory"));
}

TEST(OffloadToDisk, LeavesNothing) {
    const std::string folder = testing::TempDir() + "offload-leaves-nothing";
    std::filesystem::create_directory(folder);
    EXPECT_EQ(fault_of(folder), "");
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    std::filesystem::remove(folder);
}

TEST(DiskTier, SaysThatADiskIsFull) {
    try {
        const runtime::DiskTier tier(testing::TempDir(), std::int64_t{1} << 60);
        FAIL() << "a disk with room for 2⁶⁰ bytes";
    } catch (const runtime::StorageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("no room for the 1152921504606846976 bytes"));
    }
}

TEST(DiskTier, KeepsWhatIsWritten) {
    runtime::DiskTier tier(testing::TempDir(), 4096);
    std::vector<std::byte> written(100, std::byte{7}), read(300);
    tier.write(1000, written);
    tier.read(900, read);
    for (std::size_t i = 0; i < read.size(); ++i)
        EXPECT_EQ(static_cast<int>(read[i]), i >= 100 && i < 200 ? 7 : 0) << i;
    EXPECT_THROW(tier.read(4000, read), runtime::StorageError);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
