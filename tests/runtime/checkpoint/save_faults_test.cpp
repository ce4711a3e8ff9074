// Whatever call of a save fails, or is the last of its process, the newest checkpoint that has its
// name is whole, and from the first one on there is one.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"
#include "tests/runtime/checkpoint/faulty_files.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

constexpr std::int64_t kElements = 12, kShards = 2, kSaves = 3;

float value_of(std::int64_t step, Quantity quantity, std::int64_t element) {
    return static_cast<float>(step * 1000 + static_cast<std::int64_t>(quantity) * 100 + element);
}

// Shard `number` has every other element.
std::vector<float> values_of(std::int64_t step, std::int64_t number) {
    std::vector<float> values;
    for (const Quantity quantity : kQuantities)
        for (std::int64_t i = number; i < kElements; i += kShards)
            values.push_back(value_of(step, quantity, i));
    return values;
}

void save(Files& files, const std::string& path, std::int64_t step, const Others& others) {
    const CheckpointPlace place{files, path, "0123456789abcdef"};
    begin_checkpoint(place, step);
    Manifest manifest;
    manifest.progress.step = step;
    manifest.tensors["weights"] = {3, 4};
    for (std::int64_t number = 0; number < kShards; ++number) {
        const std::vector<float> values = values_of(step, number);
        std::vector<PieceBytes> pieces;
        auto bytes = std::as_bytes(std::span(values));
        for (const Quantity quantity : kQuantities) {
            Piece piece{"weights", quantity, "F32", {}, {}};
            for (std::int64_t i = number; i < kElements; i += kShards)
                append_run(piece.slices, i, 1);
            const auto size = static_cast<std::size_t>(piece.elements()) * sizeof(float);
            pieces.push_back({piece, bytes.first(size)});
            bytes = bytes.subspan(size);
        }
        manifest.shards.push_back(
            write_shard(place, step, "shard-" + std::to_string(number), pieces));
    }
    publish_checkpoint(place, manifest, others);
}

void expect_whole(const FoundCheckpoint& found) {
    const CheckpointReader checkpoint(found.path);
    EXPECT_EQ(checkpoint.manifest().progress.step, found.step);
    for (std::size_t shard = 0; shard < kShards; ++shard)
        checkpoint.verify_shard(shard);
    for (const Quantity quantity : kQuantities) {
        std::vector<double> values(kElements);
        checkpoint.read("weights", quantity, 0, values);
        for (std::int64_t i = 0; i < kElements; ++i)
            EXPECT_EQ(values[static_cast<std::size_t>(i)], value_of(found.step, quantity, i));
    }
}

class SaveFaults : public testing::TestWithParam<Fault> {};

TEST_P(SaveFaults, LeaveTheNewestCheckpointWholeWhereverTheyStrike) {
    const std::string path = testing::TempDir() + "faults";
    for (const std::int64_t keep : {0, 1}) {
        bool struck = true;
        for (int at = 0; struck; ++at) {
            SCOPED_TRACE("call " + std::to_string(at) + ", keep " + std::to_string(keep));
            ASSERT_LT(at, 1000);
            fs::remove_all(path);
            FaultyFiles files(GetParam(), at);
            std::int64_t saved = 0;
            try {
                for (std::int64_t step = 1; step <= kSaves; ++step) {
                    save(files, path, step, {keep, false});
                    saved = step;
                }
            } catch (const StorageError&) {
            }
            struck = files.has_struck();
            files.lose();
            const auto found = checkpoints_in(path);
            ASSERT_TRUE(saved == 0 || !found.empty());
            for (const FoundCheckpoint& each : found)
                expect_whole(each);
            EXPECT_TRUE(found.empty() || found.front().step >= saved);
            // And the next run finds its way.
            UnsynchronisedFiles sound;
            remove_unfinished(sound, path);
            save(sound, path, kSaves + 1, {keep, false});
            expect_whole(checkpoints_in(path).front());
            EXPECT_TRUE(keep == 0 || std::ssize(checkpoints_in(path)) <= keep);
        }
    }
    fs::remove_all(path);
}

std::string name_of(const testing::TestParamInfo<Fault>& tested) {
    constexpr const char* kNames[] = {"fails", "kills", "power_goes", "power_goes_late"};
    return kNames[static_cast<int>(tested.param)];
}

INSTANTIATE_TEST_SUITE_P(All, SaveFaults,
                         testing::Values(Fault::fails, Fault::kills, Fault::power_goes,
                                         Fault::power_goes_late),
                         name_of);

// What is saved first of a run that was not told to go on: the other run's stay, in the folder or
// in the one that they are moved to.
TEST(SaveFaults, LoseNothingOfAnEarlierRun) {
    const std::string path = testing::TempDir() + "earlier";
    bool struck = true;
    for (int at = 0; struck; ++at) {
        SCOPED_TRACE("call " + std::to_string(at));
        fs::remove_all(path);
        UnsynchronisedFiles sound;
        for (const std::int64_t step : {1, 2, 7})
            save(sound, path, step, {});
        FaultyFiles files(Fault::kills, at);
        bool saved = false;
        try {
            save(files, path, 2, {0, true});
            saved = true;
        } catch (const StorageError&) {
        }
        struck = files.has_struck();
        std::vector<FoundCheckpoint> all = checkpoints_in(path);
        const auto aside = checkpoints_in(path + "/earlier-1");
        EXPECT_EQ(all.size() + aside.size(),
                  saved ? 4U : 3U + (all.size() == 1 && aside.size() == 3));
        EXPECT_TRUE(!saved || all.size() == 1);
        all.insert(all.end(), aside.begin(), aside.end());
        for (const FoundCheckpoint& each : all)
            expect_whole(each);
    }
    fs::remove_all(path);
}

TEST(SaveFaults, ThatCannotBeginNameThePath) {
    try {
        begin_checkpoint({disk_files(), "/proc/no/such", "0123456789abcdef"}, 1);
        ADD_FAILURE();
    } catch (const StorageError& failed) {
        EXPECT_EQ(std::string(failed.what()).substr(0, 8), "/proc/no") << failed.what();
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
