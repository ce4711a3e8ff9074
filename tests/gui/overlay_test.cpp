// One step laid over the rows of another: where each op of the other one comes to lie, without a
// window, and what a person sees and does in one.
#include "gui/timeline/overlaid_lanes.hpp"

#include <limits>
#include <set>

#include <QMouseEvent>
#include <QStatusBar>

#include "gui/window/shortcuts_sheet.hpp"
#include "tests/gui/held_step.hpp"
#include "tests/trace/pipeline_trace.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

constexpr Picoseconds kLater = 7'000'000'000;  // when the held step's window begins
constexpr std::uint32_t kReduce = 2;           // op of the forward pass that is an all-reduce

// Twelve layers on so many stages; layers are numbered through the model.
std::shared_ptr<trace::Trace> twelve_layers(int stages) {
    const int layers = 12 / stages;
    auto trace = std::make_shared<trace::Trace>(trace::pipeline_trace({stages, 8, layers}));
    for (int stage = 0; stage < stages; ++stage)
        for (std::int16_t& layer : trace->programs[static_cast<std::size_t>(stage)].layer)
            if (layer >= 0) layer = static_cast<std::int16_t>(layer + stage * layers);
    return trace;
}

void begin_later(trace::Trace& trace, Picoseconds by) {
    trace.step_start += by;
    trace.step_end += by;
    for (trace::Track& track : trace.tracks)
        track.events.change([&](trace::Event& event, std::size_t) {
            event.ready += by;
            event.start += by;
            event.end += by;
        });
}

// The timelines of two steps, the other one laid over the rows of the first.
struct Overlay {
    Overlay(std::shared_ptr<const trace::Trace> of_own,
            std::shared_ptr<const trace::Trace> of_other, bool by_difference = false)
        : own(std::make_shared<const Timeline>(std::move(of_own))),
          others(std::make_shared<const Timeline>(std::move(of_other))),
          alignment(std::make_shared<const trace::Alignment>(others->trace(), own->trace())),
          counterparts(
              std::make_shared<const Counterparts>(own, others, alignment, trace::Side::b)),
          lanes(*own, counterparts, by_difference),
          rows(*own) {
        rows.lay_over(true);
        for (std::size_t rank = 0; rank < own->ranks().size(); ++rank)
            rows.open(rank, true);
        for (const Row& row : rows.all())
            lanes.make(row);
    }

    // Of all rows of a rank's streams: row, span and what it is.
    template <typename Visit>
    void each_op(std::size_t rank, Visit visit) const {
        for (const Row& row : rows.all()) {
            if (row.rank != rank || !row.stream) continue;
            const OverlaidLane& over = *lanes.made(row);
            for (const Span& span : over.lane.spans())
                visit(row, span, over.ops[static_cast<std::size_t>(span.index)]);
        }
    }

    std::shared_ptr<const Timeline> own, others;
    std::shared_ptr<const trace::Alignment> alignment;
    std::shared_ptr<const Counterparts> counterparts;
    OverlaidLanes lanes;
    Rows rows;
};

// The held step began at another time of its trace, which is none of its own times.
TEST(OverlaidLanes, EachOpLiesInTheRowOfItsCounterpartAtItsOwnTime) {
    const auto held = twelve_layers(4);
    begin_later(*held, kLater);
    const Overlay overlay(twelve_layers(4), held);
    for (std::size_t rank = 0; rank < 4; ++rank) {
        std::set<std::int32_t> seen;
        overlay.each_op(rank, [&](const Row& row, const Span& span, const LaidOp& op) {
            EXPECT_EQ(op.there, (OpPlace{rank, op.own}));  // the same step twice
            seen.insert(op.own);
            const auto event = static_cast<std::size_t>(op.own);
            const trace::Event there = held->tracks[rank].events[event];
            EXPECT_EQ(span.from, there.start - kLater);
            EXPECT_EQ(span.to, there.end - kLater);
            const Lane& lane = overlay.rows.lane(row);
            EXPECT_TRUE(std::any_of(lane.spans().begin(), lane.spans().end(), [&](const Span& box) {
                return box.index == op.own && box.from == span.from && box.kind == span.kind;
            }));
        });
        EXPECT_EQ(seen.size(), held->tracks[rank].events.size());
    }
}

// Of a rank's own row: what its compute stream does, in the order of time, with gaps for waiting.
TEST(OverlaidLanes, OnARanksOwnRowAreTheActionsOfTheOtherStep) {
    const Overlay overlay(twelve_layers(4), twelve_layers(4));
    for (std::size_t rank = 0; rank < 4; ++rank) {
        const OverlaidLane& over =
            *overlay.lanes.made(overlay.rows.all()[overlay.rows.row_of(rank)]);
        std::vector<Span> work;
        for (const Span& span : overlay.own->ranks()[rank].work.spans())
            if (span.index >= 0) work.push_back(span);
        ASSERT_EQ(over.lane.spans().size(), work.size());
        for (std::size_t i = 0; i < work.size(); ++i) {
            const Span& span = over.lane.spans()[i];
            EXPECT_EQ(span.from, work[i].from);
            EXPECT_EQ(span.to, work[i].to);
            EXPECT_EQ(span.kind, work[i].kind);
        }
    }
}

