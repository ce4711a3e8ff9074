#include "gui/window/timeline_view.hpp"

#include <algorithm>
#include <cmath>

#include <QHelpEvent>
#include <QMouseEvent>
#include <QNativeGestureEvent>
#include <QScrollBar>
#include <QToolTip>
#include <QWheelEvent>

namespace orrery::gui {
namespace {

constexpr double kZoomStep = 1.35;
constexpr double kPanStep = 0.15;  // of the width
constexpr int kDragBegins = 4;     // pixels

}  // namespace

TimelineView::TimelineView(QWidget* parent) : QAbstractScrollArea(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Pipeline timeline"));
    setAccessibleDescription(tr("A row per pipeline rank; use W and S to zoom, A and D to move"));
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setFrameShape(QFrame::NoFrame);
    viewport()->setMouseTracking(true);
    make_actions();
}

void TimelineView::show_timeline(std::shared_ptr<const Timeline> timeline, bool keep_view) {
    const bool keeps = keep_view && timeline_ && timeline;
    const Stretch before = scene_.view.shown();
    const Stretch limits = scene_.view.limits();
    std::vector<std::size_t> open;
    for (std::size_t rank = 0; keeps && rank < timeline_->ranks().size(); ++rank)
        if (rows_->is_open(rank)) open.push_back(rank);
    scene_ = {};
    scene_.title = title_;
    rows_.reset();
    timeline_ = std::move(timeline);
    if (timeline_) {
        rows_ = std::make_unique<Rows>(*timeline_);
        for (const std::size_t rank : open)
            if (rank < timeline_->ranks().size()) rows_->open(rank, true);
        scene_.timeline = timeline_.get();
        scene_.rows = rows_.get();
        scene_.view = Viewport(timeline_->limits());
        scene_.view.set_width(layout_.rows.width());
        scene_.view.show(timeline_->window());
        if (keeps && before != limits) {
            const double share = static_cast<double>(timeline_->limits().length()) /
                                 static_cast<double>(limits.length());
            const auto scaled = [&](Picoseconds time) {
                return timeline_->limits().from +
                       std::llround(static_cast<double>(time - limits.from) * share);
            };
            scene_.view.show({scaled(before.from), scaled(before.to)});
        }
    }
    for (QAction* action : actions_)
        action->setEnabled(timeline_ != nullptr);
    lay_out();
    drop_minimap();
    changed();
    Q_EMIT selection_changed();
}

QAction* TimelineView::add_action(const QString& text, const QList<QKeySequence>& keys,
                                  void (TimelineView::*does)()) {
    auto* action = new QAction(text, this);
    action->setShortcuts(keys);
    // Letters belong to the timeline while it has the keyboard, and to the editor while that has.
    action->setShortcutContext(Qt::WidgetWithChildrenShortcut);
    connect(action, &QAction::triggered, this, does);
    addAction(action);
    actions_.push_back(action);
    action->setEnabled(false);
    return action;
}

void TimelineView::make_actions() {
    using Self = TimelineView;
    add_action(tr("Zoom in"), {Qt::Key_W, Qt::Key_Plus, Qt::Key_Equal, Qt::Key_Up}, &Self::zoom_in);
    add_action(tr("Zoom out"), {Qt::Key_S, Qt::Key_Minus, Qt::Key_Down}, &Self::zoom_out);
    add_action(tr("Move left"), {Qt::Key_A, Qt::Key_Left}, &Self::pan_left);
    add_action(tr("Move right"), {Qt::Key_D, Qt::Key_Right}, &Self::pan_right);
    add_action(tr("Fit the selection"), {Qt::Key_F}, &Self::focus_selection);
    add_action(tr("Show the whole step"), {Qt::Key_0, Qt::Key_Home}, &Self::show_whole_step);
    add_action(tr("Mark the selection or the cursor"), {Qt::Key_M}, &Self::mark);
    add_action(tr("Select the area of the selection"), {Qt::Key_R}, &Self::area_of_selection);
    add_action(tr("Next box of the row"), {Qt::Key_Period}, &Self::next_on_row);
    add_action(tr("Previous box of the row"), {Qt::Key_Comma}, &Self::previous_on_row);
    add_action(tr("Go to what it waited for"), {Qt::Key_BracketLeft}, &Self::to_blocker);
    add_action(tr("Go to what waited for it"), {Qt::Key_BracketRight}, &Self::to_waiting);
    add_action(tr("Show or hide the streams of the rank"), {Qt::Key_E, Qt::Key_Return},
               &Self::toggle_rank);
    add_action(tr("Show all streams"), {QKeySequence(Qt::SHIFT | Qt::Key_E)}, &Self::open_all);
    add_action(tr("Hide all streams"), {QKeySequence(Qt::SHIFT | Qt::Key_C)}, &Self::close_all);
    add_action(tr("Clear selection and marks"), {Qt::Key_Escape}, &Self::clear);
}

std::vector<std::pair<QString, QString>> TimelineView::mouse_help() {
    return {{tr("Click"), tr("select a box; on a name: show or hide its streams")},
            {tr("Drag"), tr("select an area and add up what it holds")},
            {tr("Shift or middle button, drag"), tr("move in time")},
            {tr("Ctrl and wheel, pinch"), tr("zoom at the cursor")},
            {tr("Wheel"), tr("scroll the rows; where all are seen: zoom")},
            {tr("Shift and wheel"), tr("move in time")},
            {tr("Double click"), tr("zoom to the box")},
            {tr("Click or drag in the overview on top"), tr("move there")}};
}

void TimelineView::set_title(const QString& title) {
    title_ = scene_.title = title;
    viewport()->update();
}

Stretch TimelineView::shown_of_step() const {
    const Picoseconds zero = timeline_ ? timeline_->window().from : 0;
    const Stretch& shown = scene_.view.shown();
    return {shown.from - zero, shown.to - zero};
}

void TimelineView::show_of_step(const Stretch& stretch) {
    if (!timeline_) return;
    const Picoseconds zero = timeline_->window().from;
    const Stretch before = scene_.view.shown();
    scene_.view.show({stretch.from + zero, stretch.to + zero});
    if (scene_.view.shown() != before) changed();
}

void TimelineView::set_reach(Picoseconds reach) {
    if (!timeline_) return;
    const Picoseconds zero = timeline_->window().from;
    scene_.view.widen({zero, zero + reach});
}

void TimelineView::zoom(double factor, double x) {
    if (!timeline_) return;
    scene_.view.zoom(factor, x);
    changed();
}

// Where the mouse is, else the middle.
double TimelineView::x_of_cursor() const {
    if (!scene_.cursor) return scene_.view.width() / 2.;
    const double x = scene_.view.x_of(*scene_.cursor);
    return x >= 0 && x <= scene_.view.width() ? x : scene_.view.width() / 2.;
}

void TimelineView::zoom_in() {
    zoom(1 / kZoomStep, x_of_cursor());
}
void TimelineView::zoom_out() {
    zoom(kZoomStep, x_of_cursor());
}
void TimelineView::pan_left() {
    scene_.view.pan(-kPanStep * scene_.view.width());
    changed();
}
void TimelineView::pan_right() {
    scene_.view.pan(kPanStep * scene_.view.width());
    changed();
}

std::optional<Stretch> TimelineView::selected_stretch() const {
    if (scene_.area) return scene_.area->stretch;
    if (!scene_.selected) return std::nullopt;
    const BoxPlace& box = *scene_.selected;
    const Lane& lane = box.stream ? timeline_->streams(box.rank)[*box.stream]
                                  : timeline_->ranks()[box.rank].outline;
    return Stretch{lane.spans()[box.span].from, lane.spans()[box.span].to};
}

// Once: with room around it; again: as wide as the view.
void TimelineView::focus_selection() {
    const std::optional<Stretch> stretch = selected_stretch();
    if (!stretch) return show_whole_step();
    const Picoseconds margin = stretch->length();
    const Stretch roomy{stretch->from - margin, stretch->to + margin};
    Viewport tried = scene_.view;
    tried.show(roomy);
    scene_.view.show(tried.shown() == scene_.view.shown() ? *stretch : roomy);
    changed();
}

void TimelineView::show_whole_step() {
    scene_.view.show(timeline_->window());
    changed();
}

void TimelineView::mark() {
    const std::optional<Stretch> stretch = selected_stretch();
    if (stretch) {
        scene_.markers = {stretch->from, stretch->to};
    } else if (scene_.cursor) {
        scene_.markers.push_back(*scene_.cursor);
        std::sort(scene_.markers.begin(), scene_.markers.end());
    }
    changed();
}

void TimelineView::clear() {
    scene_.markers.clear();
    scene_.area.reset();
    select(std::nullopt);
}

void TimelineView::area_of_selection() {
    if (!scene_.selected) return;
    select_area(Area{*selected_stretch(), {scene_.selected->rank}});
}

void TimelineView::next_on_row() {
    step_on_row(+1);
}
void TimelineView::previous_on_row() {
    step_on_row(-1);
}

// Without a selection the first box that is seen of the first row.
void TimelineView::step_on_row(int by) {
    BoxPlace box;
    if (scene_.selected) {
        box = *scene_.selected;
    } else if (timeline_->ranks().empty()) {
        return;
    } else {
        const std::size_t row = rows_->between(scene_.scrolled, scene_.scrolled + 1).first;
        box.rank = rows_->all()[std::min(row, rows_->all().size() - 1)].rank;
    }
    const Lane& lane = box.stream ? timeline_->streams(box.rank)[*box.stream]
                                  : timeline_->ranks()[box.rank].outline;
    if (lane.spans().empty()) return;
    const auto last = static_cast<std::ptrdiff_t>(lane.spans().size()) - 1;
    const auto next =
        scene_.selected
            ? static_cast<std::ptrdiff_t>(box.span) + by
            : static_cast<std::ptrdiff_t>(lane.first_ending_after(scene_.view.shown().from));
    box.span = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(next, 0, last));
    select(box);
    const Span& span = lane.spans()[box.span];
    const Stretch& shown = scene_.view.shown();
    if (span.to <= shown.from || span.from >= shown.to) scene_.view.centre(span.from);
    changed();
}

