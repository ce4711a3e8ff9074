#include "cli/quantity.hpp"

#include <gtest/gtest.h>

#include "cli/text_table.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

TEST(Quantity, HasThreeDigitsAndAUnit) {
    EXPECT_EQ(seconds_text(17.93), "17.9 s");
    EXPECT_EQ(seconds_text(0.00325), "3.25 ms");
    EXPECT_EQ(seconds_text(1.2e-5), "12.0 µs");
    EXPECT_EQ(seconds_text(0), "0 s");
    EXPECT_EQ(seconds_text(1234.5), "1,234 s");
    EXPECT_EQ(bytes_text(66.24e9), "66.2 GB");
    EXPECT_EQ(bytes_text(999), "999 B");
    EXPECT_EQ(scaled_text(4.512e18, "FLOP"), "4.51 EFLOP");
    EXPECT_EQ(counted_text(174.6e9), "175 billion");
    EXPECT_EQ(counted_text(999999), "999,999");
}

// What rounds to the next prefix is written with it: never "1,000 ms".
TEST(Quantity, RoundsIntoTheNextPrefix) {
    EXPECT_EQ(seconds_text(0.99996), "1.00 s");
    EXPECT_EQ(bytes_text(999.96e6), "1.00 GB");
    EXPECT_EQ(digits_text(9.996), "10.0");
    EXPECT_EQ(digits_text(99.96), "100");
}

TEST(Quantity, WholeNumbersAreGrouped) {
    EXPECT_EQ(whole_text(0), "0");
    EXPECT_EQ(whole_text(999), "999");
    EXPECT_EQ(whole_text(1000), "1,000");
    EXPECT_EQ(whole_text(-1234567), "-1,234,567");
}

TEST(Quantity, SharesNeverRoundToNothingOrAll) {
    EXPECT_EQ(percent_text(0.459), "45.9 %");
    EXPECT_EQ(percent_text(0), "0.0 %");
    EXPECT_EQ(percent_text(1), "100.0 %");
    EXPECT_EQ(percent_text(0.0001), "<0.1 %");
    EXPECT_EQ(percent_text(0.99999), ">99.9 %");
}

TEST(Bar, CountsEighths) {
    EXPECT_EQ(bar_text(0.5, 4), "██");
    EXPECT_EQ(bar_text(0.375, 4), "█▌");
    EXPECT_EQ(bar_text(0, 4), "");
    EXPECT_EQ(bar_text(1e-9, 4), "▏");
    EXPECT_EQ(bar_text(2, 4), "████");
}

TEST(Wrapped, CountsCharactersAndIndents) {
    EXPECT_EQ(wrapped("aa bb cc", 7, 2, 2), "aa bb\n  cc");
    EXPECT_EQ(wrapped("µµ µµ", 5, 0, 0), "µµ µµ");
    EXPECT_EQ(wrapped("much_too_long x", 5, 1, 0), "much_too_long\n x");
}

TEST(TextTable, LinesUp) {
    TextTable table({Align::left, Align::right});
    table.add({"a", "1 µs"});
    table.add({"long", "20 ms"});
    EXPECT_EQ(table.text(), "  a      1 µs\n  long  20 ms\n");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