// From four stages to two: a layer's ops lie where the layer is now, from whichever rank.
TEST(OverlaidLanes, OfALayerThatHasMovedLiesWhereItIsNow) {
    const Overlay overlay(twelve_layers(2), twelve_layers(4));
    for (std::size_t rank = 0; rank < 2; ++rank) {
        std::set<std::size_t> from;
        std::set<std::int32_t> laid;
        overlay.each_op(rank, [&](const Row&, const Span&, const LaidOp& op) {
            from.insert(op.there.rank);
            if (op.own >= 0) laid.insert(op.own);
        });
        EXPECT_TRUE(from.contains(2 * rank) && from.contains(2 * rank + 1));
        // All ops of layers; transfers between stages that were one are in the other step alone.
        std::size_t of_layers = 0;
        for (const std::int16_t layer : overlay.own->program_of(rank).layer)
            of_layers += layer >= 0;
        EXPECT_GE(laid.size(), of_layers);
    }
}

// A norm before the first op of each layer, of the held step alone: it lies in the rank's row,
// though nothing here is its counterpart.
TEST(OverlaidLanes, WhatTheOtherStepHasAloneLiesInTheRowOfWhatItFollows) {
    const auto held = twelve_layers(4);
    const auto added = static_cast<std::uint32_t>(held->ops.size());
    // Takes a picosecond of the op's.
    const std::int64_t norms = trace::put_norms_before(*held, 1, [](trace::Event& op) {
        const Picoseconds now = op.start++;
        return trace::Event{now, now, now + 1};
    });
    const trace::ProgramOps& program = held->programs[1];
    const Overlay overlay(twelve_layers(4), held);
    for (std::size_t rank = 0; rank < 4; ++rank) {
        std::int64_t alone = 0;
        overlay.each_op(rank, [&](const Row& row, const Span& span, const LaidOp& op) {
            if (op.own >= 0) return;
            ++alone;
            EXPECT_EQ(overlay.rows.lane(row).name(), "compute");
            EXPECT_EQ(span.to - span.from, 1);
            EXPECT_EQ(op.there.rank, 1U);
            EXPECT_EQ(program.op[static_cast<std::size_t>(op.there.event)], added);
            EXPECT_EQ(op.own, -1);
        });
        EXPECT_EQ(alone, rank == 1 ? norms : 0);
    }
    EXPECT_EQ(norms, 3 * 8);  // layers of a stage × micro-batches
}

// An all-reduce that began a third of its time later there, and so takes two thirds.
TEST(OverlaidLanes, SayHowLongAnOpTookThereAndWhenItBegan) {
    const auto held = twelve_layers(4);
    for (trace::Track& track : held->tracks)
        track.events.change([&](trace::Event& event, std::size_t i) {
            if (held->op_of(track, i).kind == plan::OpKind::all_reduce)
                event.start += event.duration() / 3;
        });
    const auto own = twelve_layers(4);
    const Overlay overlay(own, held);
    const trace::ProgramOps& program = own->programs[0];
    const auto reduce = static_cast<std::int32_t>(
        std::find(program.op.begin(), program.op.end(), kReduce) - program.op.begin());
    // 150 µs and twice 7.919101 µs: a third is 55.3 µs, two are 110.6 µs.
    const std::optional<Laid> over = overlay.lanes.over({0, reduce});
    ASSERT_TRUE(over);
    const std::string told = overlay.lanes.told(*over);
    EXPECT_TRUE(told.ends_with("on pp 0 · rank 0, takes 111 µs, begins 55.3 µs later")) << told;
    const Stretch here = overlay.own->times_of({0, reduce});
    EXPECT_EQ(over->times.from - here.from, here.length() / 3);
    EXPECT_EQ(over->times.to, here.to);
    // The compute ops around it run as they did, and so does the whole action.
    EXPECT_TRUE(
        overlay.lanes.told(*overlay.lanes.over({0, 0})).ends_with("begins at the same time"));
    const Span box = overlay.own->ranks()[0].outline.spans().front();
    const std::optional<Laid> over_box = overlay.lanes.over_box(0, box);
    ASSERT_TRUE(over_box);
    EXPECT_EQ(over_box->times, (Stretch{box.from, box.to}));
    EXPECT_TRUE(overlay.lanes.told(*over_box).starts_with("0F0 on pp 0")) << box.index;
    // What is in one step alone has nothing here.
    EXPECT_TRUE(
        overlay.lanes.told({{0, 0}, false, {0, 1}, std::nullopt}).ends_with("in that step alone"));
}