std::optional<OpPlace> TimelineView::selected_op() const {
    if (!scene_.selected) return std::nullopt;
    const BoxPlace& box = *scene_.selected;
    if (box.stream) {
        const Span& span = timeline_->streams(box.rank)[*box.stream].spans()[box.span];
        return OpPlace{box.rank, span.index};
    }
    const Span& span = timeline_->ranks()[box.rank].outline.spans()[box.span];
    const auto kernel = timeline_->kernel_from(box.rank, span.index < 0 ? span.to : span.from);
    if (!kernel) return std::nullopt;
    return OpPlace{box.rank, static_cast<std::int32_t>(*kernel)};
}

void TimelineView::to_blocker() {
    const std::optional<OpPlace> op = selected_op();
    if (!op) return;
    const std::int32_t blocker =
        timeline_->track_of(op->rank).events[static_cast<std::size_t>(op->event)].blocker;
    if (blocker >= 0) go_to({op->rank, blocker});
}

// The first op that waited last for the selected one.
void TimelineView::to_waiting() {
    const std::optional<OpPlace> op = selected_op();
    if (!op) return;
    const std::vector<trace::Event>& events = timeline_->track_of(op->rank).events;
    for (std::size_t i = static_cast<std::size_t>(op->event) + 1; i < events.size(); ++i)
        if (events[i].blocker == op->event) return go_to({op->rank, static_cast<std::int32_t>(i)});
}

