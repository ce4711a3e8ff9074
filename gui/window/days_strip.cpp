#include "gui/window/days_strip.hpp"

#include <algorithm>
#include <numeric>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include "cli/quantity.hpp"
#include "gui/window/look.hpp"

namespace orrery::gui {
namespace {

constexpr int kCellPixels = 2;
constexpr int kBetween = 8;  // names, bars and figures

QString figures_of(const sim::RunCell& line) {
    return QString::fromStdString(cli::percent_text(cli::steps_share(line)) + "  " +
                                  cli::counted_failures(line.failures));
}

}  // namespace

DaysStrip::DaysStrip(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("One run, day by day"));
    setFocusPolicy(Qt::StrongFocus);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    show_days(nullptr);
}

void DaysStrip::show_days(const DaysPtr& days) {
    days_ = days && days->goodput && days->goodput->middle ? days : nullptr;
    lay_out();
    setAccessibleDescription(days_ ? QString::fromStdString(cli::middle_text(days_->report()))
                                   : QString());
    select(std::nullopt);
}

// Cells are as narrow as a screen shows; lines are as long whatever the width is.
void DaysStrip::lay_out() {
    places_ = {};
    lines_ = {};
    if (days_) {
        const sim::RunTimeline& run = *days_->goodput->middle;
        lines_ = cli::lines_of(run, 1);
        int names = 0, figures = 0;
        for (std::size_t line = 0; line < lines_.lines(); ++line) {
            const QString name = QString::fromStdString(lines_.name(line));
            names = std::max(names, fontMetrics().horizontalAdvance(name));
            figures =
                std::max(figures, fontMetrics().horizontalAdvance(figures_of(lines_.line(line))));
        }
        places_.left = names + kBetween;
        places_.width = std::max(
            kCellPixels, (width() - places_.left - figures - kBetween) / kCellPixels * kCellPixels);
        places_.line_s = lines_.line_s;
        places_.lines = lines_.lines();
        places_.end_s = run.outcome.wall_s();
        places_.bar_height = fontMetrics().height();
        places_.line_height = places_.bar_height + 8;
        lines_ = cli::lines_of(run, static_cast<std::size_t>(places_.width / kCellPixels));
    }
    setFixedHeight(places_.height());
    update();
}

void DaysStrip::paintEvent(QPaintEvent* /*event*/) {
    if (!days_) return;
    QPainter painter(this);
    const Look look = Look::of(palette());
    painter.fillRect(rect(), look.ground);
    for (std::size_t line = 0; line < places_.lines; ++line)
        paint_line(painter, line);
    const std::vector<sim::RunFailure>& failures = days_->goodput->middle->failures;
    for (std::size_t i = 0; i < failures.size(); ++i) {
        const int x = static_cast<int>(places_.x_of(failures[i].at_s));
        const int top = places_.top_of(places_.line_of(failures[i].at_s)) + places_.bar_height;
        painter.fillRect(x, top + 1, 1, 4, look.faint);
        if (selected_ != i) continue;
        painter.setPen(QPen(look.ink, 2));
        painter.drawRect(x - 4, top - places_.bar_height, 8, places_.line_height - 2);
    }
    if (!hasFocus()) return;
    painter.setPen(look.selection);
    painter.drawRect(rect().adjusted(0, 0, -1, -1));
}

void DaysStrip::paint_line(QPainter& painter, std::size_t line) const {
    const Look look = Look::of(palette());
    const int top = places_.top_of(line), height = places_.bar_height;
    const sim::RunCell whole = lines_.line(line);
    painter.setPen(look.ink);
    painter.drawText(QRect(0, top, places_.left, height), Qt::AlignLeft | Qt::AlignVCenter,
                     QString::fromStdString(lines_.name(line)));
    painter.drawText(QRect(places_.left + places_.width + kBetween, top, width(), height),
                     Qt::AlignLeft | Qt::AlignVCenter, figures_of(whole));
    const std::size_t first = line * lines_.cells;
    const std::size_t end = std::min(lines_.of.size(), first + lines_.cells);
    for (std::size_t c = first; c < end; ++c) {
        const sim::RunSeconds& seconds = lines_.of[c].seconds;
        const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
        const int left = places_.left + static_cast<int>(c - first) * kCellPixels;
        double below = 0;  // share of what stands below
        for (std::size_t a = 0; a < sim::kRunAccounts; ++a) {
            if (seconds[a] <= 0) continue;
            const double share = seconds[a] / all;
            painter.fillRect(
                QRectF(left, top + height * (1 - below - share), kCellPixels, height * share),
                look.fill(static_cast<sim::RunAccount>(a)));
            below += share;
        }
    }
}

QString DaysStrip::text_of(std::size_t failure) const {
    return QString::fromStdString(cli::failure_text(days_->report(), lines_, failure));
}

void DaysStrip::select(std::optional<std::size_t> failure) {
    selected_ = failure;
    update();
    const QString text = failure ? text_of(*failure) : QString();
    if (failure) setAccessibleDescription(text);
    Q_EMIT chosen(text);
}

void DaysStrip::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    if (event->size().width() != event->oldSize().width()) lay_out();
}

void DaysStrip::mousePressEvent(QMouseEvent* event) {
    if (!days_) return;
    select(
        failure_at(*days_->goodput->middle, places_, event->position().x(), event->position().y()));
}

void DaysStrip::keyPressEvent(QKeyEvent* event) {
    if (!days_ || days_->goodput->middle->failures.empty()) return QWidget::keyPressEvent(event);
    const std::size_t last = days_->goodput->middle->failures.size() - 1;
    switch (event->key()) {
        case Qt::Key_Right:
            return select(selected_ ? std::min(last, *selected_ + 1) : 0);
        case Qt::Key_Left:
            return select(selected_ ? *selected_ - std::min<std::size_t>(1, *selected_) : last);
        case Qt::Key_Home:
            return select(0);
        case Qt::Key_End:
            return select(last);
        default:
            return QWidget::keyPressEvent(event);
    }
}

bool DaysStrip::event(QEvent* event) {
    if (event->type() != QEvent::ToolTip || !days_) return QWidget::event(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const auto failure =
        failure_at(*days_->goodput->middle, places_, help->pos().x(), help->pos().y());
    if (failure)
        QToolTip::showText(help->globalPos(), text_of(*failure), this);
    else
        QToolTip::hideText();
    return true;
}

void DaysStrip::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::FontChange) lay_out();
}

}  // namespace orrery::gui
