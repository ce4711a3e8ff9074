#include "calib/fit/csv_table.hpp"

#include <gtest/gtest.h>

#include "calib/fit/fit_error.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

std::string error_of(const std::string& text) {
    try {
        const CsvTable table(text, "t.csv", {"name", "count", "time_us"});
        for (std::size_t i = 0; i < table.rows(); ++i) {
            table.whole(i, "count");
            table.number(i, "time_us");
        }
    } catch (const FitError& error) {
        return error.what();
    }
    return "no error";
}

TEST(CsvTable, ReadsColumnsInAnyOrder) {
    const CsvTable table("time_us,name,count\r\n1.5,a b,3\n2e1,c,4\n", "t.csv",
                         {"name", "count", "time_us"});
    ASSERT_EQ(table.rows(), 2u);
    EXPECT_EQ(table.text(0, "name"), "a b");
    EXPECT_EQ(table.whole(1, "count"), 4);
    EXPECT_EQ(table.number(1, "time_us"), 20);
}

TEST(CsvTable, NamesTheLineAtFault) {
    EXPECT_EQ(error_of("name,count\n"), "t.csv:1: column 'time_us' is missing");
    EXPECT_EQ(error_of("name,count,time_us,x\n"), "t.csv:1: unknown column 'x'");
    EXPECT_EQ(error_of("name,count,time_us\na,1,2\nb,1\n"), "t.csv:3: 2 values, the header has 3");
    EXPECT_EQ(error_of("name,count,time_us\na,1.5,2\n"),
              "t.csv:2: count: '1.5' is not a positive whole number");
    EXPECT_EQ(error_of("name,count,time_us\na,1,2\na,1,-2\n"),
              "t.csv:3: time_us: '-2' is not a positive number");
    EXPECT_EQ(error_of("name,count,time_us\na,1,nan\n"),
              "t.csv:2: time_us: 'nan' is not a positive number");
    EXPECT_THROW(CsvTable("/nonexistent.csv", std::vector<std::string>{"a"}), FitError);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
