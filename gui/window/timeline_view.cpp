#include "gui/window/timeline_view.hpp"

#include <algorithm>
#include <cmath>

#include <QScrollBar>

namespace orrery::gui {
TimelineView::TimelineView(QWidget* parent) : QAbstractScrollArea(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Pipeline timeline"));
    setAccessibleDescription(tr("A row per pipeline rank; use W and S to zoom, A and D to move"));
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setFrameShape(QFrame::NoFrame);
    viewport()->setMouseTracking(true);
    viewport()->setAttribute(Qt::WA_OpaquePaintEvent);  // all of it is painted: no ground below
    set_empty_text(tr("No timeline yet: open a scenario or a trace."));
    make_actions();
}

void TimelineView::set_empty_text(const QString& text) {
    empty_text_ = text;
    if (!timeline_) viewport()->update();
}

void TimelineView::show_timeline(std::shared_ptr<const Timeline> timeline, bool keep_view) {
    const bool keeps = keep_view && timeline_ && timeline;
    const Stretch before = scene_.view.shown();
    const Stretch step = keeps ? timeline_->window() : Stretch{};
    const std::vector<Picoseconds> kept_marks = keeps ? marks() : std::vector<Picoseconds>();
    std::vector<std::size_t> open;
    for (std::size_t rank = 0; keeps && rank < timeline_->ranks().size(); ++rank)
        if (rows_->is_open(rank)) open.push_back(rank);
    scene_ = {};
    path_.reset();
    counterparts_.reset();
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
        if (keeps && before != step) {
            const double share = static_cast<double>(timeline_->window().length()) /
                                 static_cast<double>(step.length());
            const auto scaled = [&](Picoseconds time) {
                return timeline_->window().from +
                       std::llround(static_cast<double>(time - step.from) * share);
            };
            scene_.view.show({scaled(before.from), scaled(before.to)});
        }
    }
    set_marks(kept_marks);
    for (QAction* action : actions_)
        action->setEnabled(timeline_ != nullptr);
    lay_out();
    drop_minimap();
    changed();
    Q_EMIT selection_changed();
}

void TimelineView::set_path(std::shared_ptr<const std::vector<cli::PathStay>> path) {
    path_ = std::move(path);
    scene_.path = shows_path_->isChecked() ? path_ : nullptr;
    changed();
}

void TimelineView::set_counterparts(std::shared_ptr<const Counterparts> counterparts,
                                    const QString& title_of_others) {
    counterparts_ = std::move(counterparts);
    scene_.overlaid_title = title_of_others;
    colour_by_difference(shows_difference_->isChecked());
    Q_EMIT selection_changed();
}

std::optional<OpPlace> TimelineView::counterpart() const {
    const std::optional<OpPlace> op = selected_op();
    return counterparts_ && op ? counterparts_->of(*op) : std::nullopt;
}

void TimelineView::point_at(std::optional<OpPlace> op) {
    if (scene_.pointed_at == op) return;
    scene_.pointed_at = op;
    viewport()->update();
}

void TimelineView::colour_by_difference(bool wanted) {
    shows_difference_->setChecked(wanted);
    scene_.difference.reset();
    if (wanted && counterparts_)
        scene_.difference = std::make_shared<const DifferenceLanes>(*timeline_, counterparts_);
    lay_over(lays_over_->isChecked());  // in these colours
}

void TimelineView::lay_over(bool wanted) {
    lays_over_->setChecked(wanted);
    scene_.overlaid.reset();
    if (wanted && counterparts_)
        scene_.overlaid = std::make_shared<OverlaidLanes>(*timeline_, counterparts_,
                                                          scene_.difference != nullptr);
    if (rows_) rows_->lay_over(wanted && !scene_.overlaid_title.isEmpty());
    find_laid_over();
    lay_out();
    changed();
}

std::optional<Laid> TimelineView::laid_over_box(const BoxPlace& box) const {
    if (box.stream) return scene_.overlaid->over(*op_of(box));
    return scene_.overlaid->over_box(box.rank,
                                     timeline_->ranks()[box.rank].outline.spans()[box.span]);
}

