// Boxes and bands of a row, with what stands in them.
#include <algorithm>

#include "gui/window/timeline_painter.hpp"

namespace orrery::gui {

void TimelinePainter::paint_lane(const Row& row, const QRect& place) {
    if (!row.stream) return paint_rank(row, place);
    const Lane& lane = scene_.lane(row);
    const std::vector<Strip> strips = strips_of(lane, scene_.view);
    for (const Strip& strip : strips)
        paint_strip(lane, strip, place);
    paint_op_names(row, strips, place);
}

// What an action is made of where there is room for that; else actions, each with the shares of its
// time, so that kinds that alternate faster than pixels can show are seen as they are.
void TimelinePainter::paint_rank(const Row& row, const QRect& place) {
    constexpr int kRoomForASpan = 5;  // pixels
    const Lane& work = scene_.work(row.rank);
    const Lane& outline = scene_.outline(row.rank);
    const std::size_t spans = spans_in(work, scene_.view.shown());
    if (static_cast<int>(spans) * kRoomForASpan <= scene_.view.width()) {
        for (const Strip& strip : strips_of(work, scene_.view))
            paint_strip(work, strip, place);
    } else {
        for (const Strip& strip : strips_of(outline, scene_.view)) {
            const Span& span = outline.spans()[strip.first];
            if (strip.run)
                paint_run(work, strip, place);
            else if (span.index < 0)
                paint_strip(outline, strip, place);
            else
                paint_shares(box_of(strip, place), work.within(span.from, span.to),
                             span.to - span.from);
        }
    }
    paint_numbers(row, place);
}

// Below the row's own boxes, with an edge where an action or an op begins.
void TimelinePainter::paint_overlaid(const Row& row, const QRect& own) {
    constexpr double kLeastEdged = 6;
    const OverlaidLane* over = scene_.overlaid->made(row);
    if (over == nullptr) return;
    const QRect place(own.left(), own.bottom() + 2, own.width(), row.below - 1);
    for (const Strip& strip : strips_of(over->lane, scene_.view)) {
        paint_strip(over->lane, strip, place);
        const std::vector<Span>& spans = over->lane.spans();
        const bool goes_on =
            strip.first > 0 && spans[strip.first - 1].index == spans[strip.first].index;
        if (strip.run || goes_on || strip.right - strip.left < kLeastEdged) continue;
        p_.fillRect(QRectF(place.left() + strip.left, place.top(), 1, place.height()),
                    look_.ground);
    }
}

QRectF TimelinePainter::box_of(const Strip& strip, const QRect& place) {
    return {place.left() + strip.left, static_cast<double>(place.top()), strip.right - strip.left,
            static_cast<double>(place.height())};
}

void TimelinePainter::paint_strip(const Lane& lane, const Strip& strip, const QRect& place) {
    QRectF box = box_of(strip, place);
    if (strip.run) return paint_run(lane, strip, place);
    const Kind kind = lane.spans()[strip.first].kind;
    if (is_waiting(kind)) {
        // The bubble is a thin line of its own, so that emptiness is seen as such.
        box = waiting_part(box);
        if (is_empty(kind)) box.adjust(0, box.height() / 3, 0, -box.height() / 3);
    }
    p_.fillRect(box, look_.fill(kind));
}

// What the lane holds of the time that the strip's pixels show.
void TimelinePainter::paint_run(const Lane& lane, const Strip& strip, const QRect& place) {
    const Stretch shown{scene_.view.time_at(strip.left), scene_.view.time_at(strip.right)};
    paint_shares(box_of(strip, place), lane.within(shown.from, shown.to),
                 std::max<Picoseconds>(1, shown.length()));
}

// Bands from the bottom up, as high as their share of `time` is; what is left is idle.
void TimelinePainter::paint_shares(const QRectF& box, const KindSums& sums, Picoseconds time) {
    double bottom = box.bottom();
    for (std::size_t k = 0; k < kKinds; ++k) {
        const auto kind = static_cast<Kind>(k);
        if (sums[k] == 0 || is_empty(kind)) continue;
        const double share =
            std::min(1.0, static_cast<double>(sums[k]) / static_cast<double>(time));
        const double top = std::max(box.top(), bottom - box.height() * share);
        p_.fillRect(QRectF(box.left(), top, box.width(), bottom - top), look_.fill(kind));
        bottom = top;
    }
}

// Boxes of actions: an edge where one begins, its micro-batch where that fits.
void TimelinePainter::paint_numbers(const Row& row, const QRect& place) {
    constexpr double kLeastEdged = 9;
    const Lane& actions = scene_.outline(row.rank);
    if (scene_.timeline->recorded() != nullptr) return;  // has no micro-batches
    const trace::ProgramOps& program = scene_.timeline->program_of(row.rank);
    const QFontMetrics metrics(p_.font());
    const int digit = metrics.horizontalAdvance(QLatin1Char('0'));
    for (const Strip& strip : strips_of(actions, scene_.view)) {
        const Span& span = actions.spans()[strip.first];
        if (strip.run || span.index < 0 || strip.right - strip.left < kLeastEdged) continue;
        p_.fillRect(QRectF(place.left() + strip.left, place.top(), 1, place.height()),
                    look_.ground);
        const plan::Action& action = program.actions[static_cast<std::size_t>(span.index)].front();
        if (action.micro_batch < 0) continue;
        const QString number = QString::number(action.micro_batch);
        const double seen_left = std::max(0.0, strip.left);
        const double seen_right = std::min<double>(scene_.view.width(), strip.right);
        if (seen_right - seen_left < digit * static_cast<int>(number.size()) + 4) continue;
        p_.setPen(Look::ink_on(look_.fill(span.kind)));
        p_.drawText(
            QRectF(place.left() + seen_left, place.top(), seen_right - seen_left, place.height()),
            Qt::AlignCenter, number);
    }
}

void TimelinePainter::paint_op_names(const Row& row, const std::vector<Strip>& strips,
                                     const QRect& place) {
    constexpr double kLeastNamed = 44;
    const Lane& lane = scene_.lane(row);
    const QFont font = p_.font();
    QFont small = font;
    small.setPointSizeF(font.pointSizeF() * 0.85);
    p_.setFont(small);
    const QFontMetrics metrics(small);
    for (const Strip& strip : strips) {
        const double left = std::max(0.0, strip.left);
        const double right = std::min<double>(scene_.view.width(), strip.right);
        if (strip.run || right - left < kLeastNamed) continue;
        const Span& span = lane.spans()[strip.first];
        const QString name =
            QString::fromStdString(scene_.timeline->name_of({row.rank, span.index}));
        p_.setPen(Look::ink_on(look_.fill(span.kind)));
        const QRectF text(place.left() + left + 3, place.top(), right - left - 6, place.height());
        p_.drawText(text, Qt::AlignLeft | Qt::AlignVCenter,
                    metrics.elidedText(name, Qt::ElideRight, static_cast<int>(text.width())));
    }
    p_.setFont(font);
}

}  // namespace orrery::gui
