// What one rank alone has changed is found at the next comparison of replicas, by name and rank,
// whatever the layout; where nothing was changed, nothing is found and nothing is other than
// without.
#include <filesystem>

#include <gmock/gmock.h>

#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "runtime/train/replica_check.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Sets verified(Sets sets, int every) {
    sets.push_back("run.verify_replicas_every_steps=" + std::to_string(every));
    return sets;
}

// A bit of the first element that the rank holds of a tensor, after a step.
struct Flip {
    plan::Rank rank;
    std::string tensor;
    runtime::StateKind kind = runtime::StateKind::parameters;
    std::int64_t after_step = 3;
};

void apply(const Flip& flip, runtime::Device& device, const runtime::BoundProgram& program,
           const plan::Program& planned) {
    for (const runtime::StateRun& run : runtime::state_runs(program, planned, flip.kind)) {
        if (run.name != flip.tensor) continue;
        std::byte second{};
        device.read(run.offset + 1, {&second, 1});
        second ^= std::byte{0x40};
        device.write(run.offset + 1, {&second, 1});
        return;
    }
    ADD_FAILURE() << "rank " << flip.rank << " holds nothing of " << flip.tensor;
}

RunOptions flipping(const Flip& flip) {
    RunOptions options;
    options.steps = 6;
    options.after_step = [flip](plan::Rank rank, runtime::Device& device,
                                const runtime::BoundProgram& program, const plan::Program& planned,
                                std::int64_t step) {
        if (rank == flip.rank && step == flip.after_step) apply(flip, device, program, planned);
    };
    return options;
}

struct Found {
    std::string message;
    std::optional<plan::Rank> odd;
    std::size_t steps = 0;
};

Found found_by_verifying(const Sets& sets, const Flip& flip) {
    const plan::Scenario tested = scenario(kGpt, sets);
    Found found;
    RunOptions options = flipping(flip);
    options.stepped = [&](const runtime::StepReport&) { ++found.steps; };
    try {
        train(tested, options);
    } catch (const runtime::ReplicaError& error) {
        found.message = error.what();
        found.odd = error.odd_rank();
    }
    return found;
}

const std::string kOneLayer = "model.n_layer=1";
// Parameters of 16 bits are made anew from their masters in every step: what changed in one is gone
// after the next.
const std::string kWide = "training.precision=fp32";

TEST(Replicas, AFlippedBitIsFoundAtTheNextHashAndTheRankThatHasIt) {
    const Found found = found_by_verifying(
        verified({"layout.data_parallel=4", kOneLayer, kWide}, 2), {2, "layer.0/qkv.weight"});
    EXPECT_EQ(found.steps, 4U) << "after steps 2 and 4 they are compared";
    EXPECT_THAT(found.message, StartsWith("after step 4 the replicas of layer.0/"));
    EXPECT_THAT(found.message, HasSubstr(" are not the same: rank 2 on "));
    EXPECT_THAT(found.message, HasSubstr(" holds other bits than ranks 0, 1 and 3"));
    EXPECT_EQ(found.odd, 2);
    const Found at_once = found_by_verifying(verified({"layout.data_parallel=4", kOneLayer}, 1),
                                             {1, "layer.0/qkv.weight"});
    EXPECT_EQ(at_once.steps, 3U);
    EXPECT_THAT(at_once.message,
                StartsWith("after step 3 the replicas of layer.0/qkv.weight are not the same: "));
    EXPECT_EQ(at_once.odd, 1);
}

TEST(Replicas, OfTwoNobodyIsBlamed) {
    const Found found = found_by_verifying(verified({"layout.data_parallel=2", kOneLayer}, 1),
                                           {1, "layer.0/qkv.weight"});
    EXPECT_THAT(found.message, HasSubstr("ranks 0 on "));
    EXPECT_THAT(found.message, HasSubstr("differ, and no majority says which is right"));
    EXPECT_EQ(found.odd, std::nullopt);
}

struct HeldTwice {
    const char* name;
    Sets sets;
    Flip flip;
    std::string compared;  // what the message calls it
};
void PrintTo(const HeldTwice& tested, std::ostream* os) {
    *os << tested.name;
}

class HeldByOthers : public testing::TestWithParam<HeldTwice> {};