// Of what is selected and what the mouse is on.
void TimelineView::find_laid_over() {
    scene_.laid_over.clear();
    if (!scene_.overlaid) return;
    for (const std::optional<BoxPlace>& box : {scene_.selected, scene_.hovered}) {
        const std::optional<Laid> laid = box ? laid_over_box(*box) : std::nullopt;
        if (laid) scene_.laid_over.push_back({*box, laid->times});
    }
}

// What is to be seen of it: of millions of ops a row or two at each paint, so that the window lives
// on; or all.
void TimelineView::make_overlaid(bool all) {
    constexpr std::size_t kOpsAPaint = 100'000;
    if (!scene_.overlaid) return;
    std::size_t ops = 0;
    const auto [first, last] =
        rows_->between(scene_.scrolled, scene_.scrolled + layout_.rows.height());
    for (std::size_t r = first; r < last; ++r) {
        const Row& row = rows_->all()[r];
        if (scene_.overlaid->made(row) != nullptr) continue;
        if (!all && ops > kOpsAPaint) {
            QMetaObject::invokeMethod(
                viewport(), [this] { viewport()->update(); }, Qt::QueuedConnection);
            return;
        }
        scene_.overlaid->make(row);
        ops += timeline_->track_of(row.rank).events.size();
    }
}

void TimelineView::select(std::optional<BoxPlace> box) {
    scene_.selected = box;
    scene_.arrivals.clear();
    if (const std::optional<OpPlace> op = selected_op()) {
        scene_.arrivals = arrivals_around(*timeline_, *op);
        // Of waiting only what it ended with.
        if (!box->stream && timeline_->ranks()[box->rank].outline.spans()[box->span].index < 0)
            std::erase_if(scene_.arrivals,
                          [&](const Arrival& arrival) { return arrival.to.rank != box->rank; });
    }
    if (box) {
        scene_.area.reset();
        scene_.memory_rank = box->rank;
    }
    find_laid_over();
    if (const std::optional<Details> found = details())
        setAccessibleDescription(QString::fromStdString(brief(*found)));
    changed();
    Q_EMIT selection_changed();
}

void TimelineView::select_area(std::optional<Area> area) {
    scene_.area = std::move(area);
    if (scene_.area) {
        scene_.selected.reset();
        scene_.arrivals.clear();
    }
    changed();
    Q_EMIT selection_changed();
}

std::optional<Details> TimelineView::details() const {
    if (!scene_.selected) return std::nullopt;
    return details_of(*scene_.selected);
}

Details TimelineView::details_of(const BoxPlace& box) const {
    Details found;
    Counterparts::Lines beside;
    if (box.stream) {
        const OpPlace op = *op_of(box);
        found = op_details(*timeline_, op);
        if (counterparts_) beside = counterparts_->lines_of_op(op);
    } else {
        const Span& span = timeline_->ranks()[box.rank].outline.spans()[box.span];
        found = work_details(*timeline_, box.rank, span);
        if (counterparts_ && span.index >= 0)
            beside = counterparts_->lines_of_action(box.rank, static_cast<std::size_t>(span.index));
    }
    // First what was asked for by holding a step.
    found.lines.insert(found.lines.begin(), beside.begin(), beside.end());
    return found;
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

void TimelineView::paint_scene(QPainter& painter, const QRect& whole) {
    make_overlaid(true);
    Scene scene = scene_;
    scene.cursor.reset();
    scene.hovered.reset();
    std::erase_if(scene.laid_over,
                  [&](const LaidOver& over) { return over.box != scene.selected; });
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
    make_overlaid(false);
    if (!timeline_) {
        painter.setPen(look.faint);
        painter.drawText(viewport()->rect(), Qt::AlignCenter, empty_text_);
        return;
    }
    if (minimap_.isNull())
        minimap_ = TimelinePainter::minimap_picture(scene_, layout_.minimap.size(),
                                                    devicePixelRatioF(), look);
    TimelinePainter(painter, scene_, layout_, look).paint(&minimap_);
}

}  // namespace orrery::gui
