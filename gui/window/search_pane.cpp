#include "gui/window/search_pane.hpp"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>

#include "cli/quantity.hpp"
#include "cli/scenario_lines.hpp"
#include "cli/search_report.hpp"
#include "gui/window/answers_table.hpp"
#include "gui/window/front_chart.hpp"
#include "gui/window/table_csv.hpp"
#include "sim/search/layout_sets.hpp"

namespace orrery::gui {

std::vector<sim::Setting> settings_of(const std::vector<std::string>& sets) {
    std::vector<sim::Setting> settings;
    for (const std::string& set : sets)
        settings.push_back({set.substr(0, set.find('=')), set.substr(set.find('=') + 1)});
    return settings;
}

SearchPane::SearchPane(std::function<QString()> saved_path, QWidget* parent)
    : QWidget(parent),
      saved_path_(std::move(saved_path)),
      start_(new QPushButton(tr("Search layouts"))),
      stop_(new QPushButton(tr("Stop the search"))),
      try_(new QPushButton(tr("Try the selected layout"))),
      progress_(new QProgressBar),
      state_(new QLabel),
      front_(new FrontChart([this](int point) { return words_of(point); })),
      table_(new QTableWidget(0, 5)) {
    progress_->setRange(0, 1000);
    progress_->setAccessibleName(tr("Share of the layouts that are priced"));
    progress_->setMaximumWidth(160);
    state_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    table_->setAccessibleName(tr("Best layouts"));
    table_->setHorizontalHeaderLabels(
        {tr("step"), tr("MFU"), tr("peak memory"), tr("fits"), tr("layout")});
    dress_answers(*table_);
    table_->horizontalHeader()->setStretchLastSection(true);
    offer_csv(*table_);
    auto* buttons = new QHBoxLayout;
    for (QWidget* widget : {static_cast<QWidget*>(start_), static_cast<QWidget*>(stop_),
                            static_cast<QWidget*>(try_), static_cast<QWidget*>(progress_)})
        buttons->addWidget(widget);
    buttons->addWidget(state_, 1);
    auto* below = new QHBoxLayout;
    below->addWidget(table_, 3);
    below->addWidget(front_, 2);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 2, 4, 2);
    layout->setSpacing(3);
    layout->addLayout(buttons);
    layout->addLayout(below, 1);
    connect(start_, &QPushButton::clicked, this, [this] {
        progress_->setValue(0);
        state_->setText(tr("pricing layouts …"));
        run_.start(saved_path_().toStdString());
        refresh();
    });
    connect(stop_, &QPushButton::clicked, this, [this] { run_.stop(); });
    connect(try_, &QPushButton::clicked, this, [this] { try_row(table_->currentRow()); });
    connect(table_, &QTableWidget::cellActivated, this, &SearchPane::try_row);
    connect(table_, &QTableWidget::itemSelectionChanged, this, &SearchPane::refresh);
    connect(front_, &FrontChart::chosen, this, &SearchPane::try_point);
    connect(&run_, &SearchRun::progressed, this, [this](double share) {
        progress_->setValue(static_cast<int>(share * progress_->maximum()));
    });
    connect(&run_, &SearchRun::found, this, &SearchPane::show_found);
    refresh();
}

void SearchPane::refresh() {
    const bool saved = !saved_path_().isEmpty();
    start_->setEnabled(saved && !run_.is_running());
    start_->setToolTip(saved ? QString() : tr("Save the scenario: what is searched is its file"));
    stop_->setEnabled(run_.is_running());
    try_->setEnabled(table_->currentRow() >= 0);
}

void SearchPane::try_row(int row) {
    if (!found_ || row < 0 || static_cast<std::size_t>(row) >= found_->result.layouts.size())
        return;
    Q_EMIT wanted(settings_of(found_->result.layouts[static_cast<std::size_t>(row)].sets));
}

QString SearchPane::words_of(int point) const {
    const sim::SearchResult& result = found_->result;
    const auto front = static_cast<int>(result.pareto.size());
    const auto words = [](double step_s, double bytes, const plan::Layout& layout) {
        return tr("step %1, %2: %3\nClick to try it")
            .arg(QString::fromStdString(cli::seconds_text(step_s)),
                 QString::fromStdString(cli::bytes_text(bytes)),
                 QString::fromStdString(cli::layout_line(layout)));
    };
    if (point < front) {
        const sim::PricedLayout& priced = result.pareto[static_cast<std::size_t>(point)];
        return words(priced.step_s, priced.peak_bytes,
                     cli::scenario_of(found_->search, priced).layout);
    }
    const sim::FoundLayout& layout = result.layouts[static_cast<std::size_t>(point - front)];
    return words(layout.prediction.step.time_s,
                 static_cast<double>(layout.prediction.memory.worst().peak_bytes),
                 layout.scenario.layout);
}

void SearchPane::try_point(int point) {
    const auto front = static_cast<int>(found_->result.pareto.size());
    if (point >= front) return try_row(point - front);
    const sim::PricedLayout& priced = found_->result.pareto[static_cast<std::size_t>(point)];
    Q_EMIT wanted(settings_of(sim::layout_sets(found_->search.bases[priced.base], priced.number,
                                               cli::scenario_of(found_->search, priced).layout)));
}

void SearchPane::show_found(const SearchFoundPtr& found) {
    found_ = found;
    table_->setRowCount(0);
    const sim::SearchResult& result = found->result;
    if (!found->failure.empty()) {
        state_->setText(QString::fromStdString(found->failure).section(QLatin1Char('\n'), 0, 0));
        state_->setToolTip(QString::fromStdString(found->failure));
        return refresh();
    }
    progress_->setValue(progress_->maximum());
    const QString looked =
        QString::fromStdString(cli::whole_text(static_cast<std::int64_t>(result.evaluated)));
    state_->setText(result.stopped ? tr("stopped after %1 layouts").arg(looked)
                                   : tr("%1 layouts, the best simulated in full").arg(looked));
    state_->setToolTip(QString::fromStdString(found->report));
    for (const sim::FoundLayout& layout : result.layouts) {
        const int row = table_->rowCount();
        table_->insertRow(row);
        const sim::Prediction& prediction = layout.prediction;
        const std::string_view verdict = sim::name(prediction.memory.verdict);
        const std::string cells[] = {
            cli::seconds_text(prediction.step.time_s), cli::percent_text(prediction.throughput.mfu),
            cli::bytes_text(static_cast<double>(prediction.memory.worst().peak_bytes)),
            std::string(verdict), cli::layout_line(layout.scenario.layout)};
        for (int column = 0; column < 5; ++column)
            table_->setItem(row, column,
                            new QTableWidgetItem(QString::fromStdString(cells[column])));
    }
    table_->resizeColumnsToContents();
    front_->show_front(result);
    refresh();
}

}  // namespace orrery::gui