void TimelineView::go_to(const OpPlace& place) {
    rows_->open(place.rank, true);
    lay_out();
    const std::optional<std::size_t> number = rows_->row_of_event(place.rank, place.event);
    if (!number) return;
    const Row& row = rows_->all()[*number];
    const std::vector<Span>& spans = rows_->lane(row).spans();
    const auto span = std::find_if(spans.begin(), spans.end(), [&](const Span& candidate) {
        return candidate.index == place.event;
    });
    const Stretch& shown = scene_.view.shown();
    if (span->to <= shown.from || span->from >= shown.to) scene_.view.centre(span->from);
    const int bottom = row.bottom() - layout_.rows.height();
    verticalScrollBar()->setValue(std::clamp(verticalScrollBar()->value(), bottom, row.top));
    select(BoxPlace{row.rank, row.stream, static_cast<std::size_t>(span - spans.begin())});
}

void TimelineView::toggle_rank() {
    if (timeline_->ranks().empty()) return;
    const std::size_t rank = scene_.selected ? scene_.selected->rank : scene_.memory_rank;
    rows_->open(rank, !rows_->is_open(rank));
    if (scene_.selected && scene_.selected->stream) select(std::nullopt);
    lay_out();
    changed();
}

void TimelineView::open_all() {
    for (std::size_t rank = 0; rank < timeline_->ranks().size(); ++rank)
        rows_->open(rank, true);
    lay_out();
    changed();
}

