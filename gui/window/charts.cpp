#include "gui/window/charts.hpp"

#include <algorithm>

#include <QGraphicsLayout>
#include <QTimer>
#include <QtCharts/QBarCategoryAxis>
#include <QtCharts/QBarSet>
#include <QtCharts/QChart>
#include <QtCharts/QHorizontalStackedBarSeries>
#include <QtCharts/QLegendMarker>
#include <QtCharts/QLineSeries>
#include <QtCharts/QStackedBarSeries>
#include <QtCharts/QValueAxis>

#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"

namespace orrery::gui {

void clear_chart(QChartView& view, const Look& look) {
    QChart* chart = view.chart();
    chart->removeAllSeries();
    const QList<QAbstractAxis*> axes = chart->axes();
    for (QAbstractAxis* axis : axes) {
        chart->removeAxis(axis);
        delete axis;
    }
    chart->setBackgroundVisible(false);
    view.setBackgroundBrush(look.ground);
    chart->setBackgroundRoundness(0);
    chart->setMargins(QMargins(0, 0, 0, 0));
    chart->layout()->setContentsMargins(0, 0, 0, 0);
    chart->legend()->setLabelColor(look.ink);
    chart->legend()->setAlignment(Qt::AlignBottom);
    view.setRenderHint(QPainter::Antialiasing);
    view.setFrameShape(QFrame::NoFrame);
}

void dress_axis(QAbstractAxis& axis, const Look& look, const QFont& font) {
    axis.setLabelsColor(look.ink);
    axis.setGridLineColor(look.line);
    axis.setLinePenColor(look.line);
    QFont small = font;
    small.setPointSizeF(font.pointSizeF() * 0.88);
    axis.setLabelsFont(small);
}

namespace {

QString name_of(plan::MemoryCategory category) {
    const std::string_view name = plan::name(category);
    return QString::fromUtf8(name.data(), static_cast<qsizetype>(name.size()));
}

}  // namespace

BreakdownChart::BreakdownChart(QWidget* parent) : QChartView(parent) {
    setAccessibleName(tr("Where the time of a step goes"));
    chart()->legend()->hide();
    clear_chart(*this, Look::of(palette()));
}

void BreakdownChart::show_step(const sim::StepPrediction& step) {
    const Look look = Look::of(palette());
    clear_chart(*this, look);
    std::vector<trace::Account> shown;
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        if (step.breakdown_s[a] > 0) shown.push_back(static_cast<trace::Account>(a));
    std::reverse(shown.begin(), shown.end());  // the first is drawn at the bottom
    auto* bars = new QHorizontalStackedBarSeries;
    bars->setBarWidth(0.72);
    QStringList names;
    QString description;
    for (std::size_t i = 0; i < shown.size(); ++i) {
        const double seconds = step.breakdown_s[static_cast<std::size_t>(shown[i])];
        auto* bar = new QBarSet(QString());
        for (std::size_t other = 0; other < shown.size(); ++other)
            *bar << (other == i ? seconds : 0.0);
        bar->setColor(look.fill(shown[i]));
        bar->setBorderColor(look.ground);
        bars->append(bar);
        names << QString::fromStdString(cli::account_text(shown[i]) + "  " +
                                        cli::seconds_text(seconds) + "  " +
                                        cli::percent_text(seconds / step.time_s));
        description.prepend(names.back() + QStringLiteral("; "));
    }
    setAccessibleDescription(description);
    chart()->addSeries(bars);
    auto* accounts = new QBarCategoryAxis;
    accounts->append(names);
    dress_axis(*accounts, look, font());
    accounts->setTruncateLabels(false);
    accounts->setGridLineVisible(false);
    chart()->addAxis(accounts, Qt::AlignLeft);
    bars->attachAxis(accounts);
    auto* seconds = new QValueAxis;
    seconds->setRange(0, *std::max_element(step.breakdown_s.begin(), step.breakdown_s.end()));
    seconds->setVisible(false);
    chart()->addAxis(seconds, Qt::AlignBottom);
    bars->attachAxis(seconds);
    names_width_ = 0;
    const QFontMetrics metrics(accounts->labelsFont());
    for (const QString& name : names)
        names_width_ = std::max(names_width_, metrics.horizontalAdvance(name));
    setFixedHeight(static_cast<int>(shown.size()) * (fontMetrics().height() + 7) + 12);
    make_room();
}

void BreakdownChart::resizeEvent(QResizeEvent* event) {
    QChartView::resizeEvent(event);
    make_room();
    QTimer::singleShot(0, this, &BreakdownChart::make_room);  // once the chart has that size
}

// Qt Charts gives names a part of the width at most, and cuts off what is longer.
void BreakdownChart::make_room() {
    constexpr int kBetween = 14, kLeastBars = 40;
    const int left = std::min(names_width_ + kBetween, std::max(0, width() - kLeastBars));
    // Given the same place again the chart would leave names where they were at another size.
    chart()->setPlotArea(QRectF());
    chart()->setPlotArea(
        QRectF(left, 4, std::max(1, width() - left - 6), std::max(1, height() - 8)));
}

MemoryChart::MemoryChart(QWidget* parent) : QChartView(parent) {
    setAccessibleName(tr("Memory of each pipeline rank at its peak"));
    chart()->legend()->hide();
    clear_chart(*this, Look::of(palette()));
}

void MemoryChart::show_memory(const sim::MemoryPrediction& memory) {
    constexpr double kGB = 1e9;
    const Look look = Look::of(palette());
    clear_chart(*this, look);
    auto* bars = new QStackedBarSeries;
    bars->setBarWidth(0.72);
    const auto add = [&](const QString& name, const QColor& colour, auto bytes_of) {
        auto* set = new QBarSet(name);
        for (const sim::StageMemory& stage : memory.stages)
            *set << static_cast<double>(bytes_of(stage)) / kGB;
        set->setColor(colour);
        set->setBorderColor(look.ground);
        bars->append(set);
    };
    for (std::size_t c = 0; c < plan::kMemoryCategories; ++c) {
        const auto category = static_cast<plan::MemoryCategory>(c);
        add(name_of(category), look.fill(category),
            [c](const sim::StageMemory& stage) { return stage.bytes[c]; });
    }
    add(tr("other"), look.faint, [](const sim::StageMemory& stage) { return stage.other_bytes; });
    chart()->addSeries(bars);

    QStringList ranks;
    for (std::size_t i = 0; i < memory.stages.size(); ++i)
        ranks << QString::number(i);
    auto* across = new QBarCategoryAxis;
    across->append(ranks);
    dress_axis(*across, look, font());
    across->setGridLineVisible(false);
    chart()->addAxis(across, Qt::AlignBottom);
    bars->attachAxis(across);

    const double capacity = static_cast<double>(memory.capacity_bytes) / kGB;
    const double most = std::max(capacity, static_cast<double>(memory.worst().peak_bytes) / kGB);
    auto* up = new QValueAxis;
    up->setRange(0, most * 1.06);
    up->setLabelFormat(most < 10 ? QStringLiteral("%.1f GB") : QStringLiteral("%.0f GB"));
    up->setTickCount(4);
    dress_axis(*up, look, font());
    chart()->addAxis(up, Qt::AlignLeft);
    bars->attachAxis(up);

    auto* line = new QLineSeries;
    line->setName(tr("capacity"));
    line->append(-0.5, capacity);
    line->append(static_cast<double>(memory.stages.size()) - 0.5, capacity);
    line->setPen(QPen(look.ink, 2, Qt::DashLine));
    chart()->addSeries(line);
    line->attachAxis(across);
    line->attachAxis(up);
    const auto bytes = static_cast<double>(memory.worst().peak_bytes);
    setAccessibleDescription(tr("The fullest rank holds %1 of %2")
                                 .arg(QString::fromStdString(cli::bytes_text(bytes)),
                                      QString::fromStdString(cli::bytes_text(
                                          static_cast<double>(memory.capacity_bytes)))));
    setFixedHeight(190);
}

QString MemoryChart::legend() const {
    const Look look = Look::of(palette());
    QString text;
    const auto add = [&](const QString& sign, const QColor& colour, const QString& name) {
        text += QStringLiteral("<span style='color:%1'>%2</span>&nbsp;%3 &nbsp; ")
                    .arg(colour.name(), sign, name.toHtmlEscaped());
    };
    for (std::size_t c = 0; c < plan::kMemoryCategories; ++c) {
        const auto category = static_cast<plan::MemoryCategory>(c);
        add(QStringLiteral("■"), look.fill(category), name_of(category));
    }
    add(QStringLiteral("■"), look.faint, tr("other"));
    add(QStringLiteral("╌"), look.ink, tr("capacity"));
    return text;
}

LiveChart::LiveChart(const QString& name, const QString& format, QWidget* parent)
    : QChartView(parent), line_(new QLineSeries), across_(new QValueAxis), up_(new QValueAxis) {
    const Look look = Look::of(palette());
    setAccessibleName(name);
    clear_chart(*this, look);
    chart()->legend()->hide();
    chart()->setTitle(name);
    chart()->setTitleBrush(look.ink);
    line_->setPen(QPen(look.fill(Kind::weight_gradient), 2));
    line_->setPointsVisible(true);
    chart()->addSeries(line_);
    dress_axis(*across_, look, font());
    dress_axis(*up_, look, font());
    across_->setLabelFormat(QStringLiteral("%.0f"));
    across_->setTickCount(3);
    up_->setTickCount(3);
    up_->setLabelFormat(format);
    setMinimumSize(120, 80);
    chart()->addAxis(across_, Qt::AlignBottom);
    chart()->addAxis(up_, Qt::AlignLeft);
    line_->attachAxis(across_);
    line_->attachAxis(up_);
}

void LiveChart::add_point(int step, double value) {
    const bool first = line_->count() == 0;
    line_->append(step, value);
    across_->setRange(first ? step : std::min<double>(across_->min(), step),
                      first ? step + 1 : std::max<double>(across_->max(), step));
    const double margin = first ? std::max(1e-9, value * 0.05) : 0;
    up_->setRange(first ? value - margin : std::min(up_->min(), value),
                  first ? value + margin : std::max(up_->max(), value));
}

void LiveChart::clear_points() {
    line_->clear();
}

int LiveChart::points() const {
    return line_->count();
}

}  // namespace orrery::gui
