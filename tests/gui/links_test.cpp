// What leads from row to row: the critical path in pixels, transfers between ranks.
#include <algorithm>
#include <cmath>

#include "cli/explain.hpp"
#include "gui/scenario/answer.hpp"
#include "gui/timeline/arrivals.hpp"
#include "gui/timeline/path_strokes.hpp"
#include "tests/gui/window_world.hpp"
#include "tests/trace/pipeline_trace.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

constexpr int kWidth = 400;

struct Rank4 {
    Timeline timeline{std::make_shared<const trace::Trace>(trace::pipeline_trace({4, 8, 3}))};
    Viewport view{timeline.window()};

    Rank4() { view.set_width(kWidth); }
    // As many stays of equal length as asked for, on each row in turn.
    std::vector<cli::PathStay> stays(std::int64_t count) const {
        std::vector<cli::PathStay> all;
        const Stretch window = timeline.window();
        for (std::int64_t i = 0; i < count; ++i)
            all.push_back(
                {static_cast<std::int32_t>(timeline.ranks()[static_cast<std::size_t>(i % 4)].track),
                 window.from + window.length() * i / count,
                 window.from + window.length() * (i + 1) / count});
        return all;
    }
};

TEST(PathStrokes, AWideStayIsAStrokeOfItsOwn) {
    const Rank4 world;
    const std::vector<PathStroke> strokes = strokes_of(world.stays(4), world.timeline, world.view);
    ASSERT_EQ(strokes.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
        // A quarter of the width each, to within a picosecond.
        EXPECT_NEAR(strokes[i].left, kWidth / 4. * static_cast<double>(i), 1e-3);
        EXPECT_NEAR(strokes[i].right, kWidth / 4. * static_cast<double>(i + 1), 1e-3);
        EXPECT_EQ(strokes[i].first, i);
        EXPECT_EQ(strokes[i].top, i);
        EXPECT_EQ(strokes[i].bottom, i);
    }
}

// A hundred stays in each pixel: at most one stroke within it and one across its edge, which follow
// each other without a gap and touch all four rows.
TEST(PathStrokes, ManyNarrowStaysAreFewStrokesWithoutAGap) {
    const Rank4 world;
    const std::vector<PathStroke> strokes =
        strokes_of(world.stays(100 * kWidth), world.timeline, world.view);
    ASSERT_LE(strokes.size(), 2U * kWidth);
    ASSERT_GE(strokes.size(), 1U * kWidth);
    for (std::size_t i = 1; i < strokes.size(); ++i)
        EXPECT_EQ(strokes[i].left, strokes[i - 1].right);
    EXPECT_NEAR(strokes.back().right, kWidth, 1e-3);
    EXPECT_GE(std::count_if(strokes.begin(), strokes.end(),
                            [](const auto& each) { return each.top == 0 && each.bottom == 3; }),
              kWidth);
}

TEST(PathStrokes, OnlyWhatIsShownIsVisited) {
    Rank4 world;
    const Stretch window = world.timeline.window();
    world.view.show({window.from + window.length() / 2 + 1, window.to});
    const std::vector<PathStroke> strokes = strokes_of(world.stays(4), world.timeline, world.view);
    ASSERT_EQ(strokes.size(), 2U);
    EXPECT_EQ(strokes[0].first, 2U);
    EXPECT_EQ(strokes[1].first, 3U);
}

class Transfers : public testing::Test {
  protected:
    void SetUp() override {
        const std::atomic<bool> stop{false};
        const std::string path = shipped("gpt3-175b-a100x1024");
        answer_ = answer_of({content(path), path}, stop);
        ASSERT_TRUE(answer_->predicted());
    }
    const Timeline& timeline() const { return *answer_->timeline; }
    trace::Event event(const OpPlace& place) const {
        return timeline().track_of(place.rank).events[static_cast<std::size_t>(place.event)];
    }
    const trace::StepActions& actions(const OpPlace& place) const {
        const trace::ProgramOps& program = timeline().program_of(place.rank);
        return program.actions[program.step[static_cast<std::size_t>(place.event)]];
    }
    // By the plan: one of them sends what the other one receives.
    bool are_two_ends(const OpPlace& a, const OpPlace& b) const {
        for (const plan::Action& one : actions(a))
            for (const plan::Action& other : actions(b))
                if (plan::is_transfer(one.kind) && plan::is_transfer(other.kind) &&
                    plan::is_send(one.kind) != plan::is_send(other.kind) &&
                    one.micro_batch == other.micro_batch &&
                    one.stage + plan::hop_to_peer(one.kind) == other.stage)
                    return true;
        return false;
    }
    std::vector<OpPlace> waiting_transfers() const {
        std::vector<OpPlace> all;
        for (std::size_t rank = 0; rank < timeline().ranks().size(); ++rank) {
            const trace::Track& track = timeline().track_of(rank);
            for (std::size_t i = 0; i < track.events.size(); ++i)
                if (timeline().trace().op_of(track, i).kind == plan::OpKind::exchange &&
                    track.events[i].start > track.events[i].ready)
                    all.push_back({rank, static_cast<std::int32_t>(i)});
        }
        return all;
    }