void TimelineView::close_all() {
    for (std::size_t rank = 0; rank < timeline_->ranks().size(); ++rank)
        rows_->open(rank, false);
    if (scene_.selected && scene_.selected->stream) select(std::nullopt);
    lay_out();
    changed();
}

void TimelineView::select(std::optional<BoxPlace> box) {
    scene_.selected = box;
    if (box) {
        scene_.area.reset();
        scene_.memory_rank = box->rank;
    }
    if (const std::optional<Details> found = details())
        setAccessibleDescription(QString::fromStdString(brief(*found)));
    changed();
    Q_EMIT selection_changed();
}

void TimelineView::select_area(std::optional<Area> area) {
    scene_.area = std::move(area);
    if (scene_.area) scene_.selected.reset();
    changed();
    Q_EMIT selection_changed();
}

std::optional<Details> TimelineView::details() const {
    if (!scene_.selected) return std::nullopt;
    const BoxPlace& box = *scene_.selected;
    if (!box.stream)
        return work_details(*timeline_, box.rank,
                            timeline_->ranks()[box.rank].outline.spans()[box.span]);
    return op_details(*timeline_, *selected_op());
}

void TimelineView::changed() {
    viewport()->update();
    Q_EMIT view_changed();
}

void TimelineView::drop_minimap() {
    minimap_ = {};
    viewport()->update();
}

void TimelineView::lay_out() {
    layout_ = SceneLayout(viewport()->rect());
    scene_.view.set_width(layout_.rows.width());
    const int height = rows_ ? rows_->height() : 0;
    verticalScrollBar()->setRange(0, std::max(0, height - layout_.rows.height()));
    verticalScrollBar()->setPageStep(std::max(1, layout_.rows.height()));
    verticalScrollBar()->setSingleStep(Rows::kRankHeight);
    scene_.scrolled = verticalScrollBar()->value();
}

void TimelineView::resizeEvent(QResizeEvent* /*event*/) {
    lay_out();
    drop_minimap();
}

void TimelineView::changeEvent(QEvent* event) {
    QAbstractScrollArea::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange)
        drop_minimap();
}

void TimelineView::scrollContentsBy(int /*dx*/, int /*dy*/) {
    scene_.scrolled = verticalScrollBar()->value();
    viewport()->update();
}

void TimelineView::paint_scene(QPainter& painter, const QRect& whole) const {
    Scene scene = scene_;
    scene.cursor.reset();
    scene.hovered.reset();
    const SceneLayout layout(whole);
    scene.view.set_width(layout.rows.width());
    const Look look = Look::of(palette());
    painter.fillRect(whole, look.ground);
    painter.setFont(font());
    TimelinePainter(painter, scene, layout, look).paint(nullptr);
}

