// Boxes and bands of a row, with what stands in them.
#include <algorithm>

#include "gui/window/timeline_painter.hpp"

namespace orrery::gui {

void TimelinePainter::paint_lane(const Row& row, const QRect& place) {
    if (!row.stream) return paint_rank(row, place);
    const Lane& lane = scene_.lane(row);
    const std::vector<Strip> strips = strips_of(lane, scene_.view);
    paint_strips(lane, strips, place);
    paint_op_names(row, strips, place);
}

// What an action is made of where there is room for that; else actions, each with the shares of its
// time, so that kinds that alternate faster than pixels can show are seen as they are.
void TimelinePainter::paint_rank(const Row& row, const QRect& place) {
    constexpr int kRoomForASpan = 5;  // pixels
    const Lane& work = scene_.work(row.rank);
    const Lane& outline = scene_.outline(row.rank);
    const std::vector<Strip> actions = strips_of(outline, scene_.view);
    const std::size_t spans = spans_in(work, scene_.view.shown());
    if (static_cast<int>(spans) * kRoomForASpan <= scene_.view.width())
        paint_strips(work, strips_of(work, scene_.view), place);
    else
        paint_strips(outline, actions, place, &work);
    paint_numbers(row, actions, place);
}

// Below the row's own boxes, with an edge where an action or an op begins.
void TimelinePainter::paint_overlaid(const Row& row, const QRect& own) {
    constexpr double kLeastEdged = 6;
    const OverlaidLane* over = scene_.overlaid->made(row);
    if (over == nullptr) return;
    const QRect place(own.left(), own.bottom() + 2, own.width(), row.below - 1);
    const std::vector<Strip> strips = strips_of(over->lane, scene_.view);
    paint_strips(over->lane, strips, place);
    for (const Strip& strip : strips) {
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

// `parts`: what the lane's actions are made of, which are drawn by the shares of their time; null:
// its boxes are of one kind each.
void TimelinePainter::paint_strips(const Lane& lane, const std::vector<Strip>& strips,
                                   const QRect& place, const Lane* parts) {
    const auto span_of = [&](const Strip& strip) -> const Span& {
        return lane.spans()[strip.first];
    };
    const auto has_shares = [&](const Strip& strip) {
        return strip.run || (parts != nullptr && span_of(strip).index >= 0);
    };
    // Of a run the time that its pixels show.
    std::vector<Stretch> shared;
    for (const Strip& strip : strips)
        if (strip.run)
            shared.push_back({scene_.view.time_at(strip.left), scene_.view.time_at(strip.right)});
        else if (has_shares(strip))
            shared.push_back({span_of(strip).from, span_of(strip).to});
    const Lane& added = parts != nullptr ? *parts : lane;
    const std::vector<Picoseconds> sums = added.within(shared);
    std::size_t next = 0;  // of those shared
    for (const Strip& strip : strips) {
        if (!has_shares(strip)) {
            paint_span(span_of(strip).kind, strip, place);
            continue;
        }
        paint_shares(box_of(strip, place), added.kinds(), sums.data() + next * added.kinds().size(),
                     std::max<Picoseconds>(1, shared[next].length()));
        ++next;
    }
}

void TimelinePainter::paint_span(Kind kind, const Strip& strip, const QRect& place) {
    QRectF box = box_of(strip, place);
    if (is_waiting(kind)) {
        // The bubble is a thin line of its own, so that emptiness is seen as such.
        box = waiting_part(box);
        if (is_empty(kind)) box.adjust(0, box.height() / 3, 0, -box.height() / 3);
    }
    p_.fillRect(box, fills_[static_cast<std::size_t>(kind)]);
}

// Whether anything is seen of a band where whole pixels are filled, as mostly of transfers nothing
// is: a painter finds that out late.
bool TimelinePainter::reaches_a_pixel(const QRectF& band) const {
    const auto pixel = [&](double y) { return qRound(y * to_device_.m22() + to_device_.dy()); };
    return !whole_pixels_ || pixel(band.top()) != pixel(band.bottom());
}

// Bands from the bottom up, as high as their share of `time` is; what is left is idle.
void TimelinePainter::paint_shares(const QRectF& box, const std::vector<Kind>& kinds,
                                   const Picoseconds* sums, Picoseconds time) {
    double bottom = box.bottom();
    for (const Kind kind : kinds) {
        const Picoseconds sum = *sums++;
        if (sum == 0 || is_empty(kind)) continue;
        const double share = std::min(1.0, static_cast<double>(sum) / static_cast<double>(time));
        const double top = std::max(box.top(), bottom - box.height() * share);
        const QRectF band(box.left(), top, box.width(), bottom - top);
        if (reaches_a_pixel(band)) p_.fillRect(band, fills_[static_cast<std::size_t>(kind)]);
        bottom = top;
    }
}

// Boxes of actions: an edge where one begins, its micro-batch where that fits.
void TimelinePainter::paint_numbers(const Row& row, const std::vector<Strip>& actions,
                                    const QRect& place) {
    constexpr double kLeastEdged = 9;
    const Lane& outline = scene_.outline(row.rank);
    if (scene_.timeline->recorded() != nullptr) return;  // has no micro-batches
    const trace::ProgramOps& program = scene_.timeline->program_of(row.rank);
    const QFontMetrics metrics(p_.font());
    const int digit = metrics.horizontalAdvance(QLatin1Char('0'));
    for (const Strip& strip : actions) {
        const Span& span = outline.spans()[strip.first];
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
        paint_number(number, QRectF(place.left() + seen_left, place.top(), seen_right - seen_left,
                                    place.height()));
    }
}

// In the middle.
void TimelinePainter::paint_number(const QString& number, const QRectF& place) {
    const auto [found, is_new] = numbers_.try_emplace(number, number);
    QStaticText& text = found->second;
    if (is_new) {
        text.setTextFormat(Qt::PlainText);
        text.prepare(p_.transform(), p_.font());
    }
    const QSizeF size = text.size();
    p_.drawStaticText(QPointF(place.left() + (place.width() - size.width()) / 2,
                              place.top() + (place.height() - size.height()) / 2),
                      text);
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
