// Slices that together have as many elements as their tensor cover it, or two of them overlap.
#include "runtime/checkpoint/slice_cover.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

TEST(SliceCover, FindsTheElementThatIsThereTwice) {
    const std::vector<Slice> rows = {{0, 6, 0, 1}, {6, 6, 0, 1}};
    EXPECT_EQ(cover_fault(rows), "");
    const std::vector<Slice> columns = {{0, 2, 4, 3}, {2, 2, 4, 3}};
    EXPECT_EQ(cover_fault(columns), "");
    const std::vector<Slice> same = {{0, 6, 0, 1}, {0, 6, 0, 1}};
    EXPECT_EQ(cover_fault(same), "element 0 is there twice");
    const std::vector<Slice> crossed = {{0, 2, 4, 3}, {1, 2, 4, 3}};
    EXPECT_EQ(cover_fault(crossed), "element 1 is there twice");
}

TEST(SliceCover, RefusesWhatIsCutBeyondMeasure) {
    const std::int64_t many = std::int64_t{1} << 40;
    const std::vector<Slice> slices = {{0, 1, 2, many}, {1, 1, 2, many}};
    EXPECT_EQ(cover_fault(slices), "it is cut into more than 16777216 runs");
}

// Against a count of every element.
TEST(SliceCover, AgreesWithCounting) {
    std::mt19937 random(7);
    int faults = 0;
    for (int trial = 0; trial < 2000; ++trial) {
        std::vector<Slice> slices;
        std::vector<int> times(64, 0);
        for (int i = 0; i < 3; ++i) {
            const auto elements = static_cast<std::int64_t>(random() % 4 + 1);
            const auto stride = elements + static_cast<std::int64_t>(random() % 8);
            const auto count = static_cast<std::int64_t>(random() % 3 + 1);
            const auto first = static_cast<std::int64_t>(random() % 24);
            slices.push_back({first, elements, stride, count});
            for (std::int64_t run = 0; run < count; ++run)
                for (std::int64_t at = 0; at < elements; ++at)
                    ++times[static_cast<std::size_t>(first + run * stride + at)];
        }
        bool twice = false;
        for (const int each : times)
            twice = twice || each > 1;
        EXPECT_EQ(!cover_fault(slices).empty(), twice) << "trial " << trial;
        faults += twice ? 1 : 0;
    }
    EXPECT_GT(faults, 100);
    EXPECT_LT(faults, 1900);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
