// Timelines of traces made by hand, so that each row can be derived on paper: 1000 ps fill the 40
// columns of the narrowest view, of which "pp 0 |" and "|" leave 33 cells to draw on.
#include "trace/timeline.hpp"

#include <sstream>

#include <gtest/gtest.h>

#include "trace/accounts.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

constexpr std::uint32_t kForward = 0, kBackward = 1, kRecompute = 2, kTransfer = 3, kStep = 4;

// A trace of pipeline ranks whose ops follow each other as given; each op is its own action.
class World {
  public:
    World() {
        using plan::Phase;
        trace_.ops.resize(5);
        trace_.ops[kBackward].phase = Phase::backward;
        trace_.ops[kRecompute].phase = Phase::recompute;
        trace_.ops[kStep].phase = Phase::optimizer;
        OpName& transfer = trace_.ops[kTransfer];
        transfer.kind = plan::OpKind::exchange;
        transfer.stream = plan::Stream::pipeline_comm;
        transfer.group = plan::GroupKind::pipeline;
    }

    std::int32_t add_rank() {
        const auto rank = static_cast<std::int32_t>(trace_.programs.size());
        trace_.programs.emplace_back().pipeline_rank = rank;
        Track& track = trace_.tracks.emplace_back();
        track.rank = rank;
        track.program = rank;
        return rank;
    }

    // Returns the op's id. `late`: the track that came last to a transfer.
    std::int32_t add(std::int32_t rank, std::uint32_t op, const std::string& action,
                     Picoseconds start, Picoseconds end, std::int32_t blocker = kNothing,
                     Picoseconds ready = -1, std::int32_t late = -1) {
        ProgramOps& program = trace_.programs[static_cast<std::size_t>(rank)];
        const StepActions actions = *parse_actions(action);
        if (program.actions.empty() || program.actions.back() != actions)
            program.actions.push_back(actions);
        program.op.push_back(op);
        program.step.push_back(static_cast<std::uint32_t>(program.actions.size() - 1));
        program.layer.push_back(-1);
        program.live_bytes.resize(program.actions.size());
        Track& track = trace_.tracks[static_cast<std::size_t>(rank)];
        std::vector<Event> events = track.events.unpacked();
        events.push_back({ready < 0 ? start : ready, start, end, blocker, late});
        track.events = events;
        trace_.step_end = std::max(trace_.step_end, end);
        return static_cast<std::int32_t>(program.op.size()) - 1;
    }

    Trace trace_;
};

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    return lines;
}

constexpr TimelineStyle kNarrow{40, false};

// 33 cells of 10 ps: forward 110 ps, backward 220 ps.
TEST(Timeline, DrawsWorkInProportion) {
    World world;
    const std::int32_t rank = world.add_rank();
    const std::int32_t forward = world.add(rank, kForward, "0F12", 0, 110);
    world.add(rank, kBackward, "0B12", 110, 330, forward);
    const auto lines = lines_of(timeline_view(world.trace_, 0, 330, kNarrow));
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0], "pp 0 |F12ffffffffB12bbbbbbbbbbbbbbbbbbb|");
}

// Ticks: at least 14 cells apart and round, so every 200 ps = 20 cells.
TEST(Timeline, HasAnAxisInRoundSteps) {
    World world;
    world.add(world.add_rank(), kForward, "0F0", 0, 330);
    const auto lines = lines_of(timeline_view(world.trace_, 0, 330, kNarrow));
    EXPECT_EQ(lines[1], "      +-------------------+------------");
    EXPECT_EQ(lines[2], "      0 ps                200 ps");
}

// Rank 1 waits 165 ps for rank 0's forward (bubble), then 55 ps for the transfer.
TEST(Timeline, TellsBubblesFromTransfers) {
    World world;
    const std::int32_t first = world.add_rank();
    const std::int32_t second = world.add_rank();
    const std::int32_t forward = world.add(first, kForward, "0F0", 0, 165);
    world.add(first, kTransfer, "0SEND_F0", 165, 220, forward);
    const std::int32_t received =
        world.add(second, kTransfer, "1RECV_F0", 165, 220, kNothing, 0, first);
    world.add(second, kForward, "1F0", 220, 330, received);
    const auto lines = lines_of(timeline_view(world.trace_, 0, 330, kNarrow));
    // Cell 16 is half 0F0, half what follows; the first of equals is shown.
    EXPECT_EQ(lines[0].substr(0, 23), "pp 0 |F0fffffffffffffff");
    const std::string row = lines[1].substr(6);
    EXPECT_EQ(row.substr(0, 16), std::string(16, '.'));
    EXPECT_EQ(row.substr(17, 5), std::string(5, '~'));
    EXPECT_EQ(row.substr(22), "F0fffffffff|");
}