void TimelineView::paintEvent(QPaintEvent* /*event*/) {
    QPainter painter(viewport());
    const Look look = Look::of(palette());
    painter.fillRect(viewport()->rect(), look.ground);
    if (!timeline_) {
        painter.setPen(look.faint);
        painter.drawText(viewport()->rect(), Qt::AlignCenter,
                         tr("No timeline yet: open a scenario or a trace."));
        return;
    }
    if (minimap_.isNull())
        minimap_ = TimelinePainter::minimap_picture(scene_, layout_.minimap.size(),
                                                    devicePixelRatioF(), look);
    TimelinePainter(painter, scene_, layout_, look).paint(&minimap_);
}

std::optional<BoxPlace> TimelineView::box_at(const QPoint& place) const {
    if (!timeline_ || !layout_.rows.contains(place)) return std::nullopt;
    const std::optional<std::size_t> number =
        rows_->at(place.y() - layout_.rows.top() + scene_.scrolled);
    if (!number) return std::nullopt;
    const Row& row = rows_->all()[*number];
    const std::int64_t span =
        span_at(rows_->lane(row), scene_.view, place.x() - layout_.rows.left());
    if (span < 0) return std::nullopt;
    return BoxPlace{row.rank, row.stream, static_cast<std::size_t>(span)};
}

Area TimelineView::area_between(const QPoint& a, const QPoint& b) const {
    const auto time = [&](int x) {
        const double within = std::clamp<double>(x - layout_.rows.left(), 0, scene_.view.width());
        return scene_.view.time_at(within);
    };
    const auto y = [&](int at) { return at - layout_.rows.top() + scene_.scrolled; };
    Area area{{time(std::min(a.x(), b.x())), time(std::max(a.x(), b.x()))}, {}};
    const auto [first, last] =
        rows_->between(std::min(y(a.y()), y(b.y())), std::max(y(a.y()), y(b.y())) + 1);
    for (std::size_t row = first; row < last; ++row) {
        const std::size_t rank = rows_->all()[row].rank;
        if (area.ranks.empty() || area.ranks.back() != rank) area.ranks.push_back(rank);
    }
    return area;
}

void TimelineView::centre_minimap(int x) {
    Viewport whole(timeline_->limits());
    whole.set_width(layout_.minimap.width());
    scene_.view.centre(whole.time_at(x - layout_.minimap.left()));
    changed();
}

void TimelineView::mousePressEvent(QMouseEvent* event) {
    if (!timeline_) return;
    pressed_ = last_ = event->pos();
    const bool pans = event->button() == Qt::MiddleButton ||
                      (event->button() == Qt::LeftButton && event->modifiers() & Qt::ShiftModifier);
    if (layout_.minimap.contains(pressed_)) {
        drag_ = Drag::minimap;
        centre_minimap(pressed_.x());
    } else if (pans) {
        drag_ = Drag::pan;
        viewport()->setCursor(Qt::ClosedHandCursor);
    } else if (event->button() == Qt::LeftButton && layout_.names.contains(pressed_)) {
        const auto row = rows_->at(pressed_.y() - layout_.rows.top() + scene_.scrolled);
        if (!row) return;
        const std::size_t rank = rows_->all()[*row].rank;
        rows_->open(rank, !rows_->is_open(rank));
        scene_.memory_rank = rank;
        if (scene_.selected && scene_.selected->stream) select(std::nullopt);
        lay_out();
        changed();
    } else if (event->button() == Qt::LeftButton && layout_.rows.contains(pressed_)) {
        drag_ = Drag::area;
    }
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
    if (!timeline_) return;
    const QPoint place = event->pos();
    scene_.cursor.reset();
    if (place.x() >= layout_.rows.left())
        scene_.cursor = scene_.view.time_at(place.x() - layout_.rows.left());
    if (drag_ == Drag::minimap) centre_minimap(place.x());
    if (drag_ == Drag::pan) scene_.view.pan(last_.x() - place.x());
    if (drag_ == Drag::area && (place - pressed_).manhattanLength() >= kDragBegins)
        select_area(area_between(pressed_, place));
    last_ = place;
    scene_.hovered = drag_ == Drag::none ? box_at(place) : std::nullopt;
    QString text;
    if (scene_.hovered) {
        const BoxPlace& box = *scene_.hovered;
        const Span& span = box.stream ? timeline_->streams(box.rank)[*box.stream].spans()[box.span]
                                      : timeline_->ranks()[box.rank].outline.spans()[box.span];
        text =
            QString::fromStdString(brief(box.stream ? op_details(*timeline_, {box.rank, span.index})
                                                    : work_details(*timeline_, box.rank, span)));
    }
    Q_EMIT hovered(text);
    changed();
}

