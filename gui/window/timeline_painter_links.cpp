// What leads from box to box: what an op waited for, transfers, the critical path.
#include <cmath>

#include <QPainterPath>

#include "gui/window/timeline_painter.hpp"

namespace orrery::gui {

void TimelinePainter::paint_arrow(const QPointF& from, const QPointF& head, const QPen& pen) {
    p_.save();
    p_.setRenderHint(QPainter::Antialiasing);
    p_.setPen(pen);
    p_.drawLine(from, head);
    p_.setPen(QPen(pen.color(), pen.widthF()));
    p_.setBrush(pen.color());
    p_.drawEllipse(from, 2.5, 2.5);
    const double angle = std::atan2(head.y() - from.y(), head.x() - from.x());
    const auto wing = [&](double turn) {
        return head - QPointF(std::cos(angle + turn), std::sin(angle + turn)) * 8;
    };
    p_.drawPolygon(QPolygonF{head, wing(0.4), wing(-0.4)});
    p_.restore();
}

// From what a selected op waited for last to the op itself.
void TimelinePainter::paint_dependency() {
    if (!scene_.selected || !scene_.selected->stream) return;
    const std::size_t rank = scene_.selected->rank;
    const std::vector<Lane>& streams = scene_.timeline->streams(rank);
    const Span& span = streams[*scene_.selected->stream].spans()[scene_.selected->span];
    const std::optional<OpPlace> blocker = scene_.timeline->blocker_of({rank, span.index});
    const std::optional<QRectF> to = place_of(*scene_.selected);
    // What launched it, on another row, is an arrow of its own.
    if (!blocker || blocker->rank != rank || !to) return;
    const Picoseconds end = scene_.timeline->times_of(*blocker).to;
    const QPointF from(layout_.rows.left() + scene_.view.x_of(end), middle_of(*blocker));
    paint_arrow(from, QPointF(to->left(), to->center().y()), QPen(look_.ink, 1.4));
}

// Height of the stream that shows an op, or of its rank where streams are closed.
double TimelinePainter::middle_of(const OpPlace& op) const {
    const Rows& rows = *scene_.rows;
    const std::optional<std::size_t> stream = rows.row_of_event(op.rank, op.event);
    const Row& row = rows.all()[stream ? *stream : rows.row_of(op.rank)];
    return layout_.rows.top() + row.top - scene_.scrolled + row.height / 2.;
}

// The edges of a box go down through what lies over it of another step, which has a frame: so that
// the shift from one to the other is seen.
void TimelinePainter::paint_laid_over() {
    for (const LaidOver& over : scene_.laid_over) {
        const std::optional<QRectF> own = place_of(over.box);
        if (!own) continue;
        const QRectF below(own->left(), own->bottom() + 1, own->width(), Rows::kBelow - 1);
        p_.setPen(QPen(look_.ink, 1, Qt::DotLine));
        p_.drawLine(below.topLeft(), below.bottomLeft());
        p_.drawLine(below.topRight(), below.bottomRight());
        const double left = std::max(-4.0, scene_.view.x_of(over.there.from));
        const double right = std::min(scene_.view.width() + 4.0, scene_.view.x_of(over.there.to));
        if (right < left) continue;
        p_.setPen(QPen(look_.ink, 1.5));
        p_.setBrush(Qt::NoBrush);
        p_.drawRect(QRectF(layout_.rows.left() + left, below.top(), std::max(2.0, right - left),
                           below.height()));
    }
}

// From the rank that was there last to the one that had waited for it, while the transfer takes.
void TimelinePainter::paint_arrivals() {
    const QPen pen(look_.ink, 1.6, Qt::DashLine);
    for (const Arrival& arrival : scene_.arrivals) {
        const double left = layout_.rows.left() + scene_.view.x_of(arrival.sent);
        const double right = layout_.rows.left() + scene_.view.x_of(arrival.received);
        paint_arrow({left, middle_of(arrival.from)}, {right, middle_of(arrival.to)}, pen);
    }
}

// Along the lower edge of each rank's row, so that what stands in the boxes can be read; with an
// edge in the colour of the ground, so that it is seen on any of them.
void TimelinePainter::paint_path() {
    if (!scene_.path) return;
    constexpr double kAboveEdge = 4;
    std::vector<double> heights(scene_.timeline->ranks().size());
    for (const Row& row : scene_.rows->all())
        if (!row.stream)
            heights[row.rank] =
                layout_.rows.top() + row.top + row.height - scene_.scrolled - kAboveEdge;
    QPainterPath line;
    for (const PathStroke& stroke : strokes_of(*scene_.path, *scene_.timeline, scene_.view)) {
        const double left = layout_.rows.left() + stroke.left;
        const double right = layout_.rows.left() + stroke.right;
        const QPointF begin(left, heights[stroke.first]);
        if (line.elementCount() == 0)
            line.moveTo(begin);
        else
            line.lineTo(begin);
        if (stroke.top != stroke.bottom) {
            line.lineTo(left, heights[stroke.top]);
            line.lineTo(left, heights[stroke.bottom]);
            line.lineTo(left, heights[stroke.last]);
        }
        line.lineTo(right, heights[stroke.last]);
    }
    p_.setBrush(Qt::NoBrush);
    p_.setPen(QPen(look_.ground, 5, Qt::SolidLine, Qt::FlatCap, Qt::MiterJoin));
    p_.drawPath(line);
    p_.setPen(QPen(look_.ink, 2.5, Qt::SolidLine, Qt::FlatCap, Qt::MiterJoin));
    p_.drawPath(line);
}

}  // namespace orrery::gui
