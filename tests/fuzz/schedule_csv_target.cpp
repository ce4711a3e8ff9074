// Schedules as CSV: a grid without faults runs to its end, and is what its own text says.
#include "plan/check.hpp"
#include "plan/schedule/csv.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

void run(std::string_view input) {
    const plan::ImportedGrid grid = plan::read_grid(plan::csv_rows(input));
    if (!grid.faults.empty()) return;
    const auto lowered = add_transfers(grid.schedule.grid, grid.schedule.placement);
    for (const std::string& text : {plan::to_csv(grid.schedule.grid), plan::to_csv(lowered)}) {
        const plan::ImportedGrid again = plan::read_grid(plan::csv_rows(text));
        ORRERY_CHECK(again.faults.empty(), "a fault in what was written:\n" + text);
        ORRERY_CHECK(again.schedule == grid.schedule, "another schedule:\n" + text);
        ORRERY_CHECK(again.micro_batches == grid.micro_batches, "another batch:\n" + text);
    }
}

std::vector<std::string> seeds() {
    const plan::StagePlacement wrapped = place(plan::Placement::wrap, 2, 1);
    return {plan::to_csv(plan::one_f_one_b({2, 1, 3})),
            plan::to_csv(plan::zb_h1({3, 1, 3})),
            plan::to_csv(plan::zb_v({2, 2, 3})),
            plan::to_csv(plan::dualpipe_v({2, 2, 4})),
            plan::to_csv(add_transfers(plan::gpipe({2, 1, 2}), wrapped)),
            "0UNSHARD,0F0,,(0F1;0B0)OVERLAP_F_B,0B1,0REDUCE_GRAD\r\n"};
}

}  // namespace

const Target kScheduleCsv = {"schedule_csv", 4096, run, seeds};

}  // namespace orrery::fuzz
