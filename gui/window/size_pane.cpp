#include "gui/window/size_pane.hpp"

#include <algorithm>
#include <cmath>

#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>

#include "cli/quantity.hpp"
#include "gui/window/answers_table.hpp"
#include "gui/window/search_pane.hpp"
#include "gui/window/sweep_chart.hpp"
#include "gui/window/table_csv.hpp"

namespace orrery::gui {

BoundSlider::BoundSlider(QWidget* parent) : QSlider(Qt::Horizontal, parent) {
    setRange(0, kNone);
    setPageStep(10);
    setValue(kNone);
    setEnabled(false);
}

void BoundSlider::span(const std::vector<double>& values) {
    setEnabled(!values.empty());
    if (values.empty()) return setValue(kNone);
    constexpr double kMargin = 1.25;
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    least_ = *least / kMargin;
    most_ = *most * kMargin;
}

std::optional<double> BoundSlider::bound() const {
    if (value() == kNone || most_ <= 0) return std::nullopt;
    return least_ * std::pow(most_ / least_, static_cast<double>(value()) / kNone);
}

SizePane::SizePane(std::function<ScenarioText()> scenario, QWidget* parent)
    : QWidget(parent),
      scenario_(std::move(scenario)),
      gpus_(new QLineEdit),
      clusters_(new QLineEdit),
      tokens_(new QLineEdit),
      deadline_(new BoundSlider),
      budget_(new BoundSlider),
      deadline_text_(new QLabel),
      budget_text_(new QLabel),
      start_(new QPushButton(tr("Size clusters"))),
      stop_(new QPushButton(tr("Stop the sizing"))),
      try_(new QPushButton(tr("Open the selected cluster"))),
      progress_(new QProgressBar),
      state_(new QLabel),
      verdict_(new QLabel),
      chart_(new SweepChart([this](int point) { return words_of(point); })),
      table_(new QTableWidget) {
    dress();
    lay_out();
    connect(start_, &QPushButton::clicked, this, &SizePane::start);
    for (QLineEdit* edit : {gpus_, clusters_, tokens_})
        connect(edit, &QLineEdit::returnPressed, this, &SizePane::start);
    connect(stop_, &QPushButton::clicked, this, [this] { run_.stop(); });
    connect(try_, &QPushButton::clicked, this, [this] { try_option(table_->currentRow()); });
    connect(table_, &QTableWidget::cellActivated, this, &SizePane::try_option);
    connect(table_, &QTableWidget::itemSelectionChanged, this, &SizePane::refresh);
    connect(chart_, &SweepChart::chosen, this,
            [this](int point) { try_option(options_[static_cast<std::size_t>(point)]); });
    connect(deadline_, &QSlider::valueChanged, this, &SizePane::judge);
    connect(budget_, &QSlider::valueChanged, this, &SizePane::judge);
    connect(&run_, &SizeRun::progressed, this, [this](double share) {
        progress_->setValue(static_cast<int>(share * progress_->maximum()));
    });
    connect(&run_, &SizeRun::found, this, &SizePane::show_found);
    judge();
    refresh();
}

void SizePane::dress() {
    gpus_->setAccessibleName(tr("Numbers of GPUs"));
    gpus_->setPlaceholderText(tr("GPUs: 64..4096*2; else ¼ to 4 × those of the scenario"));
    clusters_->setAccessibleName(tr("Clusters of the library"));
    clusters_->setPlaceholderText(tr("clusters/h100-sxm-256.json, …; else the scenario's"));
    tokens_->setAccessibleName(tr("Tokens of the run"));
    tokens_->setPlaceholderText(tr("tokens: 2e12; else the scenario's"));
    deadline_->setAccessibleName(tr("Deadline"));
    budget_->setAccessibleName(tr("Budget"));
    progress_->setRange(0, 1000);
    progress_->setAccessibleName(tr("Share of the layouts of all clusters that are priced"));
    progress_->setMaximumWidth(120);
    state_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    verdict_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    verdict_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    chart_->setAccessibleName(tr("Days over GPUs"));
    chart_->setMinimumHeight(110);  // below, its axes lose their numbers
    table_->setAccessibleName(tr("The best layout of each cluster"));
    dress_answers(*table_);
    table_->setToolTip(QString::fromUtf8(cli::kSizeRemarks).simplified());
    offer_csv(*table_);
}

void SizePane::lay_out() {
    auto* what = new QHBoxLayout;
    for (QLineEdit* edit : {gpus_, clusters_, tokens_})
        what->addWidget(edit, 1);
    what->addWidget(start_);
    what->addWidget(stop_);
    what->addWidget(progress_);
    auto* bounds = new QHBoxLayout;
    for (const auto& [slider, text] :
         {std::pair(deadline_, deadline_text_), std::pair(budget_, budget_text_)}) {
        bounds->addWidget(text);
        bounds->addWidget(slider, 1);
    }
    bounds->addWidget(try_);
    auto* said = new QHBoxLayout;
    said->addWidget(verdict_, 3);
    said->addWidget(state_, 1);
    auto* below = new QHBoxLayout;
    below->addWidget(table_, 3);
    below->addWidget(chart_, 2);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 2, 4, 2);
    layout->setSpacing(3);
    layout->addLayout(what);
    layout->addLayout(bounds);
    layout->addLayout(said);
    layout->addLayout(below, 1);
}

void SizePane::refresh() {
    start_->setEnabled(!scenario_().text.empty() && !run_.is_running());
    stop_->setEnabled(run_.is_running());
    const int row = table_->currentRow();
    try_->setEnabled(found_ && row >= 0 &&
                     found_->sizing.options[static_cast<std::size_t>(row)].best.has_value());
}

