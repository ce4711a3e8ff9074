#include "calib/fit/write_profile.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

TEST(WriteProfile, RoundsToSignificantDigits) {
    EXPECT_EQ(rounded(123456.0, 4), 123500.0);
    EXPECT_EQ(rounded(0.000123456, 4), 0.0001235);
    EXPECT_EQ(rounded(-1.0 / 3, 3), -0.333);
    EXPECT_EQ(rounded(0, 4), 0);
}

TEST(WriteProfile, KeepsOrderAndRowsOfNumbersOnOneLine) {
    const auto json = nlohmann::ordered_json::parse(
        R"({"z": 1, "a": {"é": "q\"", "none": {}}, "span": [1, 2.5], "rows": [[1, 2], [3, 4]],
            "big": 85094039552, "small": 1e-7, "flag": true})");
    EXPECT_EQ(profile_text(json),
              "{\n"
              "  \"z\": 1,\n"
              "  \"a\": {\n"
              "    \"é\": \"q\\\"\",\n"
              "    \"none\": {}\n"
              "  },\n"
              "  \"span\": [1, 2.5],\n"
              "  \"rows\": [\n"
              "    [1, 2],\n"
              "    [3, 4]\n"
              "  ],\n"
              "  \"big\": 85094039552,\n"
              "  \"small\": 1e-07,\n"
              "  \"flag\": true\n"
              "}\n");
    EXPECT_EQ(nlohmann::ordered_json::parse(profile_text(json)), json);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
