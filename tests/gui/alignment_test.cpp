// Two steps held against each other op by op: what each op is in the other one, and in which
// colours that is shown.
#include "gui/timeline/difference_lanes.hpp"
#include "gui/window/shortcuts_sheet.hpp"
#include "tests/gui/held_step.hpp"
#include "tests/trace/pipeline_trace.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

// Two steps of a pipeline, of which B takes a third of the time for every all-reduce.
struct TwoSteps {
    static std::shared_ptr<const trace::Trace> faster() {
        auto trace = std::make_shared<trace::Trace>(trace::pipeline_trace({4, 8, 3}));
        for (trace::Track& track : trace->tracks)
            track.events.change([&](trace::Event& event, std::size_t i) {
                if (is_collective(*trace, track, i)) event.start = event.end - event.duration() / 3;
            });
        return trace;
    }
    static bool is_collective(const trace::Trace& trace, const trace::Track& track, std::size_t i) {
        return trace.op_of(track, i).kind == plan::OpKind::all_reduce;
    }

    std::shared_ptr<const Timeline> a = std::make_shared<const Timeline>(
        std::make_shared<const trace::Trace>(trace::pipeline_trace({4, 8, 3})));
    std::shared_ptr<const Timeline> b = std::make_shared<const Timeline>(faster());
    std::shared_ptr<const trace::Alignment> alignment =
        std::make_shared<const trace::Alignment>(a->trace(), b->trace());
    std::shared_ptr<const Counterparts> of_a =
        std::make_shared<const Counterparts>(a, b, alignment, trace::Side::a);
    std::shared_ptr<const Counterparts> of_b =
        std::make_shared<const Counterparts>(b, a, alignment, trace::Side::b);
};

// B's collectives take a third, and nothing else another time: each op's colour says so, turned
// round in the other step.
TEST(TwoStepsAligned, OpsHaveTheColourOfTheirDifference) {
    const TwoSteps steps;
    for (std::size_t rank = 0; rank < steps.a->ranks().size(); ++rank) {
        const trace::Track& track = steps.a->track_of(rank);
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            const OpPlace op{rank, static_cast<std::int32_t>(i)};
            EXPECT_EQ(steps.of_a->of(op), op);
            const bool other = TwoSteps::is_collective(steps.a->trace(), track, i);
            EXPECT_EQ(steps.of_a->difference_kind(op), other ? Kind::twice : Kind::as_long);
            EXPECT_EQ(steps.of_b->difference_kind(op), other ? Kind::half : Kind::as_long);
        }
    }
}

// The same boxes, so that a selection is of both.
TEST(TwoStepsAligned, ColouringMovesNoBox) {
    const TwoSteps steps;
    const DifferenceLanes lanes(*steps.b, steps.of_b);
    const auto places = [](const Lane& lane) {
        std::vector<std::tuple<Picoseconds, Picoseconds, std::int32_t>> found;
        for (const Span& span : lane.spans())
            found.emplace_back(span.from, span.to, span.index);
        return found;
    };
    const auto time_of = [](const Lane& lane) {
        Picoseconds sum = 0;
        for (const Picoseconds kind : lane.sums(0, lane.spans().size()))
            sum += kind;
        return sum;
    };
    for (std::size_t rank = 0; rank < steps.b->ranks().size(); ++rank) {
        const RankLanes& own = steps.b->ranks()[rank];
        EXPECT_EQ(places(lanes.outline(rank)), places(own.outline));
        EXPECT_EQ(time_of(lanes.work(rank)), time_of(own.work));
        for (const Span& span : lanes.work(rank).spans())
            EXPECT_EQ(span.kind, span.index < 0 ? Kind::idle : Kind::as_long);
        ASSERT_EQ(lanes.streams(rank).size(), steps.b->streams(rank).size());
        for (std::size_t lane = 0; lane < lanes.streams(rank).size(); ++lane)
            EXPECT_EQ(places(lanes.streams(rank)[lane]), places(steps.b->streams(rank)[lane]));
    }
}

std::string value_of(QTableWidget& table, const QString& what) {
    for (int row = 0; row < table.rowCount(); ++row)
        if (table.item(row, 0)->text() == what) return table.item(row, 1)->text().toStdString();
    return {};
}

class HeldStep : public BesideAHeldStep {
  protected:
    // By the mouse, on the stream of its opened rank.
    void click(const OpPlace& op) {
        above().go_to(op);
        above().select(std::nullopt);
        const std::size_t number = *above().scene().rows->row_of_event(op.rank, op.event);
        const Row& row = above().scene().rows->all()[number];
        const Viewport& view = above().scene().view;
        const Stretch times = above().timeline()->times_of(op);
        const QRect rows = above().place_of_rows();
        const double middle = (view.x_of(times.from) + view.x_of(times.to)) / 2;
        QTest::mouseClick(above().viewport(), Qt::LeftButton, {},
                          QPoint(rows.left() + static_cast<int>(middle),
                                 rows.top() + row.top - above().scene().scrolled + row.height / 2));
    }
    // The first op of the compute stream of a phase that is long enough to be hit.
    OpPlace op_of(plan::Phase phase) {
        const trace::Trace& trace = above().timeline()->trace();
        const trace::Track& track = above().timeline()->track_of(0);
        const double least = 8 * above().scene().view.ps_per_pixel();
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            const trace::OpName& op = trace.op_of(track, i);
            const auto takes = static_cast<double>(track.events[i].duration());
            if (op.phase == phase && op.stream == plan::Stream::compute && takes > least)
                return {0, static_cast<std::int32_t>(i)};
        }
        ADD_FAILURE() << "no such op";
        return {};
    }
};

