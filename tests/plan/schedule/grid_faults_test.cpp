// What is wrong with a grid of actions, each rule by a grid that breaks it alone.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "plan/schedule/csv.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

// 1F1B of two ranks and two micro-batches, as rows that a test then breaks.
const std::vector<std::string> kSound = {"0F0,0F1,,0B0,0B1", ",1F0,1B0,1F1,1B1"};

std::vector<std::string> messages(const std::vector<std::string>& rows) {
    std::vector<std::string> all;
    for (const GridFault& fault : read_grid(rows).faults) {
        std::string place = "whole";
        if (fault.rank >= 0) {
            place = std::to_string(fault.rank);
            place += ":" + std::to_string(fault.cell);
        }
        all.push_back(place + " " + fault.message);
    }
    return all;
}

using Messages = std::vector<std::string>;

TEST(GridFaults, AreNoneInASoundGrid) {
    const ImportedGrid grid = read_grid(kSound);
    EXPECT_TRUE(grid.faults.empty());
    EXPECT_EQ(grid.schedule.grid, one_f_one_b({2, 1, 2}));
    EXPECT_EQ(grid.schedule.placement, place(Placement::wrap, 2, 1));
    EXPECT_EQ(grid.micro_batches, 2);
    EXPECT_TRUE(grid.notes.empty());
}

TEST(GridFaults, OfCellsThatAreNoActions) {
    EXPECT_EQ(messages({"0F0,0X0,0B0"}), Messages{"0:1 \"0X0\" is no action"});
    EXPECT_EQ(messages({"0F0,0STEP,0B0"}), Messages{"0:1 \"0STEP\" is no action"});
    EXPECT_EQ(messages({"0F,0B0"}), Messages{"0:0 \"0F\" is no action"});
    EXPECT_EQ(messages({"0F99999999999,0B0"}), Messages{"0:0 \"0F99999999999\" is no action"});
    EXPECT_EQ(messages({"(0F0;0B0,0B0"})[0], "0:0 \"(0F0;0B0\" is no action");
    EXPECT_EQ(messages({"(0F0)OVERLAP_F_B"})[0], "0:0 \"(0F0)OVERLAP_F_B\" is no action");
    EXPECT_EQ(messages({"()OVERLAP_F_B"})[0], "0:0 \"()OVERLAP_F_B\" is no action");
}

TEST(GridFaults, OfGridsWithNothingInThem) {
    EXPECT_EQ(messages({}), Messages{"whole a grid without actions"});
    EXPECT_EQ(messages({"", ",,"}), Messages{"whole a grid without actions"});
    EXPECT_EQ(messages({"0F0,0B0", ","}), Messages{"1:0 rank 1 runs nothing"});
}

TEST(GridFaults, OfDependenciesOnARank) {
    EXPECT_EQ(messages({"0B0,0F0"}), Messages{"0:0 0B0 before 0F0, whose result it needs"});
    EXPECT_EQ(messages({"0F0,0W0,0I0"}), Messages{"0:1 0W0 before 0I0, whose result it needs"});
    EXPECT_EQ(messages({"1F0,0F0,1B0,0B0"}), Messages{"0:0 1F0 before 0F0, whose result it needs"});
    EXPECT_EQ(messages({"0F0,1F0,0B0,1B0"}), Messages{"0:2 0B0 before 1B0, whose result it needs"});
}

TEST(GridFaults, OfWhatIsMissingOrTooMuch) {
    EXPECT_EQ(messages({"0F0,0F1,0B0", "1F0,1B0,1F1,1B1"}),
              Messages{"0:2 rank 0 ends without 0B1"});
    EXPECT_EQ(messages({"0F0,0I0,0F1,0B1"}), Messages{"0:3 rank 0 ends without 0W0"});
    EXPECT_EQ(messages({"0F0,0B0,0F1,0B1,0B1"}), Messages{"0:4 0B1 a second time"});
    const char* both = ": the backward of a micro-batch is B, or I and W, not both";
    EXPECT_EQ(messages({"0F0,0B0,0W0"}), Messages{std::string("0:2 0W0") + both});
    EXPECT_EQ(messages({"0F0,0I0,0B0,0W0"}),
              (Messages{std::string("0:2 0B0") + both, std::string("0:3 0W0") + both}));
}

