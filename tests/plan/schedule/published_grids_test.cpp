// Our schedules against the grids that others publish, action by action; see
// tests/golden/schedules/README.md.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "plan/schedule/csv.hpp"
#include "tests/sanitized.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

const std::string kFolder = std::string(ORRERY_SOURCE_DIR) + "/tests/golden/schedules/";

std::string content(const std::string& name) {
    std::ifstream file(kFolder + name, std::ios::binary);
    EXPECT_TRUE(file) << name;
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
}

ImportedGrid published(const std::string& name) {
    ImportedGrid grid = read_grid(csv_rows(content(name)));
    for (const GridFault& fault : grid.faults)
        ADD_FAILURE() << name << ": " << fault.message << '\n' << fault.drawing;
    return grid;
}

std::uint64_t fnv1a(const std::string& text, std::uint64_t hash) {
    for (const char c : text)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return hash;
}

TEST(PublishedGrids, AreOurs) {
    const ImportedGrid zbv = published("pytorch_zbv_p4_m8.csv");
    EXPECT_EQ(zbv.schedule.grid, zb_v({4, 2, 8}));
    EXPECT_EQ(zbv.schedule.placement, place(Placement::v, 4, 2));
    const ImportedGrid dualpipe = published("pytorch_dualpipev_p4_m10.csv");
    EXPECT_EQ(dualpipe.schedule.grid, dualpipe_v({4, 2, 10}));
    EXPECT_EQ(dualpipe.schedule.placement, place(Placement::v, 4, 2));
    const ImportedGrid h1 = published("zbpp_light_zb_h1_p4_m8.csv");
    EXPECT_EQ(h1.schedule.grid, zb_h1({4, 1, 8}));
    EXPECT_EQ(h1.schedule.placement, place(Placement::wrap, 4, 1));
}

TEST(PublishedGrids, MayBeOfSchedulesThatWeDoNotHave) {
    const ImportedGrid grid = published("pytorch_interleaved_zero_bubble_p2_v2_m8.csv");
    EXPECT_EQ(grid.micro_batches, 8);
    EXPECT_EQ(grid.schedule.placement, place(Placement::wrap, 2, 2));
    EXPECT_EQ(read_grid(csv_rows(to_csv(grid.schedule.grid))).schedule, grid.schedule);
}

TEST(PublishedGrids, AreReadWithWhatLoweringMakesItself) {
    const ImportedGrid grid = published("pytorch_zbv_p2_m4_comms.csv");
    EXPECT_EQ(grid.schedule.grid, zb_v({2, 2, 4}));
    ASSERT_EQ(grid.notes.size(), 2U);
    // Two of the three boundaries are between ranks: 2 sides, 2 directions, 4 micro-batches.
    EXPECT_EQ(grid.notes[0],
              "32 sends and receives were checked and left out: lowering makes its own");
    EXPECT_EQ(grid.notes[1].rfind("16 of UNSHARD", 0), 0U) << grid.notes[1];
}

TEST(PublishedGrids, AreOursForEveryPipelineAndBatch) {
    std::istringstream lines(content("hashes.txt"));
    std::string made_by;
    std::int32_t p = 0;
    std::string hash;
    int compared = 0;
    while (lines >> made_by >> p >> hash) {
        if (sanitized() && p > 6) continue;
        std::uint64_t ours = 0xcbf29ce484222325U;
        const bool dualpipe = made_by == "ScheduleDualPipeV";
        for (std::int32_t m = dualpipe ? 2 * p : 1; m <= 128; ++m) {
            ActionGrid grid;
            if (dualpipe)
                grid = dualpipe_v({p, 2, m});
            else if (made_by == "ScheduleZBVZeroBubble")
                grid = zb_v({p, 2, m});
            else
                grid = zb_h1({p, 1, m});
            ours = fnv1a(to_csv(grid), ours);
        }
        EXPECT_EQ(ours, std::stoull(hash, nullptr, 16)) << made_by << " p " << p;
        ++compared;
    }
    EXPECT_EQ(compared, 3 * (sanitized() ? 6 : 32));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