TEST_F(HeldStep, AnOpShowsItsCounterpartAndLeadsToIt) {
    for (int i = 0; i < 12; ++i)
        world.key(Qt::Key_W);  // until an op is some pixels wide
    const OpPlace op = op_of(plan::Phase::forward);
    click(op);
    ASSERT_EQ(above().selected_op(), op);
    // Recomputation changes no forward pass: the op is there, with the time that the trace says.
    ASSERT_TRUE(held().scene().pointed_at);
    const OpPlace there = *held().scene().pointed_at;
    EXPECT_EQ(there.rank, 0U);
    const std::string name = held().timeline()->name_of(there);
    EXPECT_EQ(name, above().timeline()->name_of(op));
    QTableWidget& table = world.window->details().table();
    EXPECT_EQ(value_of(table, QStringLiteral("in the other step")),
              name + " on " + held().timeline()->ranks()[0].name);
    EXPECT_EQ(value_of(table, QStringLiteral("takes there")),
              value_of(table, QStringLiteral("duration")));
    EXPECT_EQ(value_of(table, QStringLiteral("here against there")), "none");

    world.key(Qt::Key_O);
    EXPECT_EQ(held().selected_op(), there);
    EXPECT_TRUE(held().hasFocus());
    EXPECT_EQ(above().scene().pointed_at, op);
    EXPECT_EQ(above().shown_of_step(), held().shown_of_step());
    // And the details are of what was selected last.
    EXPECT_NE(value_of(table, QStringLiteral("in the other step")), "");
    QTest::keyClick(&held(), Qt::Key_O);
    EXPECT_TRUE(above().hasFocus());
    EXPECT_EQ(above().selected_op(), op);
}

TEST_F(HeldStep, AnOpOfOneStepAloneSaysSo) {
    for (int i = 0; i < 12; ++i)
        world.key(Qt::Key_W);
    const OpPlace op = op_of(plan::Phase::recompute);
    click(op);
    ASSERT_EQ(above().selected_op(), op);
    EXPECT_FALSE(held().scene().pointed_at);
    EXPECT_EQ(value_of(world.window->details().table(), QStringLiteral("in the other step")),
              "has no counterpart");
    world.key(Qt::Key_O);
    EXPECT_TRUE(above().hasFocus());
}

TEST_F(HeldStep, AKeyColoursBothByTheDifference) {
    const QImage before = above().grab().toImage();
    world.key(Qt::Key_C);
    ASSERT_TRUE(above().scene().difference);
    ASSERT_TRUE(held().scene().difference);
    EXPECT_NE(above().grab().toImage(), before);
    // What is recomputed is in the step above alone, nothing in the held one is.
    const auto alone = [](const TimelineView& view) {
        Picoseconds time = 0;
        for (std::size_t rank = 0; rank < view.timeline()->ranks().size(); ++rank) {
            const Lane& work = view.scene().work(rank);
            time += work.sums(0, work.spans().size())[static_cast<std::size_t>(Kind::alone)];
        }
        return time;
    };
    const auto recomputed = [](const TimelineView& view) {
        Picoseconds time = 0;
        for (const RankLanes& rank : view.timeline()->ranks())
            time += rank.work.sums(
                0, rank.work.spans().size())[static_cast<std::size_t>(Kind::recompute)];
        return time;
    };
    EXPECT_GT(alone(above()), 0);
    EXPECT_EQ(alone(above()), recomputed(above()));
    EXPECT_EQ(alone(held()), 0);
    // Another edit keeps the colours; without a held step there are none.
    world.window->editor().replace_text(
        world.window->document().text().replace(QStringLiteral("1f1b"), QStringLiteral("gpipe")));
    world.settle();
    EXPECT_TRUE(above().scene().difference);
    QTest::keyClick(world.window.get(), Qt::Key_H, Qt::ControlModifier | Qt::ShiftModifier);
    EXPECT_FALSE(above().scene().difference);
    world.key(Qt::Key_C);
    world.key(Qt::Key_C);
    EXPECT_FALSE(above().scene().difference);
}

// Another step is held, or none, while one is being aligned: what was asked for first is never
// told.
TEST_F(HeldStep, IsAlignedBesideTheWindowAndNoLongerThanItIsWanted) {
    const auto hold = [&] { QTest::keyClick(world.window.get(), Qt::Key_H, Qt::ControlModifier); };
    hold();
    EXPECT_TRUE(world.window->is_comparing());
    EXPECT_TRUE(world.window->comparison().toPlainText().contains(QStringLiteral("aligning")));
    world.key(Qt::Key_Period);  // the window does what it is asked meanwhile
    EXPECT_TRUE(above().selected_op());
    EXPECT_FALSE(above().counterpart());
    world.settle();
    EXPECT_TRUE(above().counterpart());
    EXPECT_FALSE(world.window->comparison().toPlainText().contains(QStringLiteral("aligning")));

    hold();
    QTest::keyClick(world.window.get(), Qt::Key_H, Qt::ControlModifier | Qt::ShiftModifier);
    EXPECT_FALSE(world.window->is_comparing());
    QTest::qWait(200);
    EXPECT_FALSE(above().counterpart());
    EXPECT_EQ(world.window->comparison().toPlainText(), QString());
    // And the next one is aligned as ever.
    hold();
    world.settle();
    EXPECT_TRUE(above().counterpart());
}

TEST_F(HeldStep, ItsKeysStandInTheSheet) {
    const ShortcutsSheet sheet(world.window->all_actions(), nullptr);
    const auto* table = sheet.findChild<QTableWidget*>();
    QStringList keys;
    for (int row = 0; row < table->rowCount(); ++row)
        keys << table->item(row, 0)->text();
    EXPECT_TRUE(keys.contains(QStringLiteral("O")));
    EXPECT_TRUE(keys.contains(QStringLiteral("C")));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