TEST(GridFaults, OfNumbersThatNobodyElseHas) {
    EXPECT_EQ(messages({"0F0,0F1,0B0,0B1,7F0", kSound[1]}),
              Messages{"0:4 7F0: there is no stage 7, the others run 0 to 1"});
    EXPECT_EQ(messages({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1,1F8"}),
              Messages{"1:4 1F8: there is no micro-batch 8, the other stages run 0 to 1"});
    EXPECT_EQ(messages({"0F0,0B0", "2F0,2B0"}), Messages{"whole no rank runs stage 1 of the 3"});
}

TEST(GridFaults, OfAStageOnTwoRanks) {
    EXPECT_EQ(messages({"0F0,0F1,0B0,0B1,1B1", "1F0,1B0,1F1"}),
              (Messages{"0:4 1B1 on rank 0: stage 1 is on rank 1", "1:2 rank 1 ends without 1B1"}));
}

TEST(GridFaults, OfSumsInAnotherOrder) {
    EXPECT_EQ(messages({"0F0,0F1,0B1,0B0"}),
              Messages{"0:3 0B0 after 0B1: a stage runs its backwards in ascending order of "
                       "micro-batches"});
    EXPECT_EQ(messages({"0F0,0F1,0I0,0B1,0W0"}),
              Messages{"0:4 0W0 after 0B1: a stage runs its weight gradients in ascending order of "
                       "micro-batches"});
    EXPECT_EQ(messages({"0F1,0F0,0B0,0B1"}),
              Messages{"0:1 0F0 after 0F1: a stage runs its forwards in ascending order of "
                       "micro-batches"});
}

TEST(GridFaults, OfTransfers) {
    EXPECT_TRUE(messages({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}).empty());
    EXPECT_EQ(messages({"0SEND_F0,0F0,0B0", "1F0,1B0"}), Messages{"0:0 0SEND_F0 before 0F0"});
    EXPECT_EQ(messages({"0F0,0B0,0RECV_B0", "1F0,1B0"}), Messages{"0:2 0RECV_B0 after 0B0"});
    EXPECT_EQ(messages({"0F0,0B0", "1F0,1B0,1SEND_F0"}),
              Messages{"1:2 1SEND_F0: stages 0 to 1 have no such transfer"});
    EXPECT_EQ(messages({"0F0,0SEND_F0,1F0,1B0,0B0"}),
              Messages{"0:1 0SEND_F0: stages 0 and 1 are on one rank, between them nothing is "
                       "sent"});
    EXPECT_EQ(messages({"0F0,0B0,1SEND_B0", "1F0,1B0"}),
              Messages{"0:2 1SEND_B0 on rank 0: stage 1 is on rank 1"});
    EXPECT_EQ(messages({"0F0,0SEND_F0,0SEND_F0,0B0", "1F0,1B0"}),
              Messages{"0:2 0SEND_F0 a second time"});
}

TEST(GridFaults, OfRanksThatWaitForEachOther) {
    EXPECT_EQ(messages({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"}),
              Messages{"0:1 the ranks wait for each other: 0B0 waits for 1B0, which rank 1 runs "
                       "after 1F1; 1F1 waits for 0F1, which rank 0 runs after 0B0"});
}

TEST(GridFaults, AreAllSaidAtOnce) {
    EXPECT_EQ(messages({"0F0,?,0B1,0B0", "1F0,1B0,1B0,1F1,1B1"}),
              (Messages{"0:1 \"?\" is no action",
                        "0:3 0B0 after 0B1: a stage runs its backwards in ascending order of "
                        "micro-batches",
                        "1:2 1B0 a second time"}));
}

TEST(GridFaults, AreDrawnWithTheCellsAround) {
    const ImportedGrid grid =
        read_grid({"0F0,0F1,0F2,0F3,,,0B0,0B1,0B2,0B3", ",1F0,1B0,1F1,1B1,1F2,1B0,1F3,1B3"});
    ASSERT_EQ(grid.faults.size(), 2U);
    EXPECT_EQ(grid.faults[0].message, "1B0 a second time");
    EXPECT_EQ(grid.faults[0].action, "1B0");
    EXPECT_EQ(grid.faults[0].column, 21);
    EXPECT_EQ(grid.faults[0].drawing,
              "rank 0  …  0F2  0F3            0B0  0B1  0B2  0B3\n"
              "rank 1  …  1B0  1F1  1B1  1F2  1B0  1F3  1B3\n"
              "                               ^^^");
    EXPECT_EQ(grid.faults[1].message, "rank 1 ends without 1B2");
}

TEST(Csv, IsReadWithTheLineEndsThatPeopleHave) {
    const std::vector<std::string> rows = {"0F0,0B0", "", "1F0"};
    EXPECT_EQ(csv_rows("0F0,0B0\n\n1F0\n"), rows);
    EXPECT_EQ(csv_rows("\xEF\xBB\xBF"
                       "0F0,0B0\r\n\r\n1F0\r\n\r\n"),
              rows);
    EXPECT_EQ(csv_rows("0F0,0B0\n\n1F0"), rows);
    EXPECT_TRUE(csv_rows("").empty());
    EXPECT_EQ(read_grid({" 0F0 , 0B0 "}).schedule.grid, one_f_one_b({1, 1, 1}));
}

struct Shaped {
    std::string name;
    ActionGrid grid;
    StagePlacement placement;
};

std::vector<Shaped> some_schedules() {
    std::vector<Shaped> all;
    for (const std::int32_t p : {1, 2, 3, 4})
        for (const std::int32_t m : {1, 4, 8}) {
            const ScheduleShape one{p, 1, m}, two{p, 2, m};
            const StagePlacement wrap = place(Placement::wrap, p, 1);
            const StagePlacement v = place(Placement::v, p, 2);
            all.push_back({"1f1b", one_f_one_b(one), wrap});
            all.push_back({"gpipe", gpipe(one), wrap});
            all.push_back({"zb-h1", zb_h1(one), wrap});
            all.push_back({"zb-2p", zb_2p(one), wrap});
            all.push_back({"zb-v", zb_v(two), v});
            all.push_back({"v-half", v_half(two), v});
            if (m >= 2 * p) all.push_back({"dualpipe-v", dualpipe_v(two), v});
            if (m % p == 0)
                all.push_back({"interleaved", interleaved(two), place(Placement::wrap, p, 2)});
        }
    return all;
}

TEST(Csv, OfEverySchedule) {
    for (const Shaped& shaped : some_schedules()) {
        const ImportedGrid again = read_grid(csv_rows(to_csv(shaped.grid)));
        EXPECT_TRUE(again.faults.empty()) << shaped.name;
        EXPECT_EQ(again.schedule.grid, shaped.grid) << shaped.name;
        EXPECT_EQ(again.schedule.placement, shaped.placement) << shaped.name;
        const auto lowered = add_transfers(shaped.grid, shaped.placement);
        const ImportedGrid with_transfers = read_grid(csv_rows(to_csv(lowered)));
        EXPECT_EQ(with_transfers.schedule, again.schedule) << shaped.name;
        EXPECT_TRUE(with_transfers.faults.empty()) << shaped.name;
    }
}

// A grid that is sound to us runs to its end in lowering, which checks it.
void expect_runs_if_sound(const ImportedGrid& grid) {
    if (!grid.faults.empty()) return;
    EXPECT_FALSE(add_transfers(grid.schedule.grid, grid.schedule.placement).empty());
}

// Every mutation of a grid is refused.
TEST(GridMutations, OfOneActionAreFound) {
    for (const Shaped& shaped : some_schedules())
        for (std::size_t rank = 0; rank < shaped.grid.size(); ++rank)
            for (std::size_t i = 0; i < shaped.grid[rank].size(); i += 3) {
                const Action old = shaped.grid[rank][i];
                const auto refused = [&](const std::vector<Action>& instead) {
                    ActionGrid grid = shaped.grid;
                    auto& row = grid[rank];
                    row.erase(row.begin() + static_cast<std::ptrdiff_t>(i));
                    row.insert(row.begin() + static_cast<std::ptrdiff_t>(i), instead.begin(),
                               instead.end());
                    return !read_grid(csv_rows(to_csv(grid))).faults.empty();
                };
                EXPECT_TRUE(refused({})) << shaped.name << " without " << to_text(old);
                EXPECT_TRUE(refused({old, old})) << shaped.name << " twice " << to_text(old);
                Action other = old;
                other.kind = old.kind == ActionKind::backward ? ActionKind::backward_input
                                                              : ActionKind::backward;
                EXPECT_TRUE(refused({other})) << shaped.name << " instead of " << to_text(old);
                other = old;
                ++other.micro_batch;
                EXPECT_TRUE(refused({other})) << shaped.name << " for " << to_text(old);
                other = old;
                other.stage = shaped.placement.stages();
                EXPECT_TRUE(refused({other})) << shaped.name << " for " << to_text(old);
            }
}

// Two actions of one stage and kind, or of one micro-batch of a stage, changed places.
TEST(GridMutations, OfTheOrderWithinAStageAreFound) {
    for (const Shaped& shaped : some_schedules())
        for (std::size_t rank = 0; rank < shaped.grid.size(); ++rank)
            for (std::size_t i = 0; i < shaped.grid[rank].size(); ++i)
                for (std::size_t j = i + 1; j < shaped.grid[rank].size(); j += 2) {
                    ActionGrid grid = shaped.grid;
                    Action &a = grid[rank][i], &b = grid[rank][j];
                    if (a.stage != b.stage || (a.kind != b.kind && a.micro_batch != b.micro_batch))
                        continue;
                    std::swap(a, b);
                    EXPECT_FALSE(read_grid(csv_rows(to_csv(grid))).faults.empty())
                        << shaped.name << ": " << to_text(a) << " and " << to_text(b);
                }
}

RC_GTEST_PROP(GridProperty, NeighboursWithoutATieMayChangePlaces, ()) {
    static const std::vector<Shaped> all = some_schedules();
    const Shaped& shaped = all[*rc::gen::inRange<std::size_t>(0, all.size())];
    ActionGrid grid = shaped.grid;
    // What ends up here runs: a rank takes, of the actions whose needs are met, any that keeps
    // each stage's passes in order.
    std::set<Action> done;
    const auto results = [&](ActionKind kind, std::int32_t stage, std::int32_t k) {
        return stage < 0 || stage >= shaped.placement.stages() || done.count({stage, kind, k}) > 0;
    };
    const auto can_run = [&](const Action& action) {
        const std::int32_t s = action.stage, k = action.micro_batch;
        if (action.kind == ActionKind::forward) return results(ActionKind::forward, s - 1, k);
        if (action.kind == ActionKind::backward_weight)
            return results(ActionKind::backward_input, s, k);
        return results(ActionKind::forward, s, k) && results(ActionKind::backward_input, s + 1, k);
    };
    const auto settle = [&](Action action) {
        done.insert(action);
        if (action.kind != ActionKind::backward) return;
        action.kind = ActionKind::backward_input;
        done.insert(action);
    };
    ActionGrid drawn(grid.size());
    for (bool progress = true; progress;) {
        progress = false;
        for (std::size_t rank = 0; rank < grid.size(); ++rank) {
            std::vector<std::size_t> choices;
            for (std::size_t i = 0; i < grid[rank].size(); ++i) {
                const Action& action = grid[rank][i];
                bool first = true;  // of its stage's passes that go on in order
                for (std::size_t j = 0; j < i; ++j)
                    first = first && (grid[rank][j].stage != action.stage ||
                                      (grid[rank][j].kind == ActionKind::forward) !=
                                          (action.kind == ActionKind::forward));
                if (first && can_run(action)) choices.push_back(i);
            }
            if (choices.empty()) continue;
            const std::size_t taken = *rc::gen::elementOf(choices);
            drawn[rank].push_back(grid[rank][taken]);
            settle(grid[rank][taken]);
            grid[rank].erase(grid[rank].begin() + static_cast<std::ptrdiff_t>(taken));
            progress = true;
        }
    }
    const ImportedGrid read = read_grid(csv_rows(to_csv(drawn)));
    for (const GridFault& fault : read.faults)
        RC_LOG() << fault.message << '\n' << fault.drawing << '\n';
    RC_ASSERT(read.faults.empty());
    RC_ASSERT(read.schedule.grid == drawn);
    expect_runs_if_sound(read);
}

RC_GTEST_PROP(GridProperty, TextThatSomebodySpoiltNeverStopsTheProgram, ()) {
    static const std::vector<Shaped> all = some_schedules();
    std::string text = to_csv(all[*rc::gen::inRange<std::size_t>(0, all.size())].grid);
    const auto times = *rc::gen::inRange(1, 6);
    for (int n = 0; n < times; ++n) {
        const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
        const char c = *rc::gen::element('0', '1', '9', 'F', 'B', 'I', 'W', ',', '\n', ';', '(');
        if (*rc::gen::arbitrary<bool>())
            text[at] = c;
        else
            text.insert(at, 1, c);
    }
    expect_runs_if_sound(read_grid(csv_rows(text)));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