// As the other step is coloured where it is shown alone: what takes less there takes longer here.
TEST(OverlaidLanes, ByDifferenceHaveTheColoursOfTheOtherStep) {
    const auto held = twelve_layers(4);
    for (trace::Track& track : held->tracks)
        track.events.change([&](trace::Event& event, std::size_t i) {
            if (held->op_of(track, i).kind == plan::OpKind::all_reduce)
                event.start = event.end - event.duration() / 3;
        });
    const Overlay overlay(twelve_layers(4), held, true);
    for (std::size_t rank = 0; rank < 4; ++rank)
        overlay.each_op(rank, [&](const Row&, const Span& span, const LaidOp& op) {
            const bool reduces =
                overlay.own->trace()
                    .op_of(overlay.own->track_of(rank), static_cast<std::size_t>(op.own))
                    .kind == plan::OpKind::all_reduce;
            EXPECT_EQ(span.kind, reduces ? Kind::half : Kind::as_long);
        });
    EXPECT_EQ(turned_round(Kind::half), Kind::twice);
    EXPECT_EQ(turned_round(Kind::shorter), Kind::longer);
    EXPECT_EQ(turned_round(Kind::little_longer), Kind::little_shorter);
    EXPECT_EQ(turned_round(Kind::alone), Kind::alone);
    EXPECT_EQ(turned_round(Kind::forward), Kind::forward);
}

TEST(Rows, HaveRoomForAnotherStepBelowTheirOwnBoxes) {
    const Timeline timeline(twelve_layers(4));
    Rows rows(timeline);
    const std::vector<Row> before = rows.all();
    rows.lay_over(true);
    ASSERT_EQ(rows.all().size(), before.size());
    for (std::size_t r = 0; r < before.size(); ++r) {
        const Row& row = rows.all()[r];
        EXPECT_EQ(row.height, before[r].height);
        EXPECT_EQ(row.top, before[r].top + static_cast<int>(r) * Rows::kBelow);
        EXPECT_EQ(row.bottom(), row.top + row.height + Rows::kBelow);
        EXPECT_EQ(rows.at(row.bottom() - 1), r);
    }
    rows.lay_over(false);
    EXPECT_EQ(rows.all(), before);
}

class LaidOver : public BesideAHeldStep {
  protected:
    const Row& first_row() { return above().scene().rows->all().front(); }

    // Where a time is in a row, at a height from its top.
    QPoint place(const Row& row, Picoseconds time, int height) {
        const Scene& scene = above().scene();
        const QRect rows = above().place_of_rows();
        return {rows.left() + static_cast<int>(scene.view.x_of(time)),
                rows.top() + row.top - scene.scrolled + height};
    }
    std::string said_at(const QPoint& at) {
        QMouseEvent move(QEvent::MouseMove, at, above().viewport()->mapToGlobal(at), Qt::NoButton,
                         Qt::NoButton, Qt::NoModifier);
        QApplication::sendEvent(above().viewport(), &move);
        return world.window->statusBar()->currentMessage().toStdString();
    }
};

TEST_F(LaidOver, AKeyLaysTheHeldStepOverTheRows) {
    const QImage before = above().grab().toImage();
    const int height = above().scene().rows->height();
    world.key(Qt::Key_V);
    ASSERT_TRUE(above().scene().overlaid);
    ASSERT_TRUE(held().scene().overlaid);
    const auto rows = static_cast<int>(above().scene().rows->all().size());
    EXPECT_EQ(above().scene().rows->height(), height + rows * Rows::kBelow);
    EXPECT_NE(above().grab().toImage(), before);
    EXPECT_EQ(above().scene().overlaid_title, QStringLiteral("A: held"));
    EXPECT_EQ(held().scene().overlaid_title, QStringLiteral("B: shown now"));
    // What is seen has been made, and the held step's work is all there.
    const OverlaidLane* over = above().scene().overlaid->made(first_row());
    ASSERT_NE(over, nullptr);
    Picoseconds laid = 0, work = 0;
    for (const Span& span : over->lane.spans())
        laid += span.to - span.from;
    for (const Span& span : held().timeline()->ranks()[first_row().rank].work.spans())
        if (span.index >= 0) work += span.to - span.from;
    EXPECT_EQ(laid, work);

    world.key(Qt::Key_V);
    EXPECT_FALSE(above().scene().overlaid);
    EXPECT_EQ(above().grab().toImage(), before);
}

