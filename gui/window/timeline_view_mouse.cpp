// What the mouse does in the timeline.
#include <algorithm>
#include <cmath>

#include <QHelpEvent>
#include <QMouseEvent>
#include <QNativeGestureEvent>
#include <QScrollBar>
#include <QToolTip>
#include <QWheelEvent>

#include "gui/window/timeline_view.hpp"

namespace orrery::gui {
namespace {

constexpr int kDragBegins = 4;  // pixels

}  // namespace

std::optional<BoxPlace> TimelineView::box_at(const QPoint& place) const {
    if (!timeline_ || !layout_.rows.contains(place)) return std::nullopt;
    const std::optional<std::size_t> number =
        rows_->at(place.y() - layout_.rows.top() + scene_.scrolled);
    if (!number) return std::nullopt;
    const Row& row = rows_->all()[*number];
    if (is_below(row, place)) return std::nullopt;
    const std::int64_t span =
        span_at(rows_->lane(row), scene_.view, place.x() - layout_.rows.left());
    if (span < 0) return std::nullopt;
    return BoxPlace{row.rank, row.stream, static_cast<std::size_t>(span)};
}

// Whether a place of a row is below its own boxes.
bool TimelineView::is_below(const Row& row, const QPoint& place) const {
    return place.y() - layout_.rows.top() + scene_.scrolled >= row.top + row.height;
}

std::optional<Laid> TimelineView::laid_at(const QPoint& place) const {
    if (!scene_.overlaid || !layout_.rows.contains(place)) return std::nullopt;
    const std::optional<std::size_t> number =
        rows_->at(place.y() - layout_.rows.top() + scene_.scrolled);
    if (!number) return std::nullopt;
    const Row& row = rows_->all()[*number];
    const OverlaidLane* over = scene_.overlaid->made(row);
    if (over == nullptr || !is_below(row, place)) return std::nullopt;
    const std::int64_t span = span_at(over->lane, scene_.view, place.x() - layout_.rows.left());
    if (span < 0) return std::nullopt;
    return scene_.overlaid->at(row, static_cast<std::size_t>(span));
}

// What the mouse is on, in a line: of both steps where one is laid over the other.
QString TimelineView::hover_text(const QPoint& place) const {
    const auto laid_text = [&](const Laid& laid) {
        return tr("%1: %2").arg(scene_.overlaid_title,
                                QString::fromStdString(scene_.overlaid->told(laid)));
    };
    if (const std::optional<Laid> laid = laid_at(place)) return laid_text(*laid);
    if (!scene_.hovered) return {};
    const BoxPlace& box = *scene_.hovered;
    const Span& span = box.stream ? timeline_->streams(box.rank)[*box.stream].spans()[box.span]
                                  : timeline_->ranks()[box.rank].outline.spans()[box.span];
    QString text =
        QString::fromStdString(brief(box.stream ? op_details(*timeline_, {box.rank, span.index})
                                                : work_details(*timeline_, box.rank, span)));
    if (!scene_.overlaid || (!box.stream && span.index < 0)) return text;
    const std::optional<Laid> over = laid_over_box(box);
    return text + QStringLiteral(" | ") +
           (over ? laid_text(*over) : tr("%1: has it not").arg(scene_.overlaid_title));
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
    find_laid_over();
    Q_EMIT hovered(hover_text(place));
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
        find_laid_over();
        Q_EMIT hovered({});
        viewport()->update();
    }
    if (event->type() == QEvent::ToolTip && timeline_) {
        const auto* help = static_cast<QHelpEvent*>(event);
        if (scene_.hovered && drag_ == Drag::none) {
            const Details found = details_of(*scene_.hovered);
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
