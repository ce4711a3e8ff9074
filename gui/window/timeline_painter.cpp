#include "gui/window/timeline_painter.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <QPaintEngine>

#include "cli/quantity.hpp"
#include "trace/timeline_axis.hpp"

namespace orrery::gui {
namespace {

constexpr int kTickDistance = 110;  // at least, pixels
constexpr int kPadding = 6;

}  // namespace

// Waiting is drawn lower than work, so that what a rank does stands out without its colour.
QRectF TimelinePainter::waiting_part(const QRectF& box) {
    const double inset = std::floor(box.height() * 0.3);
    return box.adjusted(0, inset, 0, -inset);
}

SceneLayout::SceneLayout(const QRect& whole) {
    const int left = whole.left() + kNames;
    const int width = std::max(1, whole.width() - kNames);
    minimap = QRect(left, whole.top(), width, kMinimap);
    axis = QRect(left, minimap.bottom() + 1, width, kAxis);
    legend = QRect(whole.left(), whole.bottom() - kLegend + 1, whole.width(), kLegend);
    memory = QRect(left, legend.top() - kMemory, width, kMemory);
    rows = QRect(left, axis.bottom() + 1, width, std::max(0, memory.top() - axis.bottom() - 1));
    names = QRect(whole.left(), rows.top(), kNames, rows.height());
}

TimelinePainter::TimelinePainter(QPainter& painter, const Scene& scene, const SceneLayout& layout,
                                 const Look& look)
    : p_(painter),
      scene_(scene),
      layout_(layout),
      look_(look),
      to_device_(painter.deviceTransform()),
      whole_pixels_(painter.paintEngine()->type() == QPaintEngine::Raster &&
                    to_device_.type() <= QTransform::TxScale &&
                    !painter.testRenderHint(QPainter::Antialiasing)) {
    for (std::size_t kind = 0; kind < kKinds; ++kind)
        fills_[kind] = look_.fill(static_cast<Kind>(kind));
}

void TimelinePainter::paint(const QPixmap* minimap) {
    paint_minimap(minimap);
    paint_axis();
    paint_rows();
    paint_memory();
    paint_uprights();
    paint_legend();
}

QPixmap TimelinePainter::minimap_picture(const Scene& scene, const QSize& size, double ratio,
                                         const Look& look) {
    QPixmap picture(size * ratio);
    picture.setDevicePixelRatio(ratio);
    picture.fill(look.band);
    QPainter painter(&picture);
    Viewport whole(scene.timeline->limits());
    whole.set_width(size.width());
    const std::vector<RankLanes>& ranks = scene.timeline->ranks();
    // Of more ranks than there are pixels, as many as there is room for, evenly.
    const auto rows =
        std::min<std::size_t>(ranks.size(), static_cast<std::size_t>(size.height() - 4));
    const double height = static_cast<double>(size.height() - 4) /
                          static_cast<double>(std::max<std::size_t>(rows, 1));
    for (std::size_t row = 0; row < rows; ++row) {
        const Lane& lane = ranks[row * ranks.size() / rows].outline;
        const double top = 2 + static_cast<double>(row) * height;
        for (const Strip& strip : strips_of(lane, whole)) {
            const KindSums sums = lane.sums(strip.first, strip.first + strip.spans);
            const auto most = std::max_element(sums.begin(), sums.end());
            const auto kind = static_cast<Kind>(most - sums.begin());
            if (is_empty(kind)) continue;
            painter.fillRect(QRectF(strip.left, top, std::max(1.0, strip.right - strip.left),
                                    std::max(1.0, height - (height > 3 ? 1 : 0))),
                             look.fill(kind));
        }
    }
    return picture;
}

void TimelinePainter::paint_minimap(const QPixmap* picture) {
    const QRect& place = layout_.minimap;
    if (picture != nullptr)
        p_.drawPixmap(place.topLeft(), *picture);
    else
        p_.drawPixmap(place.topLeft(), minimap_picture(scene_, place.size(), 1, look_));
    Viewport whole(scene_.timeline->limits());
    whole.set_width(place.width());
    const double left = place.left() + whole.x_of(scene_.view.shown().from);
    const double right = std::clamp<double>(place.left() + whole.x_of(scene_.view.shown().to),
                                            left + 2, place.right() + 1);
    QColor veil = look_.ground;
    veil.setAlpha(170);
    p_.fillRect(QRectF(place.left(), place.top(), left - place.left(), place.height()), veil);
    p_.fillRect(QRectF(right, place.top(), place.right() + 1 - right, place.height()), veil);
    p_.setPen(QPen(look_.selection, 1.5));
    p_.setBrush(Qt::NoBrush);
    p_.drawRect(QRectF(left, place.top() + 1, right - left - 1, place.height() - 2));
    p_.setPen(look_.faint);
    const QRect name(place.left() - SceneLayout::kNames, place.top(),
                     SceneLayout::kNames - kPadding, place.height());
    const QString title = scene_.title.isEmpty() ? tr("whole step") : scene_.title;
    p_.drawText(name, Qt::AlignRight | Qt::AlignVCenter,
                scene_.timeline->is_estimate() ? tr("%1, estimated").arg(title) : title);
}

void TimelinePainter::paint_axis() {
    const QRect& place = layout_.axis;
    p_.fillRect(place, look_.band);
    p_.setPen(look_.line);
    p_.drawLine(place.bottomLeft(), place.bottomRight());
    const Picoseconds zero = scene_.timeline->window().from;
    const Stretch& shown = scene_.view.shown();
    const auto least = static_cast<Picoseconds>(scene_.view.ps_per_pixel() * kTickDistance);
    const Picoseconds step = trace::round_step(std::max<Picoseconds>(1, least));
    const Picoseconds first = (shown.from - zero) / step * step;
    for (Picoseconds tick = first; tick < shown.to - zero; tick += step) {
        const double x = place.left() + scene_.view.x_of(tick + zero);
        if (x < place.left()) continue;
        p_.setPen(look_.line);
        p_.drawLine(QPointF(x, place.top() + 14), QPointF(x, layout_.memory.bottom()));
        p_.setPen(look_.faint);
        p_.drawText(QPointF(x + 3, place.top() + 15),
                    QString::fromStdString(trace::tick_label(tick, shown.to - zero, step)));
    }
}

void TimelinePainter::paint_rows() {
    p_.save();
    p_.setClipRect(layout_.names.united(layout_.rows));
    const auto [first, last] =
        scene_.rows->between(scene_.scrolled, scene_.scrolled + layout_.rows.height());
    for (std::size_t r = first; r < last; ++r) {
        const Row& row = scene_.rows->all()[r];
        const int top = layout_.rows.top() + row.top - scene_.scrolled;
        paint_name(row, QRect(layout_.names.left(), top, layout_.names.width(), row.height));
        p_.save();
        p_.setClipRect(layout_.rows);
        const QRect place(layout_.rows.left(), top, layout_.rows.width(), row.height);
        paint_lane(row, place);
        if (scene_.overlaid) paint_overlaid(row, place);
        p_.restore();
    }
    p_.setClipRect(layout_.rows);
    paint_area();
    paint_path();
    paint_dependency();
    paint_arrivals();
    paint_pointed_at();
    paint_laid_over();
    if (scene_.hovered) paint_box(*scene_.hovered, QPen(look_.ink, 1));
    if (scene_.selected) paint_box(*scene_.selected, QPen(look_.ink, 2.5));
    p_.restore();
}

void TimelinePainter::paint_name(const Row& row, const QRect& place) {
    const QRect text = place.adjusted(row.stream ? 34 : 22, 0, -kPadding, 0);
    const QFontMetrics metrics(p_.font());
    if (row.stream) {
        p_.setPen(look_.faint);
        const QString name = QString::fromStdString(scene_.rows->lane(row).name());
        p_.drawText(text, Qt::AlignLeft | Qt::AlignVCenter,
                    metrics.elidedText(name, Qt::ElideRight, text.width()));
        return;
    }
    const RankLanes& lanes = scene_.timeline->ranks()[row.rank];
    const bool open = scene_.rows->is_open(row.rank);
    p_.setPen(look_.faint);
    p_.drawText(QRect(place.left() + 6, place.top(), 16, place.height()),
                Qt::AlignLeft | Qt::AlignVCenter, open ? QStringLiteral("▾") : QStringLiteral("▸"));
    p_.setPen(look_.ink);
    const QString name = QString::fromStdString(lanes.name);
    const std::size_t beside = scene_.rows->ranks_beside(row.rank);
    const QString alike = !scene_.rows->shows_ranks(row.rank) && beside > 1
                              ? tr("and %1 more ranks: G").arg(beside - 1)
                              : QString::fromStdString(lanes.alike);
    if (alike.isEmpty()) {
        p_.drawText(text, Qt::AlignLeft | Qt::AlignVCenter, name);
        return;
    }
    const QFont font = p_.font();
    QFont small = font;
    small.setPointSizeF(font.pointSizeF() * 0.82);
    p_.drawText(text.adjusted(0, -1, 0, -text.height() / 2 + 1), Qt::AlignLeft | Qt::AlignVCenter,
                name);
    p_.setFont(small);
    p_.setPen(look_.faint);
    p_.drawText(text.adjusted(0, text.height() / 2, 0, 1), Qt::AlignLeft | Qt::AlignVCenter, alike);
    p_.setFont(font);
}

std::optional<QRectF> TimelinePainter::place_of(const BoxPlace& box) const {
    for (const Row& row : scene_.rows->all()) {
        if (row.rank != box.rank || row.stream != box.stream) continue;
        const Span& span = scene_.rows->lane(row).spans()[box.span];
        const double left = std::max(-4.0, scene_.view.x_of(span.from));
        const double right = std::min(scene_.view.width() + 4.0, scene_.view.x_of(span.to));
        return QRectF(layout_.rows.left() + left, layout_.rows.top() + row.top - scene_.scrolled,
                      std::max(2.0, right - left), row.height);
    }
    return std::nullopt;
}

void TimelinePainter::paint_box(const BoxPlace& box, const QPen& pen) {
    const std::optional<QRectF> place = place_of(box);
    if (!place) return;
    p_.setPen(pen);
    p_.setBrush(Qt::NoBrush);
    p_.drawRect(place->adjusted(0.5, 0.5, -0.5, -0.5));
}

// A dashed frame, and a sign above it that is seen however narrow it is: on the op's stream where
// that is open, else on its rank's row.
void TimelinePainter::paint_pointed_at() {
    if (!scene_.pointed_at) return;
    const OpPlace& op = *scene_.pointed_at;
    const std::optional<std::size_t> stream = scene_.rows->row_of_event(op.rank, op.event);
    const Row& row = scene_.rows->all()[stream ? *stream : scene_.rows->row_of(op.rank)];
    const Stretch times = scene_.timeline->times_of(op);
    const double left = std::max(-8.0, scene_.view.x_of(times.from));
    const double right = std::min(scene_.view.width() + 8.0, scene_.view.x_of(times.to));
    if (right < -4 || left > scene_.view.width() + 4) return;
    const QRectF box(layout_.rows.left() + left, layout_.rows.top() + row.top - scene_.scrolled,
                     std::max(2.0, right - left), row.height);
    p_.setPen(QPen(look_.ink, 2, Qt::DashLine));
    p_.setBrush(Qt::NoBrush);
    p_.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5));
    const QPointF tip(box.center().x(), box.top() + 1);
    p_.setPen(QPen(look_.ground, 1));
    p_.setBrush(look_.ink);
    p_.drawPolygon(QPolygonF{tip, tip + QPointF(-6, -9), tip + QPointF(6, -9)});
}