void TimelineView::mouseReleaseEvent(QMouseEvent* event) {
    const bool clicked = (event->pos() - pressed_).manhattanLength() < kDragBegins;
    if (drag_ == Drag::area && clicked) {
        scene_.area.reset();
        select(box_at(event->pos()));
    }
    drag_ = Drag::none;
    viewport()->unsetCursor();
}

void TimelineView::mouseDoubleClickEvent(QMouseEvent* event) {
    if (!timeline_ || !layout_.rows.contains(event->pos())) return;
    select(box_at(event->pos()));
    focus_selection();
}

void TimelineView::wheelEvent(QWheelEvent* event) {
    if (!timeline_) return;
    const QPoint turned = event->angleDelta();
    const double x = event->position().x() - layout_.rows.left();
    const bool all_seen = verticalScrollBar()->maximum() == 0;
    const bool shift = event->modifiers() & Qt::ShiftModifier;
    if (std::abs(turned.x()) > std::abs(turned.y()) || shift) {
        const int by = turned.x() != 0 ? turned.x() : turned.y();
        scene_.view.pan(-by);
        changed();
    } else if ((event->modifiers() & Qt::ControlModifier) || all_seen) {
        zoom(std::pow(kZoomStep, -turned.y() / 120.),
             std::clamp<double>(x, 0, scene_.view.width()));
    } else {
        verticalScrollBar()->setValue(verticalScrollBar()->value() - turned.y() / 2);
    }
    event->accept();
}

bool TimelineView::viewportEvent(QEvent* event) {
    if (event->type() == QEvent::NativeGesture) {
        const auto* gesture = static_cast<QNativeGestureEvent*>(event);
        if (gesture->gestureType() == Qt::ZoomNativeGesture) {
            zoom(1 / std::max(0.1, 1 + gesture->value()),
                 gesture->position().x() - layout_.rows.left());
            return true;
        }
    }
    if (event->type() == QEvent::Leave) {
        scene_.cursor.reset();
        scene_.hovered.reset();
        Q_EMIT hovered({});
        viewport()->update();
    }
    if (event->type() == QEvent::ToolTip && timeline_) {
        const auto* help = static_cast<QHelpEvent*>(event);
        if (scene_.hovered && drag_ == Drag::none) {
            const BoxPlace& box = *scene_.hovered;
            const Span& span = box.stream
                                   ? timeline_->streams(box.rank)[*box.stream].spans()[box.span]
                                   : timeline_->ranks()[box.rank].outline.spans()[box.span];
            const Details found = box.stream ? op_details(*timeline_, {box.rank, span.index})
                                             : work_details(*timeline_, box.rank, span);
            QString text = QStringLiteral("<b>%1</b><table>")
                               .arg(QString::fromStdString(found.title).toHtmlEscaped());
            for (const auto& [what, value] : found.lines)
                text += QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td>%2</td></tr>")
                            .arg(QString::fromStdString(what).toHtmlEscaped(),
                                 QString::fromStdString(value).toHtmlEscaped());
            QToolTip::showText(help->globalPos(), text + QStringLiteral("</table>"), viewport());
        } else {
            QToolTip::hideText();
        }
        return true;
    }
    return QAbstractScrollArea::viewportEvent(event);
}

}  // namespace orrery::gui
