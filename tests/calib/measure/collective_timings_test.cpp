// Collectives of ranks that are threads, timed through the communicator that training uses; and
// what is made of times of the marks of devices.
#include "calib/measure/collective_timings.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calib/fit/nccl_tests.hpp"
#include "calib/measure/collective_sections.hpp"
#include "plan/checks/binding_faults.hpp"
#include "plan/checks/operand_faults.hpp"
#include "plan/ir/link.hpp"
#include "runtime/cpu/cpu_backend.hpp"
#include "sim/network/collective_table.hpp"

namespace orrery::measure {
namespace ORRERY_TEST_FILE {

using plan::OpKind;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

double clock_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

CollectiveGrid small_grid() {
    CollectiveGrid grid;
    grid.most_bytes = 1 << 18;
    grid.calls = 3;
    grid.product_size = 64;
    grid.product_dtype = plan::DType::fp32;
    grid.overlap_bytes = 1 << 14;
    return grid;
}

std::optional<CollectiveTimings> timed(std::int64_t ranks, const CollectiveGrid& grid,
                                       const std::function<double()>& now = clock_s) {
    runtime::CpuOptions options;
    runtime::CpuBackend backend(options);
    return time_collectives(
        ranks, backend, grid, now, [] { return "core A processor"; }, [](const std::string&) {});
}

const CollectiveTimings& of_two() {
    static const CollectiveTimings once = *timed(2, small_grid());
    return once;
}

void expect_sound(const plan::Plan& plan) {
    EXPECT_THAT(plan::operand_faults(plan.blocks, plan.mesh), IsEmpty());
    std::vector<std::string> faults;
    plan::check_bindings(plan, plan.programs.front(), faults);
    EXPECT_THAT(faults, IsEmpty());
}

TEST(CollectivePlan, HasNoFaults) {
    for (const std::int64_t ranks : {2, 3, 8}) {
        std::vector<CollectiveCall> calls;
        for (const OpKind kind : {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter,
                                  OpKind::all_to_all, OpKind::shift})
            for (const bool in_place : {false, true})
                if (has_way(kind, in_place))
                    calls.push_back({kind, shared_out(kind, 1 << 12, ranks), in_place, 3});
        EXPECT_EQ(calls.size(), 7U);
        const CollectivePlan plan = collective_plan(ranks, calls);
        expect_sound(plan.plan);
        EXPECT_EQ(plan::link(plan.plan, plan.plan.programs.front()).size(), 3 * calls.size());
    }
}

TEST(CollectivePlan, SharesOutWholeNumbers) {
    EXPECT_EQ(shared_out(OpKind::all_reduce, 8, 3), 8);
    EXPECT_EQ(shared_out(OpKind::all_gather, 8, 3), 0);
    EXPECT_EQ(shared_out(OpKind::reduce_scatter, 32, 3), 24);
}

TEST(OverlapPlan, PerformsBothAloneAndInTurns) {
    OverlapCalls calls{{OpKind::all_gather, 1 << 12, false, 3}, 32, plan::DType::fp32, 6, 0};
    const OverlapPlan plan = overlap_plan(2, calls);
    expect_sound(plan.plan);
    EXPECT_EQ(plan.products.count, 6U);
    EXPECT_EQ(plan.calls.count, 3U);
    EXPECT_EQ(plan.both.count, 9U);
    EXPECT_EQ(std::count(plan.computes.begin(), plan.computes.end(), true), 6);
    EXPECT_FALSE(plan.computes.front());
    // Of the two streams each has its ops between those of the other.
    EXPECT_EQ(std::vector<bool>(plan.computes.begin(), plan.computes.begin() + 4),
              (std::vector<bool>{false, true, true, false}));
}

TEST(CollectiveTimings, HaveEveryKindAndWayOfEachSize) {
    const CollectiveTimings& timings = of_two();
    std::map<OpKind, std::set<std::int64_t>> sizes;
    std::map<OpKind, int> ways;
    for (const CollectiveRow& row : timings.rows) {
        EXPECT_GT(row.seconds, 0);
        EXPECT_LT(row.seconds, 1);
        sizes[row.kind].insert(row.bytes);
        if (row.bytes == 1 << 18) ++ways[row.kind];
    }
    for (const OpKind kind : {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter,
                              OpKind::all_to_all, OpKind::shift})
        EXPECT_EQ(sizes[kind].size(), 16U) << plan::name(kind);  // 2^3 to 2^18
    EXPECT_EQ(ways[OpKind::all_gather], 2);
    EXPECT_EQ(ways[OpKind::reduce_scatter], 2);
    EXPECT_EQ(ways[OpKind::all_reduce], 1);
    EXPECT_EQ(timings.largest_bytes, 1 << 18);
    EXPECT_EQ(timings.nodes(), 1);
}

TEST(CollectiveTimings, AreOfAnyNumberOfRanks) {
    CollectiveGrid grid = small_grid();
    grid.most_bytes = 1 << 12;
    const auto timings = timed(3, grid);
    ASSERT_TRUE(timings.has_value());
    for (const CollectiveRow& row : timings->rows)
        if (row.kind == OpKind::all_gather) {
            EXPECT_EQ(row.bytes % 12, 0);
        }
    EXPECT_EQ(timings->places.size(), 3U);
}

// The clock jumps by a minute each time it is read: no size after the first plan ends in time.
TEST(CollectiveTimings, LeaveOutWhatDoesNotEndInTime) {
    double minutes = 0;
    std::mutex mutex;
    CollectiveGrid grid = small_grid();
    grid.seconds = 60;
    grid.product_size = 0;
    const auto timings = timed(2, grid, [&] {
        const std::lock_guard lock(mutex);
        return 60 * ++minutes;
    });
    ASSERT_TRUE(timings.has_value());
    EXPECT_EQ(timings->largest_bytes, 1 << 16);
    const auto notes = collective_notes(*timings, grid);
    EXPECT_THAT(notes.back(),
                HasSubstr("left out: collectives of more than 65536 bytes (asked for: up to "
                          "262144)"));
    EXPECT_THAT(collective_notes(of_two(), small_grid()).back(), Not(HasSubstr("left out")));
}

// By the marks: the first call waits for the other rank, which comes 50 us late.
TEST(CollectiveTimings, DoNotCountTheWaitForRanksThatComeLate) {
    const StepOfRanks times{{{0, 60'000}, {60'000, 70'000}, {70'000, 82'000}},
                            {{50'000, 60'000}, {60'000, 70'000}, {70'000, 80'000}}};
    EXPECT_DOUBLE_EQ(seconds_of_call({0, 3}, times), (22e-6 / 2 + 20e-6 / 2) / 2);
}

// Alone 10 us a product and 20 us a call. Beside each other 12 and 30; the last product ends behind
// the last call, and was alone for a while.
TEST(Overlap, IsOfWhatRanWhileTheOtherDid) {
    OverlapPlan plan;
    plan.products = {0, 2};
    plan.calls = {2, 2};
    plan.both = {4, 5};
    plan.computes = {false, true, false, true, true};
    const StepOfRanks times{{{0, 10'000},
                             {10'000, 20'000},  // products
                             {20'000, 40'000},
                             {40'000, 60'000},  // calls
                             {100'000, 130'000},
                             {101'000, 113'000},  // both: a call, a product
                             {130'000, 160'000},
                             {131'000, 143'000},
                             {158'000, 168'000}}};
    const auto row = overlap_of(plan, OpKind::all_reduce, times);
    ASSERT_TRUE(row.has_value());
    EXPECT_DOUBLE_EQ(row->products, 1.2);
    EXPECT_DOUBLE_EQ(row->calls, 1.5);
    CollectiveTimings timings;
    timings.overlap = {*row, {OpKind::all_gather, 1.4, 1.1}};
    const Json section = *overlap_json(timings, "here");
    EXPECT_EQ(section.at("compute_slowdown"), 1.3);
    EXPECT_THAT(section.at("source").get<std::string>(),
                HasSubstr("beside all_reduce products take 1.200 times as long, and it beside them "
                          "1.500 times"));
}

TEST(Overlap, IsNoneWhereNothingRanBesideTheOther) {
    OverlapPlan plan;
    plan.products = {0, 1};
    plan.calls = {1, 1};
    plan.both = {2, 2};
    plan.computes = {false, true};
    EXPECT_FALSE(overlap_of(plan, OpKind::all_reduce, {{{0, 10}, {10, 20}, {20, 30}, {30, 40}}}));
}

TEST(CollectiveSections, HaveTheCurvesThatASimulationReads) {
    const CollectiveFacts facts{"two cores", "threads", "here", std::nullopt,
                                fit::Algorithms::links};
    const auto table = sim::read_collectives(collectives_json(of_two(), facts), "calibrated");
    EXPECT_NE(table.find(OpKind::all_reduce, 2), nullptr);
    EXPECT_NE(table.find(OpKind::all_gather, 2), nullptr);
    EXPECT_NE(table.find(OpKind::reduce_scatter, 2), nullptr);
    EXPECT_NE(table.find(OpKind::exchange, 2), nullptr);
    EXPECT_EQ(table.curves.size(), 4U);
    EXPECT_EQ(table.find(OpKind::all_reduce, 2)->points.back().bytes, 1 << 18);
}

// What is printed is read by what reads nccl-tests, to the last digit that it has.
TEST(NcclTables, AreReadAsThoseOfNcclTests) {
    const std::string text = nccl_tables(of_two(), "orrery 1.2.3", "2.28.5");
    EXPECT_THAT(text, HasSubstr("# Avg bus bandwidth"));
    const fit::NcclTests tests = fit::read_nccl_tests(text, "table", "");
    EXPECT_THAT(tests.faults, IsEmpty());
    ASSERT_EQ(tests.runs.size(), 3U);
    std::map<std::string, std::vector<fit::NcclTiming>> read;
    for (const fit::NcclRun& run : tests.runs) {
        EXPECT_EQ(run.nccl_version, "2.28.5");
        EXPECT_EQ(run.device, "A processor");
        EXPECT_EQ(run.ranks, 2);
        EXPECT_EQ(run.nodes, 1);
        read[run.collective] = run.timings;
    }
    for (const CollectiveRow& row : of_two().rows) {
        const std::string name(plan::name(row.kind));
        if (read.count(name) == 0) continue;
        const auto& timings = read[name];
        EXPECT_TRUE(std::any_of(timings.begin(), timings.end(),
                                [&](const fit::NcclTiming& timing) {
                                    return timing.bytes == static_cast<double>(row.bytes) &&
                                           !timing.wrong &&
                                           std::abs(timing.seconds - row.seconds) <= 0.5001e-8;
                                }))
            << name << ' ' << row.bytes;
    }
    // Sixteen sizes, of all_reduce in place alone.
    EXPECT_EQ(read["all_reduce"].size(), 16U);
    EXPECT_EQ(read["all_gather"].size(), 32U);
}

TEST(NcclTables, TellVersionsAsNcclDoes) {
    EXPECT_EQ(fit::nccl_version_code("2.28.5"), 22805);
    EXPECT_EQ(fit::nccl_version_code("2.8.4"), 2804);
    EXPECT_EQ(fit::nccl_version_text(fit::nccl_version_code("2.19.3")), "2.19.3");
    EXPECT_EQ(fit::nccl_version_code("unknown"), 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::measure