void TimelinePainter::paint_area() {
    if (!scene_.area || scene_.area->ranks.empty()) return;
    const auto& rows = scene_.rows->all();
    const Row& first = rows[scene_.rows->row_of(scene_.area->ranks.front())];
    std::size_t end = scene_.rows->row_of(scene_.area->ranks.back());
    while (end + 1 < rows.size() && rows[end + 1].rank == scene_.area->ranks.back())
        ++end;
    const double left = layout_.rows.left() + scene_.view.x_of(scene_.area->stretch.from);
    const double right = layout_.rows.left() + scene_.view.x_of(scene_.area->stretch.to);
    const double top = layout_.rows.top() + first.top - scene_.scrolled - 1;
    const double bottom = layout_.rows.top() + rows[end].bottom() - scene_.scrolled + 1;
    QColor veil = look_.selection;
    veil.setAlpha(60);
    p_.setBrush(veil);
    p_.setPen(QPen(look_.selection, 1.5));
    p_.drawRect(QRectF(left, top, right - left, bottom - top));
}

// Lines across all rows: the step's ends, marks, the cursor.
void TimelinePainter::paint_uprights() {
    p_.save();
    p_.setClipRect(QRect(layout_.axis.topLeft(), layout_.memory.bottomRight()));
    const auto upright = [&](Picoseconds time, const QPen& pen) {
        const double x = layout_.rows.left() + scene_.view.x_of(time);
        p_.setPen(pen);
        p_.drawLine(QPointF(x, layout_.axis.top()), QPointF(x, layout_.memory.bottom()));
    };
    const Stretch window = scene_.timeline->window();
    const Stretch limits = scene_.timeline->limits();
    if (window.from > limits.from) upright(window.from, QPen(look_.faint, 1, Qt::DotLine));
    if (window.to < limits.to) upright(window.to, QPen(look_.faint, 1, Qt::DotLine));
    if (scene_.cursor) upright(*scene_.cursor, QPen(look_.faint, 1));
    for (std::size_t i = 0; i < scene_.markers.size(); ++i) {
        upright(scene_.markers[i], QPen(look_.selection, 1.5, Qt::DashLine));
        if (i == 0) continue;
        // What lies between two marks.
        const Picoseconds apart = scene_.markers[i] - scene_.markers[i - 1];
        const double middle =
            layout_.rows.left() +
            (scene_.view.x_of(scene_.markers[i]) + scene_.view.x_of(scene_.markers[i - 1])) / 2;
        const QString text = QString::fromStdString(
            cli::seconds_text(static_cast<double>(apart) / trace::kPsPerSecond));
        const QRectF place = QRectF(0, 0, QFontMetrics(p_.font()).horizontalAdvance(text) + 10., 18)
                                 .translated(middle, layout_.axis.bottom() + 3);
        p_.fillRect(place.translated(-place.width() / 2, 0), look_.selection);
        p_.setPen(Look::ink_on(look_.selection));
        p_.drawText(place.translated(-place.width() / 2, 0), Qt::AlignCenter, text);
    }
    p_.restore();
}

