// Training on the emulated device, whose kernels prepare before the first step what the plan's ops
// will ask of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/train/agreement.hpp"
#include "tests/gpu/emulation/cublasLt.h"
#include "tests/parity/host_streams.hpp"
#include "tests/parity/run.hpp"

namespace orrery::runtime {
namespace {

using emulation::products;
using parity::Sets;
using parity::Trained;

// Makes a rank's driver, on the rank's thread.
using MakeDriver = std::function<std::unique_ptr<StreamDriver>(int rank)>;

struct PreparedSteps : testing::Test {
    const std::string file = testing::TempDir() + "/choices.json";

    // One layer, whose products are all that a decoder has, as a rank and as two.
    static Sets sets(const Sets& more) {
        Sets all = {"model.n_layer=1",
                    "model.n_embd=16",
                    "model.n_head=2",
                    "training.sequence_length=8",
                    "training.precision=fp32",
                    "layout.global_batch_size=4",
                    "layout.micro_batch_size=1",
                    "cluster.devices_per_node=1"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }

    static Trained train(const MakeDriver& make, const Sets& more = {},
                         const parity::RunOptions& asked = {}, bool keep_layers = false) {
        parity::RunOptions options = asked;
        options.steps = 3;
        StreamBackendOptions streams;
        streams.streams.keep_layers = keep_layers;
        StreamBackend backend({2, make, parity::host_devices(2).collectives}, std::nullopt,
                              streams);
        options.backend = &backend;
        return parity::train(parity::scenario(parity::kGpt, sets(more)), options);
    }

    std::string content() const {
        std::ifstream stream(file, std::ios::binary);
        return {std::istreambuf_iterator<char>(stream), {}};
    }

    // Of which `algorithm` is the fastest.
    MakeDriver preferring(std::uint64_t algorithm) const {
        return [this, algorithm](int) {
            products().ms = [algorithm](std::uint64_t timed, std::int64_t) {
                return timed == algorithm ? 1.0 : 2.0;
            };
            return make_cuda_driver(0, {file});
        };
    }
};

const MakeDriver kWithoutFile = [](int) { return make_cuda_driver(0); };

const Sets kOnTwo = {"layout.data_parallel=2", "cluster.devices_per_node=2", "layout.zero_stage=1"};

// With and without a file, and in layouts whose ops share out tokens, exchange heads, run on or
// validate later.
TEST_F(PreparedSteps, SearchForNoProductWithinAStep) {
    const std::vector<Sets> layouts = {
        {},
        {"layout.tensor_parallel=2", "layout.sequence_parallel=true", "cluster.devices_per_node=2"},
        {"training.precision=fp8", "training.fp8_recipe=tensorwise", "training.sequence_length=16"},
        {"layout.data_parallel_mode=parameter_server", "layout.zero_stage=1",
         "layout.staleness=1"}};
    for (const Sets& layout : layouts)
        for (const std::string& choices : {std::string(), file}) {
            std::mutex mutex;
            std::map<std::thread::id, std::vector<std::int64_t>> searches;  // before each step
            parity::RunOptions options;
            options.change_inputs = [&](StepInputs&) {
                const std::lock_guard lock(mutex);
                searches[std::this_thread::get_id()].push_back(products().searches);
            };
            train([&](int) { return make_cuda_driver(0, {choices}); }, layout, options);
            EXPECT_FALSE(searches.empty());
            for (const auto& [rank, before] : searches) {
                ASSERT_EQ(before.size(), 3U);
                EXPECT_EQ(before[0], before[2]) << (layout.empty() ? "" : layout.front());
                EXPECT_TRUE(before[0] > 0 || !choices.empty());
            }
        }
}

// To lock memory may wait for the device, and the device for a rank that never comes.
TEST_F(PreparedSteps, LockNoMemoryWithinAStep) {
    const std::vector<Sets> layouts = {{},
                                       kOnTwo,
                                       {"layout.data_parallel_mode=parameter_server",
                                        "layout.zero_stage=1", "layout.staleness=1"}};
    for (const Sets& layout : layouts) {
        std::mutex mutex;
        std::map<std::thread::id, std::vector<std::int64_t>> locked;  // before each step
        parity::RunOptions options;
        options.change_inputs = [&](StepInputs&) {
            const std::lock_guard lock(mutex);
            locked[std::this_thread::get_id()].push_back(emulation::pinned_allocations);
        };
        train(kWithoutFile, layout, options);
        EXPECT_FALSE(locked.empty());
        for (const auto& [rank, before] : locked) {
            ASSERT_EQ(before.size(), 3U);
            EXPECT_GT(before[0], 0);
            EXPECT_EQ(before[0], before[2]);
        }
    }
}

// In the second and the third step, of which the second captures. What is captured may not allocate
// nor wait, which the emulated calls refuse.
TEST_F(PreparedSteps, HaveTheSameBitsWhereLayersAreCaptured) {
    const std::vector<Sets> layouts = {
        {},
        {"training.precision=bf16", "layout.recompute=full"},
        {"training.attention_kernel=unfused", "training.dropout=0.1"},
        {"layout.tensor_parallel=2", "layout.sequence_parallel=true", "cluster.devices_per_node=2"},
        {"training.precision=fp8", "training.fp8_recipe=tensorwise",
         "training.sequence_length=16"}};
    for (const Sets& layout : layouts) {
        SCOPED_TRACE(testing::PrintToString(layout));
        std::mutex mutex;
        std::map<std::thread::id, std::vector<std::int64_t>> launches;  // before each step
        parity::RunOptions options;
        options.change_inputs = [&](StepInputs&) {
            const std::lock_guard lock(mutex);
            launches[std::this_thread::get_id()].push_back(emulation::graph_launches);
        };
        const Trained captured = train(kWithoutFile, layout, options, true);
        parity::expect_same_bits(captured, train(kWithoutFile, layout));
        EXPECT_FALSE(launches.empty());
        for (const auto& [rank, before] : launches) {
            ASSERT_EQ(before.size(), 3U);
            EXPECT_EQ(before[0], before[1]) << "the first step loads and allocates";
            EXPECT_GE(before[2] - before[1], 2) << "forward and backward";
        }
    }
}

TEST_F(PreparedSteps, HaveTheBitsOfTheFirstAlgorithmsWhereTheseAreFastest) {
    for (const Sets& layout : {Sets{}, kOnTwo}) {
        std::filesystem::remove(file);
        const Trained alone = train(kWithoutFile, layout);
        parity::expect_same_bits(train(preferring(emulation::kFirst), layout), alone);
        const auto entries = nlohmann::json::parse(content()).at("choices");
        EXPECT_GT(entries.size(), 10U);
        for (const auto& entry : entries)
            EXPECT_EQ(entry.at("algorithm"), std::string(128, '0'));
    }
}

TEST_F(PreparedSteps, TrainTheSameModelByTheFastest) {
    const Trained alone = train(kWithoutFile), run = train(preferring(emulation::kFaster));
    EXPECT_FALSE(run.gradients == alone.gradients);  // else it would not have been used
    const parity::Difference apart = parity::difference(run.gradients, alone.gradients);
    EXPECT_LT(apart.relative, parity::kFp32.gradient) << apart.name;
    for (std::size_t step = 0; step < run.losses.size(); ++step)
        EXPECT_NEAR(run.losses[step] / alone.losses[step], 1, parity::kFp32.loss);
}

// The first rank to come has the say, whichever it is: the file has it, for both and from then on.
TEST_F(PreparedSteps, HaveTheSameBitsInEveryRunWithOneFile) {
    const auto by_rank = [&](std::uint64_t one, std::uint64_t other) {
        return [this, one, other](int rank) { return preferring(rank == 0 ? one : other)(rank); };
    };
    const Trained first = train(by_rank(emulation::kFaster, emulation::kSlowest), kOnTwo);
    EXPECT_TRUE(first.disagreement.empty()) << first.disagreement;
    const std::string choices = content();
    const Trained second = train(by_rank(emulation::kSlowest, emulation::kFirst), kOnTwo);
    parity::expect_same_bits(second, first);
    EXPECT_EQ(content(), choices);
}

TEST_F(PreparedSteps, DoNotBeginWhereRanksHaveFilesOfTheirOwn) {
    try {
        train([&](int rank) { return make_cuda_driver(0, {file + std::to_string(rank)}); }, kOnTwo);
        ADD_FAILURE() << "has trained";
    } catch (const DisagreementError& error) {
        EXPECT_NE(std::string(error.what()).find(" in /run/product_choices: the file with id "),
                  std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace orrery::runtime
