#include "gui/window/sweep_pane.hpp"

#include <algorithm>

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>

#include "cli/quantity.hpp"
#include "gui/window/answers_table.hpp"
#include "gui/window/sweep_chart.hpp"
#include "gui/window/table_csv.hpp"

namespace orrery::gui {

SweepPane::SweepPane(std::function<ScenarioText()> scenario, QWidget* parent)
    : QWidget(parent),
      scenario_(std::move(scenario)),
      vary_(new QLineEdit),
      metric_(new QComboBox),
      start_(new QPushButton(tr("Sweep"))),
      stop_(new QPushButton(tr("Stop the sweep"))),
      try_(new QPushButton(tr("Open the selected value"))),
      progress_(new QProgressBar),
      state_(new QLabel),
      chart_(new SweepChart([this](int point) { return words_of(point); })),
      table_(new QTableWidget(0, 7)) {
    vary_->setAccessibleName(tr("A key and its values"));
    vary_->setPlaceholderText(tr("layout.micro_batch_size=1,2,4 or cluster.nodes=16..256*2"));
    vary_->setToolTip(
        tr("As orrery sweep --vary takes it: KEY=1,2,4, KEY=1..4, KEY=16..256*2 or "
           "KEY=1..9+2"));
    metric_->setAccessibleName(tr("What the chart shows"));
    for (const cli::Metric& metric : cli::metrics())
        metric_->addItem(QString::fromUtf8(metric.label));
    progress_->setRange(0, 1000);
    progress_->setAccessibleName(tr("Share of the values that are simulated"));
    progress_->setMaximumWidth(120);
    state_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    table_->setAccessibleName(tr("The step for each value"));
    dress_answers(*table_);
    table_->horizontalHeader()->setStretchLastSection(true);
    // Numbers without their units, every metric: the file of orrery sweep --csv.
    offer_csv(*table_, [this] {
        const std::optional<cli::Sweep> shown = sweep();
        return shown ? cli::sweep_csv(*shown) : std::string();
    });
    lay_out();
    connect(start_, &QPushButton::clicked, this, &SweepPane::start);
    connect(vary_, &QLineEdit::returnPressed, this, &SweepPane::start);
    connect(vary_, &QLineEdit::textChanged, this, &SweepPane::refresh);
    connect(stop_, &QPushButton::clicked, this, [this] { run_.stop(); });
    connect(metric_, &QComboBox::currentIndexChanged, this, &SweepPane::show_chart);
    connect(try_, &QPushButton::clicked, this, [this] { try_row(table_->currentRow()); });
    connect(table_, &QTableWidget::cellActivated, this, &SweepPane::try_row);
    connect(table_, &QTableWidget::itemSelectionChanged, this, &SweepPane::refresh);
    connect(chart_, &SweepChart::chosen, this, &SweepPane::try_point);
    connect(&run_, &SweepRun::progressed, this, [this](double share) {
        progress_->setValue(static_cast<int>(share * progress_->maximum()));
    });
    connect(&run_, &SweepRun::found, this, &SweepPane::show_found);
    refresh();
}

void SweepPane::lay_out() {
    auto* what = new QHBoxLayout;
    what->addWidget(vary_, 1);
    what->addWidget(start_);
    what->addWidget(stop_);
    what->addWidget(progress_);
    auto* said = new QHBoxLayout;
    said->addWidget(state_, 1);
    said->addWidget(try_);
    said->addWidget(metric_);
    auto* below = new QHBoxLayout;
    below->addWidget(table_, 1);
    below->addWidget(chart_, 1);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 2, 4, 2);
    layout->setSpacing(3);
    layout->addLayout(what);
    layout->addLayout(said);
    layout->addLayout(below, 1);
}

void SweepPane::refresh() {
    const bool given = !vary_->text().trimmed().isEmpty() && !scenario_().text.empty();
    start_->setEnabled(given && !run_.is_running());
    stop_->setEnabled(run_.is_running());
    try_->setEnabled(table_->currentRow() >= 0);
}

QString SweepPane::state() const {
    return state_->text();
}

void SweepPane::start() {
    const ScenarioText scenario = scenario_();
    if (run_.is_running() || scenario.text.empty()) return;
    progress_->setValue(0);
    state_->setText(tr("simulating each value …"));
    run_.start(scenario, vary_->text().trimmed().toStdString());
    refresh();
}