// A layer's recomputation and backward alternate within a cell, one part to two: of 33 cells 11 are
// recomputation, evenly spread.
TEST(Timeline, SpreadsRecomputation) {
    World world;
    const std::int32_t rank = world.add_rank();
    std::int32_t last = kNothing;
    for (Picoseconds at = 0; at < 330; at += 3) {
        last = world.add(rank, kRecompute, "0B0", at, at + 1, last);
        last = world.add(rank, kBackward, "0B0", at + 1, at + 3, last);
    }
    std::string row = lines_of(timeline_view(world.trace_, 0, 330, kNarrow))[0];
    row = row.substr(6, 33);
    row[1] = 'b';  // the micro-batch stands here
    std::size_t count = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
        const bool again = row[i] == 'r' || row[i] == 'R';
        count += again ? 1 : 0;
        if (again && i + 1 < row.size()) {
            EXPECT_EQ(row[i + 1], 'b') << row;
        }
    }
    EXPECT_GE(count, 10u) << row;
    EXPECT_LE(count, 11u) << row;
}

// An action that a wait interrupts is named once.
TEST(Timeline, NamesAnInterruptedActionOnce) {
    World world;
    const std::int32_t rank = world.add_rank();
    const std::int32_t before = world.add(rank, kForward, "0F3", 0, 110);
    const std::int32_t wait = world.add(rank, kTransfer, "0F3", 110, 220, before);
    world.add(rank, kForward, "0F3", 220, 330, wait);
    EXPECT_EQ(lines_of(timeline_view(world.trace_, 0, 330, kNarrow))[0],
              "pp 0 |F3fffffffff~~~~~~~~~~~fffffffffff|");
}

// Start and end are shown apart only where they are a small part of the step.
TEST(Timeline, MagnifiesTheEndsOfLongSteps) {
    World world;
    const std::int32_t rank = world.add_rank();
    std::int32_t last = kNothing;
    for (int i = 0; i < 10; ++i) {
        const Picoseconds at = 30'000'000'000 * i;
        last = world.add(rank, kForward, "0F" + std::to_string(i), at, at + 10'000'000'000, last);
        last = world.add(rank, kBackward, "0B" + std::to_string(i), at + 10'000'000'000,
                         at + 30'000'000'000, last);
    }
    const std::string text = timeline_text(world.trace_, kNarrow);
    EXPECT_NE(text.find("the step, 300.0 ms\n"), std::string::npos) << text;
    EXPECT_NE(text.find("\nits start, until 30.0 ms\n"), std::string::npos) << text;
    EXPECT_NE(text.find("\nits end, from 280.0 ms\n"), std::string::npos) << text;

    world.trace_.step_end = 45'000'000'000;  // cuts the second micro-batch: start is 2/3 of it
    EXPECT_EQ(timeline_text(world.trace_, kNarrow).find("its start"), std::string::npos);
}

TEST(Timeline, OfNothing) {
    EXPECT_EQ(timeline_text(Trace{}, kNarrow), "no time passes in this trace\n");
}

// Spans tile the window in order, and sum to the accounts.
TEST(AccountSpans, TileTheWindow) {
    World world;
    const std::int32_t first = world.add_rank();
    const std::int32_t second = world.add_rank();
    const std::int32_t forward = world.add(first, kForward, "0F0", 0, 165);
    world.add(first, kTransfer, "0SEND_F0", 165, 220, forward);
    const std::int32_t received =
        world.add(second, kTransfer, "1RECV_F0", 165, 220, kNothing, 0, first);
    world.add(second, kForward, "1F0", 220, 330, received);
    for (const Track& track : world.trace_.tracks) {
        Accounts sums{};
        Picoseconds at = world.trace_.step_start;
        for (const AccountSpan& span : account_spans(world.trace_, track)) {
            EXPECT_EQ(span.from, at);
            EXPECT_LT(span.from, span.to);
            at = span.to;
            sums[static_cast<std::size_t>(span.account)] += span.to - span.from;
        }
        EXPECT_EQ(at, world.trace_.step_end);
        EXPECT_EQ(sums, accounts_of(world.trace_, track));
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
