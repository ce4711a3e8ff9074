// Samples that are read while a step runs are those of the next one, and nobody waits for them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "runtime/train/sample_feed.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using std::chrono::milliseconds;

SampleRequest request_of(std::int64_t first, std::int64_t data_parallel = 1,
                         std::int64_t data_rank = 0) {
    SampleRequest request;
    request.first = first;
    request.mesh.data = data_parallel;
    request.micro_batches = 4 / data_parallel;
    request.tokens.sequence = 2;
    request.at.data = data_rank;
    request.needed = true;
    return request;
}

void number_of(std::int64_t sample, std::span<std::int32_t> tokens,
               std::span<std::int32_t> targets) {
    std::fill(tokens.begin(), tokens.end(), static_cast<std::int32_t>(sample));
    std::fill(targets.begin(), targets.end(), static_cast<std::int32_t>(sample + 1));
}

TEST(SampleFeed, SharesOutAStepsSamplesInTurn) {
    const SampleReader reader = number_of;
    SampleFeed feed(reader);
    using Tokens = std::vector<std::int32_t>;
    EXPECT_EQ(feed.take(request_of(8)).tokens[0], (Tokens{8, 8, 9, 9, 10, 10, 11, 11}));
    EXPECT_EQ(feed.take(request_of(8, 2, 1)).tokens[0], (Tokens{9, 9, 11, 11}));
    SampleRequest nobody = request_of(8);
    nobody.needed = false;
    EXPECT_TRUE(feed.take(nobody).tokens[0].empty());
}

// A token, the next one and the one after it stand in one place, whoever holds it; the last of a
// sample has no third.
TEST(SampleFeed, LooksAheadWithinASample) {
    const SampleReader reader = [](std::int64_t, std::span<std::int32_t> tokens,
                                   std::span<std::int32_t> targets) {
        std::iota(tokens.begin(), tokens.end(), 20);
        std::iota(targets.begin(), targets.end(), 21);
    };
    SampleFeed feed(reader);
    SampleRequest request = request_of(0);
    request.micro_batches = 1;
    request.tokens.sequence = 8;
    request.mesh.context = 2;
    request.tokens.zigzag = true;
    using Tokens = std::vector<std::int32_t>;
    const RankSamples first = feed.take(request);  // of four pairs the first and the last
    EXPECT_EQ(first.tokens,
              (std::array<Tokens, 3>{Tokens{20, 21, 26, 27}, {21, 22, 27, 28}, {22, 23, 28, -1}}));
    request.at.context = 1;
    EXPECT_EQ(feed.take(request).tokens[2], (Tokens{24, 25, 26, 27}));
}

TEST(SampleFeed, ReadsAheadWhatIsExpected) {
    std::atomic<int> read{0};
    const SampleReader reader = [&](std::int64_t sample, std::span<std::int32_t> tokens,
                                    std::span<std::int32_t> targets) {
        std::this_thread::sleep_for(milliseconds(10));
        number_of(sample, tokens, targets);
        ++read;
    };
    SampleFeed feed(reader);
    feed.take(request_of(0));
    EXPECT_GE(feed.waited_s(), 0.04) << "four samples that nobody had read ahead";
    feed.expect(request_of(4));
    while (read < 8)  // a step
        std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(feed.take(request_of(4)).tokens[0].front(), 4);
    EXPECT_LT(feed.waited_s(), 0.04);
    EXPECT_EQ(read, 8) << "once each";
    feed.expect(request_of(8));
    EXPECT_EQ(feed.take(request_of(100)).tokens[0].front(), 100) << "not what was expected";
}

TEST(SampleFeed, ThrowsWhatTheReaderThrewWhenTheSamplesAreTaken) {
    const SampleReader reader = [&](std::int64_t sample, std::span<std::int32_t>,
                                    std::span<std::int32_t>) {
        if (sample >= 4) throw std::runtime_error("no such sample");
    };
    SampleFeed feed(reader);
    feed.take(request_of(0));
    feed.expect(request_of(4));
    EXPECT_THROW(feed.take(request_of(4)), std::runtime_error);
    feed.expect(request_of(8));  // and is not taken
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
