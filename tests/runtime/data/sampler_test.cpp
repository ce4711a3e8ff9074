// Samples: each window once per epoch, and the same whoever asks for them in which order.
#include "runtime/data/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "runtime/data/permutation.hpp"
#include "tests/runtime/data/data_files.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DataFormat;
using testing::ElementsAre;

std::vector<std::uint64_t> order(std::uint64_t seed, std::uint64_t number, std::uint64_t n) {
    const Permutation permutation(seed, number, n);
    std::vector<std::uint64_t> places;
    for (std::uint64_t i = 0; i < n; ++i)
        places.push_back(permutation(i));
    return places;
}

RC_GTEST_PROP(Permutation, HasEachNumberOnce, ()) {
    const auto n = *rc::gen::inRange<std::uint64_t>(1, 3000);
    std::vector<std::uint64_t> places =
        order(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::arbitrary<std::uint32_t>(), n);
    std::sort(places.begin(), places.end());
    std::vector<std::uint64_t> numbers(n);
    std::iota(numbers.begin(), numbers.end(), 0);
    RC_ASSERT(places == numbers);
}

TEST(Permutation, ReachesAsFarAsSamplesCount) {
    const std::uint64_t n = std::uint64_t{1} << 62;
    const Permutation permutation(7, 0, n - 1);
    EXPECT_LT(permutation(n - 2), n - 1);
    EXPECT_NE(permutation(n - 2), permutation(n - 3));
}

// All 4! orders are equally likely over seeds, and so over epochs. Pearson's statistic of 24 cells
// has 23 degrees of freedom: mean 23, deviation √46 = 6.8, beyond 23 + 6 · 6.8 = 64 once in 10^5.
double statistic_of_orders(const std::function<std::vector<std::uint64_t>(std::uint64_t)>& draw) {
    constexpr std::uint64_t kDraws = 24 * 500;
    std::map<std::vector<std::uint64_t>, double> seen;
    for (std::uint64_t i = 0; i < kDraws; ++i)
        ++seen[draw(i)];
    EXPECT_EQ(seen.size(), 24U);
    double statistic = 0;
    for (const auto& [places, times] : seen)
        statistic += (times - 500) * (times - 500) / 500;
    return statistic;
}

TEST(Permutation, FavoursNoOrder) {
    EXPECT_LT(statistic_of_orders([](std::uint64_t seed) { return order(seed, 0, 4); }), 64);
    EXPECT_LT(statistic_of_orders([](std::uint64_t epoch) { return order(1234, epoch, 4); }), 64);
}

// A text whose bytes are 0, 1, 2, …: a token says where it stands.
class SamplerTest : public testing::Test {
  protected:
    TokenSource counting(int tokens) {
        std::string bytes;
        for (int i = 0; i < tokens; ++i)
            bytes += static_cast<char>(i);
        trace::put_file(folder_.file("t.txt"), bytes);
        return {folder_.file("t.txt"), DataFormat::text, 256};
    }

    trace::TestFolder folder_;
};

TEST_F(SamplerTest, CutsTheFileIntoWindowsWhoseTargetsAreOneAhead) {
    const TokenSource source = counting(3 * 4 + 1);
    const Sampler sampler(1, source, 4);
    ASSERT_EQ(sampler.windows(), 3);
    for (std::int64_t n = 0; n < 3; ++n) {
        std::vector<std::int32_t> inputs(4), targets(4);
        sampler.sample(n, inputs, targets);
        const auto first = static_cast<std::int32_t>(4 * sampler.window(n));
        EXPECT_THAT(inputs, ElementsAre(first, first + 1, first + 2, first + 3));
        EXPECT_THAT(targets, ElementsAre(first + 1, first + 2, first + 3, first + 4));
    }
}

TEST_F(SamplerTest, LeavesOutATailThatHasNoTargetsOfItsOwn) {
    EXPECT_EQ(Sampler(1, counting(12), 4).windows(), 2);
    EXPECT_EQ(Sampler(1, counting(5), 4).windows(), 1);
}

TEST_F(SamplerTest, SaysWhenAFileIsTooShort) {
    for (const int tokens : {0, 1, 4}) {
        const TokenSource source = counting(tokens);
        try {
            const Sampler sampler(1, source, 4);
            FAIL();
        } catch (const DataError& error) {
            EXPECT_EQ(error.what(), source.path() + ": " + std::to_string(tokens) +
                                        " tokens are too few: one sample takes sequence_length + 1 "
                                        "= 4 + 1 = 5, its inputs and the last one's target");
        }
    }
}

RC_GTEST_FIXTURE_PROP(SamplerTest, ShowsEachWindowOncePerEpoch, ()) {
    const TokenSource source = counting(*rc::gen::inRange(9, 256));
    const Sampler sampler(*rc::gen::arbitrary<std::uint64_t>(), source, *rc::gen::inRange(1, 9));
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<int> shown(static_cast<std::size_t>(sampler.windows()), 0);
        for (std::int64_t i = 0; i < sampler.windows(); ++i)
            ++shown.at(static_cast<std::size_t>(sampler.window(epoch * sampler.windows() + i)));
        RC_ASSERT(std::all_of(shown.begin(), shown.end(), [](int times) { return times == 1; }));
    }
}

TEST_F(SamplerTest, OrdersEpochsAndSeedsDifferently) {
    const TokenSource source = counting(201);
    auto windows = [&](std::uint64_t seed, std::int64_t epoch) {
        const Sampler sampler(seed, source, 2);
        std::vector<std::int64_t> shown;
        for (std::int64_t i = 0; i < 100; ++i)
            shown.push_back(sampler.window(100 * epoch + i));
        return shown;
    };
    EXPECT_NE(windows(1, 0), windows(1, 1));
    EXPECT_NE(windows(1, 0), windows(2, 0));
    EXPECT_EQ(windows(1, 1), windows(1, 1));
}

// What d ranks see of batches that grow, each of its own sampler over its own mapping of the file,
// put together by sample, is what one rank sees in one batch.
RC_GTEST_FIXTURE_PROP(SamplerTest, GivesRanksTogetherWhatItGivesOne, ()) {
    const TokenSource source = counting(250);
    const std::int64_t length = *rc::gen::inRange(1, 20);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const std::int64_t ranks = *rc::gen::inRange(1, 9);
    auto tokens_of = [&](const Sampler& sampler, std::int64_t n) {
        std::vector<std::int32_t> inputs(static_cast<std::size_t>(length)), targets = inputs;
        sampler.sample(n, inputs, targets);
        inputs.insert(inputs.end(), targets.begin(), targets.end());
        return inputs;
    };
    std::map<std::int64_t, std::vector<std::int32_t>> together;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const TokenSource own(source.path(), DataFormat::text, 256);
        const Sampler sampler(seed, own, length);
        std::int64_t consumed = 0;
        for (std::int64_t per_rank = 1; per_rank <= 4; ++per_rank) {
            for (std::int64_t i = 0; i < per_rank; ++i) {
                const std::int64_t n = consumed + rank * per_rank + i;
                together[n] = tokens_of(sampler, n);
            }
            consumed += ranks * per_rank;
        }
    }
    RC_ASSERT(std::ssize(together) == ranks * (1 + 2 + 3 + 4));
    const Sampler one(seed, source, length);
    for (const auto& [n, tokens] : together)
        RC_ASSERT(tokens_of(one, n) == tokens);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