QString SizePane::state() const {
    return state_->text();
}

QString SizePane::verdict() const {
    return verdict_->text();
}

void SizePane::start() {
    const ScenarioText scenario = scenario_();
    if (run_.is_running() || scenario.text.empty()) return;
    cli::SizeQuestion question;
    question.gpus = gpus_->text().trimmed().toStdString();
    for (const QString& cluster : clusters_->text().split(QLatin1Char(','), Qt::SkipEmptyParts))
        if (!cluster.trimmed().isEmpty())
            question.clusters.push_back(cluster.trimmed().toStdString());
    if (const QString tokens = tokens_->text().trimmed(); !tokens.isEmpty()) {
        bool is_number = false;
        question.tokens = tokens.toDouble(&is_number);
        if (!is_number) return state_->setText(tr("“%1” is no number of tokens").arg(tokens));
    }
    progress_->setValue(0);
    state_->setText(tr("searching layouts of each cluster …"));
    run_.start(scenario, question);
    refresh();
}

void SizePane::show_found(const SizeFoundPtr& found) {
    found_ = found->failure.empty() ? found : nullptr;
    state_->setToolTip(QString::fromStdString(found->failure));
    std::vector<double> days, costs;
    if (!found_) {
        state_->setText(QString::fromStdString(found->failure).section(QLatin1Char('\n'), 0, 0));
    } else {
        const std::size_t tried = found->sizing.options.size();
        state_->setText(found->sizing.stopped ? tr("stopped; %1 clusters").arg(tried)
                                              : tr("%1 clusters").arg(tried));
        for (const cli::SizeOption& option : found->sizing.options)
            if (option.best) {
                days.push_back(option.days());
                if (option.run().cost_usd) costs.push_back(*option.run().cost_usd);
            }
    }
    deadline_->span(days);
    budget_->span(costs);
    show_options();
    judge();
    refresh();
}

void SizePane::show_options() {
    table_->clear();
    table_->setRowCount(0);
    options_.clear();
    if (!found_) return chart_->show_chart({});
    QStringList heads;
    for (const std::string& head : cli::size_heads())
        heads << QString::fromStdString(head);
    table_->setColumnCount(static_cast<int>(heads.size()));
    table_->setHorizontalHeaderLabels(heads);
    const std::vector<cli::SizeOption>& options = found_->sizing.options;
    table_->setRowCount(static_cast<int>(options.size()));
    for (int row = 0; row < table_->rowCount(); ++row) {
        const cli::SizeOption& option = options[static_cast<std::size_t>(row)];
        for (int column = 0; column < table_->columnCount(); ++column)
            table_->setItem(row, column, new QTableWidgetItem);
        if (option.best)
            options_.push_back(row);
        else
            table_->item(row, 2)->setToolTip(QString::fromStdString(option.why));
    }
    chart_->show_chart(cli::size_chart(options));
}

// By the sliders, of what has been found: nothing is searched again.
void SizePane::judge() {
    cli::SizeQuestion question = found_ ? found_->question : cli::SizeQuestion{};
    question.deadline_days = deadline_->bound();
    question.budget_usd = budget_->bound();
    deadline_text_->setText(
        question.deadline_days
            ? tr("deadline %1 days")
                  .arg(QString::fromStdString(cli::digits_text(*question.deadline_days)))
            : tr("no deadline"));
    budget_text_->setText(
        question.budget_usd
            ? tr("budget $%1").arg(QString::fromStdString(cli::counted_text(*question.budget_usd)))
            : tr("no budget"));
    verdict_->clear();
    if (!found_) return;
    std::vector<cli::SizeOption>& options = found_->sizing.options;
    cli::judge(options, question);
    for (int row = 0; row < table_->rowCount(); ++row) {
        const auto cells = cli::size_cells(options[static_cast<std::size_t>(row)], question);
        for (std::size_t column = 0; column < cells.size(); ++column)
            table_->item(row, static_cast<int>(column))
                ->setText(QString::fromStdString(cells[column]));
        if (!options[static_cast<std::size_t>(row)].best)
            table_->item(row, 2)->setText(
                QString::fromStdString(options[static_cast<std::size_t>(row)].why));
    }
    table_->resizeColumnsToContents();
    verdict_->setText(cli::smallest(options)
                          ? QString::fromStdString(cli::size_verdicts(options))
                                .split(QLatin1Char('\n'), Qt::SkipEmptyParts)
                                .join(QStringLiteral("  ·  "))
                                .simplified()
                          : tr("No cluster that was tried %1.")
                                .arg(QString::fromStdString(cli::why_none(options, question))));
}

QString SizePane::words_of(int point) const {
    const int row = options_[static_cast<std::size_t>(point)];
    const cli::SizeOption& option = found_->sizing.options[static_cast<std::size_t>(row)];
    return tr("%1 × %2: %3 days\nClick to open it in the editor")
        .arg(QString::fromStdString(cli::whole_text(option.gpus)),
             QString::fromStdString(option.cluster_name()),
             QString::fromStdString(cli::digits_text(option.days())));
}

void SizePane::try_option(int row) {
    if (!found_ || row < 0 || row >= table_->rowCount()) return;
    const cli::SizeOption& option = found_->sizing.options[static_cast<std::size_t>(row)];
    if (option.best) Q_EMIT wanted(settings_of(option.best->sets));
}

}  // namespace orrery::gui
