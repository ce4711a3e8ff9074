// Micro-batches in flight on rank i (Narayanan et al. 2021): GPipe m; 1F1B min(m, p−i); interleaved
// min(mv, 2(p−i−1) + (v−1)p + 1) chunks. The plan keeps exactly that many stashes.
#include <algorithm>

#include "plan/schedule/schedule.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::ActionKind;

std::int32_t expected(const std::string& schedule, std::int32_t p, std::int32_t m, std::int32_t v,
                      std::int32_t i) {
    if (schedule == "gpipe") return m;
    if (schedule == "1f1b") return std::min(m, p - i);
    return std::min(m * v, 2 * (p - i - 1) + (v - 1) * p + 1);
}

TEST(InFlight, OfEverySchedule) {
    for (std::int32_t p = 1; p <= 16; ++p)
        for (std::int32_t m = 1; m <= 64; ++m)
            for (const char* schedule : {"gpipe", "1f1b"}) {
                const auto grid = plan::find_schedule(schedule)->order({p, 1, m});
                for (std::int32_t i = 0; i < p; ++i)
                    ASSERT_EQ(plan::most_in_flight(grid[static_cast<std::size_t>(i)]),
                              expected(schedule, p, m, 1, i))
                        << schedule << " p " << p << " m " << m << " rank " << i;
            }
}

TEST(InFlight, OfInterleavedChunks) {
    for (std::int32_t p = 2; p <= 16; ++p)
        for (std::int32_t v = 2; v <= 5; ++v)
            for (std::int32_t m = p; m <= 64; m += p) {
                const auto grid = plan::interleaved({p, v, m});
                for (std::int32_t i = 0; i < p; ++i)
                    ASSERT_EQ(plan::most_in_flight(grid[static_cast<std::size_t>(i)]),
                              expected("interleaved", p, m, v, i))
                        << "p " << p << " v " << v << " m " << m << " rank " << i;
            }
}

// The most stash residents alive during one step of a program.
std::int32_t most_stashes(const plan::Program& program) {
    std::vector<std::int32_t> change(program.steps.size() + 1, 0);
    for (const plan::Resident& resident : program.residents) {
        if (resident.name.rfind("stash", 0) != 0) continue;
        ++change[static_cast<std::size_t>(resident.first_step)];
        --change[static_cast<std::size_t>(resident.last_step) + 1];
    }
    std::int32_t alive = 0;
    std::int32_t most = 0;
    for (std::int32_t c : change)
        most = std::max(most, alive += c);
    return most;
}

void expect_stashes(const std::string& schedule, std::int32_t p, std::int32_t m, std::int32_t v) {
    const plan::Plan plan =
        plan_of({"model.n_embd=16", "model.n_head=2", "model.vocab_size=16",
                 "training.sequence_length=4", set("model.n_layer", p * v),
                 set("layout.pipeline_parallel", p), set("layout.virtual_pipeline", v),
                 set("layout.global_batch_size", m), "layout.schedule=" + schedule});
    for (std::int32_t i = 0; i < p; ++i)
        EXPECT_EQ(most_stashes(plan.programs[static_cast<std::size_t>(i)]),
                  expected(schedule, p, m, v, i))
            << schedule << " p " << p << " m " << m << " v " << v << " rank " << i;
}

TEST(InFlight, IsWhatThePlanKeepsMemoryFor) {
    for (const std::int32_t p : {1, 2, 4, 7})
        for (const std::int32_t m : {1, 3, 8, 20})
            for (const char* schedule : {"gpipe", "1f1b"})
                expect_stashes(schedule, p, m, 1);
    expect_stashes("1f1b", 16, 64, 1);
    expect_stashes("interleaved", 2, 8, 2);
    expect_stashes("interleaved", 4, 4, 3);
    expect_stashes("interleaved", 4, 16, 2);
    expect_stashes("interleaved", 8, 32, 4);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