TEST_P(HeldByOthers, IsCompared) {
    Sets sets = verified(GetParam().sets, 1);
    const Found found = found_by_verifying(sets, GetParam().flip);
    EXPECT_EQ(found.steps, 3U);
    EXPECT_THAT(found.message,
                StartsWith("after step 3 the replicas of " + GetParam().compared + " are not"));
}

using runtime::StateKind;

INSTANTIATE_TEST_SUITE_P(
    All, HeldByOthers,
    testing::Values(HeldTwice{"norm_of_tensor_ranks",
                              {"layout.tensor_parallel=4", kOneLayer},
                              {3, "layer.0/norm1.weight"},
                              "layer.0/norm1.weight"},
                    HeldTwice{"tied_embedding_of_first_and_last_stage",
                              {"layout.pipeline_parallel=2", "model.n_layer=2"},
                              {1, "embedding.weight"},
                              "embedding.weight"},
                    HeldTwice{"master_of_16_bits",
                              {"layout.data_parallel=2", kOneLayer, "training.precision=bf16"},
                              {1, "layer.0/qkv.weight", StateKind::masters},
                              "layer.0/qkv.weight:master"},
                    HeldTwice{"moment",
                              {"layout.data_parallel=2", kOneLayer},
                              {0, "layer.0/qkv.weight", StateKind::second_moments},
                              "layer.0/qkv.weight:second_moment"},
                    HeldTwice{"parameter_of_zero_1",
                              {"layout.data_parallel=2", "layout.zero_stage=1", kOneLayer},
                              {0, "layer.0/qkv.weight"},
                              "layer.0/qkv.weight"},
                    HeldTwice{"shard_of_hybrid_zero_3",
                              {"layout.data_parallel=4", "layout.zero_stage=3",
                               "layout.zero_group_size=2", kOneLayer},
                              {2, "embedding.weight", StateKind::first_moments},
                              "embedding.weight:first_moment"}),
    [](const auto& tested) { return tested.param.name; });

// All states of ZeRO-3 over all ranks are held once; norms of tensor ranks still twice.
TEST(Replicas, WhatIsHeldOnceIsNotCompared) {
    const Found found = found_by_verifying(
        verified({"layout.data_parallel=4", "layout.zero_stage=3", kOneLayer}, 1),
        {2, "embedding.weight"});
    EXPECT_EQ(found.message, "");
}

TEST(Replicas, ThatAreSoundAreFoundSoAndChangeNothing) {
    for (const Sets& sets :
         {Sets{"layout.tensor_parallel=2", "layout.pipeline_parallel=2", "layout.data_parallel=2",
               "layout.sequence_parallel=true"},
          Sets{"layout.data_parallel=4", "layout.zero_stage=2", "training.precision=bf16"},
          Sets{"layout.pipeline_parallel=2", "layout.data_parallel=2", "layout.virtual_pipeline=2",
               "layout.schedule=zb-v", "layout.zero_stage=1"},
          Sets{"layout.data_parallel=2",
               R"(training.batch_ramp={"start_batch_size": 4, "increment": 2, "over_samples": 8})"},
          Sets{"layout.pipeline_parallel=2", "layout.data_parallel=2", "layout.schedule=zb-h1",
               "layout.optimizer_post_validation=true"}}) {
        SCOPED_TRACE(testing::PrintToString(sets));
        RunOptions options;
        options.steps = 4;
        const Trained calm = train(scenario(kGpt, sets), options);
        const Trained watched = train(scenario(kGpt, verified(sets, 1)), options);
        EXPECT_EQ(watched.losses, calm.losses);
        EXPECT_EQ(watched.parameters, calm.parameters);
    }
}

TEST(Replicas, ThatDifferAreNotSaved) {
    const std::string path = testing::TempDir() + "corrupted";
    std::filesystem::remove_all(path);
    const plan::Scenario tested = scenario(
        kGpt,
        verified({"layout.data_parallel=2", kOneLayer, kWide}, 100));  // before a save all the same
    RunOptions options = flipping({0, "layer.0/qkv.weight"});
    options.checkpoint.emplace();
    options.checkpoint->path = path;
    options.checkpoint->every_steps = 2;
    EXPECT_THROW(train(tested, options), runtime::ReplicaError);
    const auto saved = runtime::checkpoints_in(path);
    EXPECT_LE(saved.size(), 1U);
    for (const auto& each : saved)
        EXPECT_EQ(each.step, 2) << "the one of step 4 would have been of what was changed";
    std::filesystem::remove_all(path);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