TEST_F(LaidOver, TheMouseTellsOfBothSteps) {
    world.key(Qt::Key_V);
    above().grab();
    const Row row = first_row();
    const OverlaidLane& over = *above().scene().overlaid->made(row);
    // The widest of either.
    const auto widest = [](const std::vector<Span>& spans) {
        return *std::max_element(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
            return (a.index >= 0 ? a.to - a.from : 0) < (b.index >= 0 ? b.to - b.from : 0);
        });
    };
    const Span box = widest(above().timeline()->ranks()[row.rank].outline.spans());
    const std::string on_own = said_at(place(row, (box.from + box.to) / 2, row.height / 2));
    EXPECT_NE(on_own.find(" | A: held: "), std::string::npos) << on_own;
    EXPECT_NE(on_own.find(", begins "), std::string::npos) << on_own;
    EXPECT_EQ(above().scene().laid_over.size(), 1U);
    const Span below = widest(over.lane.spans());
    const std::string on_other =
        said_at(place(row, (below.from + below.to) / 2, row.height + Rows::kBelow / 2));
    EXPECT_TRUE(on_other.starts_with("A: held: ")) << on_other;
    EXPECT_NE(on_other.find("takes "), std::string::npos) << on_other;
}

TEST_F(LaidOver, WhatIsSelectedByKeysHasAFrameInTheOtherStep) {
    world.key(Qt::Key_V);
    EXPECT_TRUE(above().scene().laid_over.empty());
    world.key(Qt::Key_Period);
    while (above().scene().selected && above().selected_op() && above().scene().laid_over.empty())
        world.key(Qt::Key_Period);
    ASSERT_EQ(above().scene().laid_over.size(), 1U);
    const auto [box, there] = above().scene().laid_over.front();
    EXPECT_EQ(box, above().scene().selected);
    // From the first to the last of its kernels' counterparts in the held step, which begins at the
    // same 0.
    const OpPlace op = *above().selected_op();
    const Span& span = above().timeline()->ranks()[box.rank].outline.spans()[box.span];
    Stretch expected{std::numeric_limits<Picoseconds>::max(), 0};
    const trace::Track& track = above().timeline()->track_of(op.rank);
    for (std::size_t i = 0; i < track.events.size(); ++i) {
        const trace::Event event = track.events[i];
        if (above().timeline()->trace().op_of(track, i).stream != plan::Stream::compute ||
            event.start < span.from || event.end > span.to)
            continue;
        const OpPlace own{op.rank, static_cast<std::int32_t>(i)};
        above().go_to(own);
        if (const std::optional<OpPlace> other = above().counterpart()) {
            expected.from = std::min(expected.from, held().timeline()->times_of(*other).from);
            expected.to = std::max(expected.to, held().timeline()->times_of(*other).to);
        }
    }
    EXPECT_EQ(there, expected);
    world.key(Qt::Key_Escape);
    EXPECT_TRUE(above().scene().laid_over.empty());
}

TEST_F(LaidOver, GoesAlongWithColoursAndEditsAndEndsWithTheHeldStep) {
    world.key(Qt::Key_V);
    world.key(Qt::Key_C);
    above().grab();
    const OverlaidLane* over = above().scene().overlaid->made(first_row());
    ASSERT_NE(over, nullptr);
    for (const Span& span : over->lane.spans())
        EXPECT_TRUE(is_difference(span.kind));
    world.window->editor().replace_text(
        world.window->document().text().replace(QStringLiteral("1f1b"), QStringLiteral("gpipe")));
    world.settle();
    EXPECT_TRUE(above().scene().overlaid);
    QTest::keyClick(world.window.get(), Qt::Key_H, Qt::ControlModifier | Qt::ShiftModifier);
    EXPECT_FALSE(above().scene().overlaid);
    EXPECT_EQ(first_row().below, 0);
}

TEST_F(LaidOver, IsInWhatIsExported) {
    const auto svg = [&](const std::string& name) {
        const std::string path = world.file(name);
        EXPECT_EQ(world.window->export_timeline(QString::fromStdString(path)), QString());
        return content(path);
    };
    const std::string without = svg("without.svg");
    world.key(Qt::Key_V);
    const std::string with = svg("with.svg");
    EXPECT_EQ(without.find("below: A: held"), std::string::npos);
    EXPECT_NE(with.find("above: B: shown now; below: A: held"), std::string::npos);
    const QString png = QString::fromStdString(world.file("with.png"));
    ASSERT_EQ(world.window->export_timeline(png), QString());
    const QImage laid(png);
    world.key(Qt::Key_V);
    ASSERT_EQ(world.window->export_timeline(png), QString());
    EXPECT_NE(QImage(png), laid);
}

TEST_F(LaidOver, ItsKeyStandsInTheSheet) {
    const ShortcutsSheet sheet(world.window->all_actions(), nullptr);
    const auto* table = sheet.findChild<QTableWidget*>();
    QStringList keys;
    for (int row = 0; row < table->rowCount(); ++row)
        keys << table->item(row, 0)->text();
    EXPECT_TRUE(keys.contains(QStringLiteral("V")));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