void TimelinePainter::paint_memory() {
    const QRect& place = layout_.memory;
    p_.fillRect(place, look_.band);
    p_.setPen(look_.line);
    p_.drawLine(QPoint(place.left() - SceneLayout::kNames, place.top()), place.topRight());
    if (scene_.memory_rank >= scene_.timeline->ranks().size()) return;
    if (scene_.timeline->recorded() != nullptr) {
        p_.setPen(look_.faint);
        p_.drawText(place, Qt::AlignCenter, tr("This trace says nothing of memory."));
        return;
    }
    const std::vector<trace::MemoryChange>& changes = scene_.timeline->memory(scene_.memory_rank);
    const Stretch& shown = scene_.view.shown();
    std::int64_t most = 1;
    for (const trace::MemoryChange& change : changes)
        most = std::max(most, change.live_bytes);
    const double scale = (place.height() - 10.) / static_cast<double>(most);
    const auto y_of = [&](std::int64_t bytes) {
        return place.bottom() - static_cast<double>(bytes) * scale;
    };
    // Column by column the most that is alive in it.
    QPolygonF line{QPointF(place.left(), place.bottom())};
    auto next = std::partition_point(changes.begin(), changes.end(),
                                     [&](const auto& change) { return change.at <= shown.from; });
    std::int64_t alive = next == changes.begin() ? 0 : std::prev(next)->live_bytes;
    std::int64_t at_cursor = -1;
    for (int x = 0; x < place.width(); ++x) {
        const Picoseconds end = scene_.view.time_at(x + 1);
        std::int64_t column = alive;
        for (; next != changes.end() && next->at < end; ++next) {
            alive = next->live_bytes;
            column = std::max(column, alive);
        }
        if (scene_.cursor && at_cursor < 0 && *scene_.cursor < end) at_cursor = column;
        line << QPointF(place.left() + x, y_of(column))
             << QPointF(place.left() + x + 1, y_of(column));
    }
    line << QPointF(place.right() + 1, place.bottom());
    QColor fill = look_.fill(Kind::weight_gradient);
    p_.setPen(QPen(fill, 1));
    fill.setAlpha(90);
    p_.setBrush(fill);
    p_.drawPolygon(line);

    const QRect name(place.left() - SceneLayout::kNames + 22, place.top() + 8,
                     SceneLayout::kNames - 22 - kPadding, place.height() - 12);
    QString text =
        tr("planned memory alive") + QLatin1Char('\n') +
        QString::fromStdString(scene_.timeline->ranks()[scene_.memory_rank].name) +
        QLatin1Char('\n') +
        tr("most %1").arg(QString::fromStdString(cli::bytes_text(static_cast<double>(most))));
    if (at_cursor >= 0)
        text += QLatin1Char('\n') + tr("here %1").arg(QString::fromStdString(
                                        cli::bytes_text(static_cast<double>(at_cursor))));
    p_.setPen(look_.faint);
    p_.drawText(name, Qt::AlignLeft | Qt::AlignTop, text);
}