std::optional<cli::Sweep> SweepPane::sweep() const {
    if (!found_ || !found_->failure.empty()) return std::nullopt;
    const auto metric = static_cast<std::size_t>(std::max(0, metric_->currentIndex()));
    return cli::Sweep{found_->input, found_->varies, found_->points, cli::metrics()[metric]};
}

void SweepPane::show_found(const SweepFoundPtr& found) {
    found_ = found;
    table_->setRowCount(0);
    if (!found->failure.empty()) {
        state_->setText(QString::fromStdString(found->failure).section(QLatin1Char('\n'), 0, 0));
        state_->setToolTip(QString::fromStdString(found->failure));
    } else {
        const auto sound = std::count_if(found->points.begin(), found->points.end(),
                                         [](const auto& point) { return point.scenario; });
        const qsizetype points = static_cast<qsizetype>(found->points.size());
        state_->setText((found->stopped ? tr("stopped after %1 values, %2 of them sound")
                                        : tr("%1 values, %2 of them sound"))
                            .arg(points)
                            .arg(sound));
        state_->setToolTip({});
        // The last word of the key; the chart has it whole.
        const QString key = QString::fromStdString(found->varies[0].key);
        table_->setHorizontalHeaderLabels({key.section(QLatin1Char('.'), -1), tr("step"),
                                           tr("90 % interval"), tr("MFU"), tr("tokens/s"),
                                           tr("peak memory"), tr("fits")});
        for (const cli::SweepPoint& point : found->points)
            add_row(point);
        table_->resizeColumnsToContents();
    }
    show_chart();
    refresh();
}

void SweepPane::add_row(const cli::SweepPoint& point) {
    const int row = table_->rowCount();
    table_->insertRow(row);
    const sim::StepPrediction& step = point.prediction.step;
    std::vector<std::string> cells{point.values[0], "-", "", "", "", "", point.why};
    if (point.scenario)
        cells = {point.values[0],
                 cli::seconds_text(step.time_s),
                 cli::seconds_text(step.low_s) + " to " + cli::seconds_text(step.high_s),
                 cli::percent_text(point.prediction.throughput.mfu),
                 cli::digits_text(point.prediction.throughput.tokens_per_s),
                 cli::bytes_text(static_cast<double>(point.prediction.memory.worst().peak_bytes)),
                 std::string(sim::name(point.prediction.memory.verdict))};
    for (int column = 0; column < table_->columnCount(); ++column) {
        auto* item =
            new QTableWidgetItem(QString::fromStdString(cells[static_cast<std::size_t>(column)]));
        item->setToolTip(item->text());
        table_->setItem(row, column, item);
    }
}

void SweepPane::show_chart() {
    const std::optional<cli::Sweep> shown = sweep();
    rows_.clear();
    if (!shown) return chart_->show_chart({{}, {}, {}, {}, false, {cli::ChartLine{}}});
    const cli::LineChart chart = cli::sweep_chart(*shown);
    for (const cli::ChartPoint& point : chart.lines.front().points)
        for (std::size_t i = 0; i < shown->points.size(); ++i)
            if (shown->points[i].scenario && cli::place_on_axis(*shown, i) == point.x) {
                rows_.push_back(static_cast<int>(i));
                break;
            }
    chart_->show_chart(chart);
}

QString SweepPane::words_of(int point) const {
    const int row = rows_[static_cast<std::size_t>(point)];
    const cli::SweepPoint& of = found_->points[static_cast<std::size_t>(row)];
    const std::optional<cli::Sweep> shown = sweep();
    return tr("%1 = %2: %3, %4\nClick to open it in the editor")
        .arg(QString::fromStdString(found_->varies[0].key), QString::fromStdString(of.values[0]),
             metric_->currentText(),
             QString::fromStdString(shown->metric.text(*shown->metric.value(of))));
}

void SweepPane::try_point(int point) {
    try_row(rows_[static_cast<std::size_t>(point)]);
}

void SweepPane::try_row(int row) {
    if (!found_ || row < 0 || static_cast<std::size_t>(row) >= found_->points.size()) return;
    Q_EMIT wanted(
        {{found_->varies[0].key, found_->points[static_cast<std::size_t>(row)].values[0]}});
}

}  // namespace orrery::gui