    AnswerPtr answer_;
};

TEST_F(Transfers, ComeFromTheOtherEndThatWasThereLast) {
    const std::vector<OpPlace> waiting = waiting_transfers();
    ASSERT_GT(waiting.size(), 100U);
    for (const OpPlace& to : waiting) {
        const std::optional<Arrival> arrival = arrival_of(timeline(), to);
        ASSERT_TRUE(arrival);
        EXPECT_NE(arrival->from.rank, to.rank);
        EXPECT_EQ(event(arrival->from).ready, event(to).start);
        EXPECT_EQ(arrival->received, event(to).end);
        ASSERT_TRUE(are_two_ends(arrival->from, to))
            << trace::to_text(actions(arrival->from)) << ' ' << trace::to_text(actions(to));
    }
}

// From either end: an action that waited for a transfer has it, and so has the one before the send.
TEST_F(Transfers, AreOfTheActionThatWaitedAndOfTheOneThatSent) {
    std::size_t received = 0, sent = 0;
    for (const OpPlace& to : waiting_transfers()) {
        const Arrival arrival = *arrival_of(timeline(), to);
        const auto has = [&](const OpPlace& op) {
            const std::vector<Arrival> around = arrivals_around(timeline(), op);
            return std::find(around.begin(), around.end(), arrival) != around.end();
        };
        const trace::Events& events = timeline().track_of(to.rank).events;
        for (std::size_t i = 0; i < events.size() && received < 20; ++i) {
            if (events[i].blocker != to.event) continue;
            EXPECT_TRUE(has({to.rank, static_cast<std::int32_t>(i)}));
            ++received;
        }
        if (sent < 20 && event(arrival.from).blocker >= 0) {
            EXPECT_TRUE(has({arrival.from.rank, event(arrival.from).blocker}));
            ++sent;
        }
    }
    EXPECT_EQ(received, 20U);
    EXPECT_EQ(sent, 20U);
}

// Over the middle of each stay that is wide enough to be seen stands the line, while P wants it.
TEST(CriticalPath, IsDrawnOverItsRanksAndTakenAwayAgain) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    ASSERT_TRUE(until([&] { return world.window->has_page(); }));
    TimelineView& view = world.window->timeline();
    ASSERT_NE(view.path(), nullptr);
    const QRgb ink = Look::of(view.palette()).ink.rgb();
    const auto drawn = [&] {
        const QImage picture = world.canvas()->grab().toImage();
        const QRect rows = view.place_of_rows();
        std::size_t wide = 0, seen = 0;
        for (const cli::PathStay& stay : *view.path()) {
            const double left = world.scene().view.x_of(stay.from);
            const double right = world.scene().view.x_of(stay.to);
            if (right - left < 6) continue;
            ++wide;
            const std::size_t rank =
                *view.timeline()->rank_of_track(static_cast<std::size_t>(stay.track));
            const Row& row = world.scene().rows->all()[world.scene().rows->row_of(rank)];
            const QPoint place(rows.left() + static_cast<int>((left + right) / 2),
                               rows.top() + row.bottom() - 4);
            seen += picture.pixel(place) == ink ? 1 : 0;
        }
        EXPECT_GT(wide, 1U);
        return static_cast<double>(seen) / static_cast<double>(wide);
    };
    EXPECT_EQ(drawn(), 0);
    world.key(Qt::Key_P);
    EXPECT_EQ(drawn(), 1);
    world.key(Qt::Key_P);
    EXPECT_EQ(drawn(), 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
