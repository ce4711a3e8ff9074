#include "runtime/comm/reduce.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/runtime/comm/elements.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

template <typename Element>
std::vector<Element> reduced(plan::DType dtype, Reduction reduction,
                             const std::vector<std::vector<Element>>& addends) {
    std::vector<const void*> sources;
    for (const auto& addend : addends)
        sources.push_back(addend.data());
    std::vector<Element> result(addends.front().size());
    reduce(dtype, reduction, sources, 0, static_cast<std::int64_t>(result.size()), result.data());
    return result;
}

// 2^27 + 1 is 2^27 in fp32 (its last place is 2^4), so that it shows what is added to what.
TEST(Reduce, AddsNeighboursThenTheirSums) {
    const float large = 0x1p27F;
    using Addends = std::vector<std::vector<float>>;
    const auto sum = [](const Addends& addends) {
        return reduced(plan::DType::fp32, Reduction::sum, addends).front();
    };
    EXPECT_EQ(sum({{large}, {1}, {-large}, {1}}), 0.0F);  // (large + 1) + (−large + 1)
    EXPECT_EQ(sum({{large}, {-large}, {1}, {1}}), 2.0F);
    EXPECT_EQ(sum({{1}, {1}, {large}, {-large}}), 2.0F);
    EXPECT_EQ(sum({{large}, {1}, {-large}}), 0.0F);                      // (large + 1) − large
    EXPECT_EQ(sum({{large}, {1}, {1}, {1}, {-large}, {1}}), 0.0F);       // … + (−large + 1)
    EXPECT_EQ(sum({{0}, {0}, {large}, {0}, {-large}, {0}, {1}}), 0.0F);  // large + (−large + 1)
}

// What a rank has summed of a power of two of addends in a row joins those of others as if all had
// been summed at once: experts' gradients, by rank, are the same bits wherever experts are.
TEST(Reduce, OfSumsIsTheSumOfAll) {
    for (const std::size_t each : {2U, 4U, 8U})
        for (const std::size_t ranks : {1U, 2U, 3U, 5U, 6U}) {
            constexpr std::int64_t kElements = 37;
            std::vector<Bytes> addends;
            for (std::size_t k = 0; k < ranks * each; ++k)
                addends.push_back(arbitrary(plan::DType::fp32, kElements, 5 + k));
            std::vector<Bytes> sums;
            for (std::size_t rank = 0; rank < ranks; ++rank)
                sums.push_back(sum_in_pairs(
                    plan::DType::fp32,
                    {addends.begin() + static_cast<std::ptrdiff_t>(rank * each),
                     addends.begin() + static_cast<std::ptrdiff_t>((rank + 1) * each)}));
            std::vector<const void*> sources;
            for (const Bytes& sum : sums)
                sources.push_back(sum.data());
            Bytes total(sums.front().size());
            reduce(plan::DType::fp32, Reduction::sum, sources, 0, kElements, total.data());
            EXPECT_EQ(total, sum_in_pairs(plan::DType::fp32, addends)) << ranks << " × " << each;
        }
}

// 1 and four times half of its last place: rounded after each addition (ties to even) it stays 1,
// rounded once it is 1 and two last places.
TEST(Reduce, RoundsSixteenBitsOnce) {
    const float bf16_place = 0x1p-7F;
    const float fp16_place = 0x1p-10F;
    std::vector<std::vector<BFloat16>> brain{{to_bfloat16(1)}};
    std::vector<std::vector<Half>> half{{to_half(1)}};
    for (int i = 0; i < 4; ++i) {
        brain.push_back({to_bfloat16(bf16_place / 2)});
        half.push_back({to_half(fp16_place / 2)});
    }
    EXPECT_EQ(to_float(reduced(plan::DType::bf16, Reduction::sum, brain).front()),
              1 + 2 * bf16_place);
    EXPECT_EQ(to_float(reduced(plan::DType::fp16, Reduction::sum, half).front()),
              1 + 2 * fp16_place);
}

// Their sum leaves what fp16 can hold, and comes back.
TEST(Reduce, OverflowsAtTheEndOnly) {
    const std::vector<std::vector<Half>> addends{
        {to_half(60000)}, {to_half(60000)}, {to_half(-60000)}};
    EXPECT_EQ(to_float(reduced(plan::DType::fp16, Reduction::sum, addends).front()),
              to_float(to_half(60000)));
    const std::vector<std::vector<Half>> too_large{{to_half(60000)}, {to_half(60000)}};
    EXPECT_TRUE(
        std::isinf(to_float(reduced(plan::DType::fp16, Reduction::sum, too_large).front())));
}

TEST(Reduce, WrapsIntegersAround) {
    using Bytewise = std::vector<std::vector<std::uint8_t>>;
    EXPECT_EQ(reduced(plan::DType::u8, Reduction::sum, Bytewise{{200}, {100}}).front(), 44);
    using Wordwise = std::vector<std::vector<std::int32_t>>;
    const std::int32_t most = std::numeric_limits<std::int32_t>::max();
    EXPECT_EQ(reduced(plan::DType::i32, Reduction::sum, Wordwise{{most}, {1}}).front(),
              std::numeric_limits<std::int32_t>::min());
}

TEST(Reduce, FindsTheLargest) {
    using Reals = std::vector<std::vector<float>>;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto largest = reduced(plan::DType::fp32, Reduction::max,
                                 Reals{{-3, 1, nan, 0}, {-2, 5, 7, nan}, {-4, 2, 9, 1}});
    EXPECT_EQ(largest[0], -2);
    EXPECT_EQ(largest[1], 5);
    EXPECT_TRUE(std::isnan(largest[2]));
    EXPECT_TRUE(std::isnan(largest[3]));
    using Wordwise = std::vector<std::vector<std::int32_t>>;
    EXPECT_EQ(reduced(plan::DType::i32, Reduction::max, Wordwise{{-7}, {-5}, {-6}}).front(), -5);
    const std::vector<std::vector<BFloat16>> brain{{to_bfloat16(-2)}, {to_bfloat16(-1)}};
    EXPECT_EQ(to_float(reduced(plan::DType::bf16, Reduction::max, brain).front()), -1);
}

// Ranges of odd beginnings and ends, into one of the addends or elsewhere: the bits of the whole.
TEST(Reduce, GivesTheSameBitsInPieces) {
    constexpr std::int64_t kElements = 5003;
    for (const plan::DType dtype : kAllDTypes) {
        std::vector<Bytes> addends;
        for (std::uint64_t k = 0; k < 5; ++k)
            addends.push_back(arbitrary(dtype, kElements, 17 + k));
        const Bytes whole = sum_in_pairs(dtype, addends);
        const std::int64_t width = plan::size_bytes(dtype);
        std::vector<const void*> sources;
        for (const Bytes& addend : addends)
            sources.push_back(addend.data());
        Bytes apart(whole.size());
        std::int64_t first = 0;
        for (std::int64_t count = 1; first < kElements; count = count * 3 + 1) {
            const std::int64_t n = std::min(count, kElements - first);
            reduce(dtype, Reduction::sum, sources, first, n, apart.data() + first * width);
            first += n;
        }
        EXPECT_EQ(apart, whole) << plan::name(dtype);
        reduce(dtype, Reduction::sum, sources, 0, kElements, addends[2].data());
        EXPECT_EQ(addends[2], whole) << plan::name(dtype);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
