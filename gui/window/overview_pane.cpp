#include "gui/window/overview_pane.hpp"

#include <cmath>

#include <QFormLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QTableWidget>
#include <QVBoxLayout>

#include "cli/quantity.hpp"
#include "cli/scenario_lines.hpp"
#include "gui/window/charts.hpp"
#include "gui/window/table_csv.hpp"
#include "gui/window/wrapped_label.hpp"
#include "sim/search/search.hpp"

namespace orrery::gui {
namespace {

QString seconds(double value) {
    return QString::fromStdString(cli::seconds_text(value));
}
QString percent(double value) {
    return QString::fromStdString(cli::percent_text(value));
}
QString digits(double value) {
    return QString::fromStdString(cli::digits_text(value));
}
QString bytes(std::int64_t value) {
    return QString::fromStdString(cli::bytes_text(static_cast<double>(value)));
}
QString words(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

QLabel* add_title(QVBoxLayout* layout, const QString& text) {
    auto* title = new QLabel(QStringLiteral("<b>%1</b>").arg(text));
    layout->addWidget(title);
    return title;
}

}  // namespace

OverviewPane::OverviewPane(QWidget* parent) : QScrollArea(parent), inside_(new QWidget) {
    setAccessibleName(tr("Overview"));
    setFrameShape(QFrame::NoFrame);
    setWidgetResizable(true);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    auto* layout = new QVBoxLayout(inside_);
    layout->setContentsMargins(8, 4, 8, 4);
    headline_ = new WrappedLabel;
    layout->addWidget(headline_);
    auto* form = new QFormLayout;
    form->setLabelAlignment(Qt::AlignLeft);
    form->setVerticalSpacing(2);
    step_ = add_figure(form, tr("Step time"));
    throughput_ = add_figure(form, tr("Throughput"));
    mfu_ = add_figure(form, tr("MFU"));
    bubble_ = add_figure(form, tr("Bubble"));
    memory_ = add_figure(form, tr("Memory"));
    run_ = add_figure(form, tr("Run"));
    layout->addLayout(form);
    breakdown_title_ = add_title(layout, {});
    breakdown_ = new BreakdownChart;
    layout->addWidget(breakdown_);
    stages_title_ = add_title(layout, {});
    stages_ = new MemoryChart;
    layout->addWidget(stages_);
    memory_legend_ = new WrappedLabel;
    layout->addWidget(memory_legend_);
    settings_title_ = add_title(layout, tr("What would change that"));
    settings_ = new QVBoxLayout;
    layout->addLayout(settings_);
    add_title(layout, tr("Why the step takes so long"));
    why_ = new WrappedLabel;
    layout->addWidget(why_);
    what_ifs_ = new QTableWidget(0, 3);
    what_ifs_->setAccessibleName(tr("What the step would take if one thing were better"));
    what_ifs_->setHorizontalHeaderLabels({tr("if"), tr("step"), tr("shorter by")});
    what_ifs_->verticalHeader()->hide();
    what_ifs_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 5);
    what_ifs_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    what_ifs_->setTabKeyNavigation(false);
    what_ifs_->setWordWrap(false);
    what_ifs_->setSelectionMode(QAbstractItemView::NoSelection);
    what_ifs_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
    offer_csv(*what_ifs_);
    layout->addWidget(what_ifs_);
    layout->addStretch(1);
    setWidget(inside_);
    show_answer(nullptr);
}

WrappedLabel* OverviewPane::add_figure(QFormLayout* form, const QString& name) {
    auto* value = new WrappedLabel;
    value->setAccessibleName(name);
    form->addRow(name, value);
    return value;
}

void OverviewPane::show_answer(const AnswerPtr& answer) {
    answer_ = answer && answer->predicted() ? answer : nullptr;
    inside_->setVisible(answer_ != nullptr);
    if (!answer_) return;
    show_figures(*answer_);
    mark_charts(false);
    breakdown_->show_step(answer_->prediction->step);
    stages_->show_memory(answer_->prediction->memory);
    memory_legend_->say(stages_->legend());
    clear_reasons(tr("Following the critical path …"));
}

void OverviewPane::clear_reasons(const QString& instead) {
    why_->say(instead);
    what_ifs_->setRowCount(0);
    what_ifs_->setFixedHeight(0);
    while (QLayoutItem* item = settings_->takeAt(0)) {
        item->widget()->deleteLater();
        item->widget()->hide();
        delete item;
    }
    settings_title_->hide();
}

void OverviewPane::show_estimate(const Estimate& estimate) {
    const plan::Scenario& scenario = *estimate.read->read.scenario;
    const sim::LayoutEstimate& layout = estimate.layout;
    inside_->setVisible(true);
    show_headline(scenario);
    step_->say(tr("about <b>%1</b>  (estimated, within %2)")
                   .arg(seconds(layout.step_s), percent(estimate.bounds.step)));
    const double per_device =
        1 / sim::objective_of(sim::Objective::tokens_per_s_per_gpu, scenario, layout.step_s);
    const auto devices = static_cast<double>(scenario.layout.ranks());
    throughput_->say(tr("about %1 tokens/s, %2 per device")
                         .arg(digits(per_device * devices), digits(per_device)));
    memory_->say(tr("about %1 of %2 on the fullest rank; probability that it fits %3")
                     .arg(bytes(std::llround(layout.peak_bytes)),
                          bytes(std::llround(layout.capacity_bytes)),
                          percent(layout.fit_probability)));
    for (WrappedLabel* figure : {mfu_, bubble_, run_})
        figure->say(tr("being simulated …"));
    mark_charts(true);
    clear_reasons(tr("Being simulated …"));
    set_stale(false);
}

// No wider than the pane.
void OverviewPane::mark_charts(bool simulating) {
    const auto say = [](QLabel* title, const QString& text) {
        title->setText(QStringLiteral("<b>%1</b>").arg(text));
    };
    say(breakdown_title_, simulating ? tr("Where the time of a step goes: being simulated …")
                                     : tr("Where the time of a step goes (mean over ranks)"));
    say(stages_title_, simulating ? tr("Memory of each pipeline rank: being simulated …")
                                  : tr("Memory of each pipeline rank at its peak"));
}

void OverviewPane::show_headline(const plan::Scenario& scenario) {
    headline_->say(tr("<b>%1</b> on %2<br>%3")
                       .arg(QString::fromStdString(scenario.model.name).toHtmlEscaped(),
                            QString::fromStdString(
                                cli::devices_line(scenario.cluster, scenario.layout.ranks()))
                                .toHtmlEscaped(),
                            QString::fromStdString(cli::layout_line(scenario.layout))));
}

void OverviewPane::show_figures(const Answer& answer) {
    const sim::Prediction& prediction = *answer.prediction;
    show_headline(*answer.read.scenario);
    const sim::StepPrediction& step = prediction.step;
    step_->say(tr("<b>%1</b>  (90 % interval %2 to %3)")
                   .arg(seconds(step.time_s), seconds(step.low_s), seconds(step.high_s)));
    const sim::ThroughputPrediction& rate = prediction.throughput;
    throughput_->say(tr("%1 tokens/s, %2 per device")
                         .arg(digits(rate.tokens_per_s), digits(rate.tokens_per_s_per_gpu)));
    mfu_->say(tr("<b>%1</b> = %2 model TFLOP/s ÷ %3 TFLOP/s dense peak; HFU %4")
                  .arg(percent(rate.mfu), digits(rate.model_tflops_per_gpu),
                       digits(rate.peak_tflops), percent(rate.hfu)));
    mfu_->setToolTip(tr("Peak: %1").arg(QString::fromStdString(rate.peak_source)));
    bubble_->say(percent(step.bubble_fraction));
    const sim::MemoryPrediction& memory = prediction.memory;
    memory_->say(tr("<b>%1</b>: %2 of %3 on the fullest rank; probability that it fits %4")
                     .arg(words(sim::name(memory.verdict)), bytes(memory.worst().peak_bytes),
                          bytes(memory.capacity_bytes), percent(memory.fit_probability)));
    QString run = tr("no tokens given");
    if (prediction.run.days) {
        run = tr("%1 days").arg(digits(*prediction.run.days));
        if (prediction.run.cost_usd) run += tr(", %1 USD").arg(digits(*prediction.run.cost_usd));
    }
    run_->say(run);
}

void OverviewPane::add_setting(const std::vector<sim::Setting>& settings, const QString& effect) {
    QString what;
    for (const sim::Setting& setting : settings) {
        if (!what.isEmpty()) what += QStringLiteral(", ");
        what += QString::fromStdString(setting.key + " = " + setting.value);
    }
    auto* button = new QPushButton(tr("Apply: %1").arg(effect));
    button->setToolTip(what);
    button->setAccessibleDescription(what);
    auto* text = new WrappedLabel(what);
    auto* both = new QWidget;
    auto* layout = new QVBoxLayout(both);
    layout->setContentsMargins(0, 0, 0, 4);
    layout->setSpacing(1);
    layout->addWidget(text);
    layout->addWidget(button);
    connect(button, &QPushButton::clicked, this, [this, settings] { Q_EMIT wanted(settings); });
    settings_->addWidget(both);
    settings_title_->show();
}

void OverviewPane::show_reasons(const ReasonsPtr& reasons) {
    if (!reasons->failure.empty()) return why_->say(QString::fromStdString(reasons->failure));
    const cli::Explanation& explanation = *reasons->explanation;
    why_->say(QString::fromStdString(cli::path_paragraph(explanation)));
    for (const sim::Fix& fix : reasons->fixes.fixes)
        add_setting(fix.settings,
                    tr("%1, %2").arg(bytes(fix.peak_bytes), words(sim::name(fix.verdict))));
    if (const auto& balanced = explanation.balanced)
        add_setting({balanced->setting},
                    tr("step %1, %2 shorter")
                        .arg(seconds(balanced->step_time_s), seconds(balanced->gain_s)));
    what_ifs_->setRowCount(0);
    for (const sim::Answer& answer : explanation.answers) {
        const int row = what_ifs_->rowCount();
        what_ifs_->insertRow(row);
        const QString sentence = words(answer.what->sentence);
        const QStringList cells{sentence, seconds(answer.step_time_s),
                                answer.gain_s > 0
                                    ? percent(answer.gain_s / answer_->prediction->step.time_s)
                                    : tr("not")};
        for (int column = 0; column < 3; ++column) {
            auto* item = new QTableWidgetItem(cells[column]);
            item->setToolTip(sentence);
            if (column > 0) item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
            what_ifs_->setItem(row, column, item);
        }
    }
    what_ifs_->resizeColumnToContents(1);
    what_ifs_->resizeColumnToContents(2);
    int height = what_ifs_->horizontalHeader()->sizeHint().height() + 4;
    height += what_ifs_->rowCount() * what_ifs_->verticalHeader()->defaultSectionSize();
    what_ifs_->setFixedHeight(height);
}

void OverviewPane::set_stale(bool stale) {
    step_->setEnabled(!stale);
}

QString OverviewPane::step_time() const {
    return answer_ ? seconds(answer_->prediction->step.time_s) : QString();
}

void OverviewPane::changeEvent(QEvent* event) {
    QScrollArea::changeEvent(event);
    if (event->type() != QEvent::PaletteChange || !answer_) return;
    breakdown_->show_step(answer_->prediction->step);
    stages_->show_memory(answer_->prediction->memory);
}

}  // namespace orrery::gui
