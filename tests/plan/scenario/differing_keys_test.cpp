#include "plan/scenario/differing_keys.hpp"

#include <gtest/gtest.h>

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

TEST(DifferingKeys, HavePointersAndValues) {
    const auto keys = differing_keys(
        R"({"layout": {"a": 1, "b": [1, 2], "gone": true}, "x/y": {"source": "p", "v": 1}})",
        R"({"layout": {"a": 1, "b": [2, 1], "new": "n"}, "x/y": {"source": "q", "v": 2}})");
    ASSERT_EQ(keys.size(), 4U);
    EXPECT_EQ(keys[0].pointer, "/layout/b");
    EXPECT_EQ(keys[0].a, "[1,2]");
    EXPECT_EQ(keys[0].b, "[2,1]");
    EXPECT_EQ(keys[1].pointer, "/layout/gone");
    EXPECT_EQ(keys[1].b, "");
    EXPECT_EQ(keys[2].pointer, "/layout/new");
    EXPECT_EQ(keys[2].a, "");
    EXPECT_EQ(keys[3].pointer, "/x~1y/v");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
