// What the keys do in the timeline: each is an action, which menus show.
#include <algorithm>

#include <QScrollBar>

#include "gui/window/timeline_view.hpp"

namespace orrery::gui {
namespace {

constexpr double kPanStep = 0.15;  // of the width

}  // namespace

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
    add_action(tr("Show or hide the ranks of the pipeline rank"), {Qt::Key_G}, &Self::toggle_group);
    add_action(tr("Show all streams"), {QKeySequence(Qt::SHIFT | Qt::Key_E)}, &Self::open_all);
    add_action(tr("Hide all streams"), {QKeySequence(Qt::SHIFT | Qt::Key_C)}, &Self::close_all);
    shows_path_ = add_action(tr("Show the critical path"), {Qt::Key_P}, &Self::toggle_path);
    shows_path_->setCheckable(true);
    add_action(tr("Go to the same op in the other step"), {Qt::Key_O}, &Self::to_counterpart);
    shows_difference_ = add_action(tr("Colour by the difference to the other step"), {Qt::Key_C},
                                   &Self::toggle_difference);
    shows_difference_->setCheckable(true);
    lays_over_ =
        add_action(tr("Lay the other step over this one"), {Qt::Key_V}, &Self::toggle_overlay);
    lays_over_->setCheckable(true);
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
    Q_EMIT marks_changed();
}

void TimelineView::clear() {
    const bool had_marks = !scene_.markers.empty();
    scene_.markers.clear();
    scene_.area.reset();
    select(std::nullopt);
    if (had_marks) Q_EMIT marks_changed();
}

std::vector<Picoseconds> TimelineView::marks() const {
    std::vector<Picoseconds> of_step = scene_.markers;
    for (Picoseconds& mark : of_step)
        mark -= timeline_->window().from;
    return of_step;
}

void TimelineView::set_marks(const std::vector<Picoseconds>& of_step) {
    scene_.markers = of_step;
    if (timeline_)
        for (Picoseconds& mark : scene_.markers)
            mark += timeline_->window().from;
    changed();
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
    return scene_.selected ? op_of(*scene_.selected) : std::nullopt;
}

std::optional<OpPlace> TimelineView::op_of(const BoxPlace& box) const {
    if (box.stream) {
        const Span& span = timeline_->streams(box.rank)[*box.stream].spans()[box.span];
        return OpPlace{box.rank, span.index};
    }
    const Span& span = timeline_->ranks()[box.rank].outline.spans()[box.span];
    if (timeline_->recorded() != nullptr && span.index >= 0) return OpPlace{box.rank, span.index};
    const auto kernel = timeline_->kernel_from(box.rank, span.index < 0 ? span.to : span.from);
    if (!kernel) return std::nullopt;
    return OpPlace{box.rank, static_cast<std::int32_t>(*kernel)};
}

void TimelineView::to_blocker() {
    const std::optional<OpPlace> op = selected_op();
    if (!op) return;
    if (const auto blocker = timeline_->blocker_of(*op)) go_to(*blocker);
}

// The first op that waited last for the selected one.
void TimelineView::to_waiting() {
    const std::optional<OpPlace> op = selected_op();
    if (!op) return;
    if (const auto waiter = timeline_->waiter_of(*op)) go_to(*waiter);
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

// Of what is selected, else of the rank whose memory is drawn.
void TimelineView::toggle_group() {
    if (timeline_->ranks().empty() || timeline_->recorded() != nullptr) return;
    const std::size_t rank = scene_.selected ? scene_.selected->rank : scene_.memory_rank;
    if (rows_->ranks_beside(rank) == 1)
        return Q_EMIT hovered(
            tr("This row is all that its pipeline rank has here; Step, Unfold "
               "ranks simulates each rank for itself"));
    rows_->show_ranks(rank, !rows_->shows_ranks(rank));
    if (scene_.selected && rows_->all()[rows_->row_of(rank)].rank != rank) select(std::nullopt);
    lay_out();
    changed();
}

void TimelineView::toggle_path() {
    set_path(path_);
    if (shows_path_->isChecked() && !path_)
        Q_EMIT hovered(
            tr("No critical path: that of a scenario follows in a moment, a trace that "
               "is read has none"));
}

void TimelineView::to_counterpart() {
    if (const std::optional<OpPlace> there = counterpart())
        return Q_EMIT counterpart_wanted(*there);
    Q_EMIT hovered(counterparts_ ? tr("What is selected has no counterpart in the other step")
                                 : without_counterparts());
}

void TimelineView::toggle_difference() {
    colour_by_difference(shows_difference_->isChecked());
    if (shows_difference_->isChecked() && !counterparts_) Q_EMIT hovered(without_counterparts());
    Q_EMIT coloured_by_difference(shows_difference_->isChecked());
}

void TimelineView::toggle_overlay() {
    lay_over(lays_over_->isChecked());
    if (lays_over_->isChecked() && !counterparts_) Q_EMIT hovered(without_counterparts());
    Q_EMIT laid_over(lays_over_->isChecked());
}

QString TimelineView::without_counterparts() {
    return tr("No step is aligned with this one: Ctrl+H holds one");
}

void TimelineView::open_all() {
    for (std::size_t rank = 0; rank < timeline_->ranks().size(); ++rank)
        if (rows_->all()[rows_->row_of(rank)].rank == rank) rows_->open(rank, true);
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

}  // namespace orrery::gui
