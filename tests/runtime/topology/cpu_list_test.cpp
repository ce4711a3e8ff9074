#include "runtime/topology/cpu_list.hpp"

#include <gmock/gmock.h>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CpuList, IsReadAndWrittenAsTheKernelWritesIt) {
    EXPECT_THAT(parse_cpu_list("0-3,8\n"), ElementsAre(0, 1, 2, 3, 8));
    EXPECT_THAT(parse_cpu_list("7"), ElementsAre(7));
    EXPECT_THAT(parse_cpu_list("4,0-1"), ElementsAre(0, 1, 4));
    EXPECT_EQ(cpu_list_text({0, 1, 2, 3, 8}), "0-3,8");
    EXPECT_EQ(cpu_list_text({2, 4, 5}), "2,4-5");
    EXPECT_EQ(cpu_list_text({}), "");
    for (const char* text : {"0-55,112-167", "0", "1,3,5-6"})
        EXPECT_EQ(cpu_list_text(parse_cpu_list(text)), text);
}

TEST(CpuList, IsNoneWhereTheTextIsNone) {
    for (const char* text : {"", "\n", "x", "3-1", "0-", "-1", "0,,1", "0-99999999999"})
        EXPECT_THAT(parse_cpu_list(text), IsEmpty()) << text;
}

TEST(CpuList, KnowsWhatIsInBoth) {
    EXPECT_THAT(in_both({0, 1, 2, 5}, {1, 5, 6}), ElementsAre(1, 5));
    EXPECT_THAT(in_both({0, 1}, {2}), IsEmpty());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