// The kinds that this trace has, by the sums of its ranks; those of streams where one is open. Of
// differences the whole scale.
std::vector<Kind> TimelinePainter::kinds_shown() const {
    std::vector<Kind> shown;
    if (scene_.difference) {
        for (std::size_t k = 0; k < kKinds; ++k)
            if (is_difference(static_cast<Kind>(k))) shown.push_back(static_cast<Kind>(k));
        return shown;
    }
    KindSums sums{};
    const auto add = [&](const Lane& lane) {
        const KindSums of_lane = lane.sums(0, lane.spans().size());
        for (std::size_t kind = 0; kind < kKinds; ++kind)
            sums[kind] += of_lane[kind];
    };
    for (const RankLanes& rank : scene_.timeline->ranks())
        add(rank.work);
    for (const Row& row : scene_.rows->all())
        if (row.stream) add(scene_.rows->lane(row));
    for (std::size_t k = 0; k < kKinds; ++k)
        if (sums[k] > 0) shown.push_back(static_cast<Kind>(k));
    return shown;
}

// Kinds of one colour share an entry.
void TimelinePainter::paint_legend() {
    constexpr int kLine = 18;  // of two
    p_.fillRect(layout_.legend, look_.ground);
    const QFont font = p_.font();
    QFont small = font;
    small.setPointSizeF(font.pointSizeF() * 0.88);
    p_.setFont(small);
    const QFontMetrics metrics(small);
    int x = layout_.legend.left() + 8;
    int top = layout_.legend.top();
    QStringList named;
    if (scene_.overlaid) {
        // As a row is: what is shown above, what lies over it below.
        const QString text = tr("above: %1; below: %2").arg(scene_.title, scene_.overlaid_title);
        p_.fillRect(QRectF(x, top + 3, 11, 8), look_.ink);
        p_.fillRect(QRectF(x, top + 12, 11, 3), look_.faint);
        p_.setPen(look_.ink);
        p_.drawText(QRect(x + 16, top, metrics.horizontalAdvance(text) + 2, kLine),
                    Qt::AlignLeft | Qt::AlignVCenter, text);
        x += metrics.horizontalAdvance(text) + 30;
    }
    for (const Kind kind : kinds_shown()) {
        const QString text = legend_text(kind);
        if (named.contains(text)) continue;
        named << text;
        const int width = metrics.horizontalAdvance(text);
        if (x + width + 18 > layout_.legend.right()) {
            x = layout_.legend.left() + 8;
            top += kLine;
        }
        QRectF box(x, top + 4, 11, 11);
        if (is_waiting(kind)) box = waiting_part(box.adjusted(0, -2, 0, 2));
        p_.fillRect(box, look_.fill(kind));
        p_.setPen(look_.faint);
        p_.drawText(QRect(x + 16, top, width + 2, kLine), Qt::AlignLeft | Qt::AlignVCenter, text);
        x += width + 22;
    }
    p_.setFont(font);
}

QString TimelinePainter::legend_text(Kind kind) {
    if (kind >= Kind::exposed_tensor && kind <= Kind::exposed_pipeline)
        return tr("exposed communication");
    if (kind == Kind::imbalance || kind == Kind::launch || kind == Kind::other)
        return tr("other waiting");
    return QString::fromStdString(text_of(kind));
}

}  // namespace orrery::gui
