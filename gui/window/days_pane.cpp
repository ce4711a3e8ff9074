#include "gui/window/days_pane.hpp"

#include <algorithm>

#include <QFocusEvent>
#include <QHeaderView>
#include <QPainter>
#include <QPushButton>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QVBoxLayout>

#include "cli/quantity.hpp"
#include "cli/run_days.hpp"
#include "cli/run_goodput.hpp"
#include "gui/window/answers_table.hpp"
#include "gui/window/days_strip.hpp"
#include "gui/window/look.hpp"
#include "gui/window/table_csv.hpp"
#include "gui/window/wrapped_label.hpp"

namespace orrery::gui {
namespace {

constexpr int kBesideEachOther = 900;  // pixels: narrower, all stand below each other

QString length(double days) {
    return QString::fromStdString(cli::length_text(days)).toHtmlEscaped();
}

class BarDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;

    void paint(QPainter* painter, const QStyleOptionViewItem& option,
               const QModelIndex& index) const override {
        QStyledItemDelegate::paint(painter, option, index);
        const QVariant value = index.data(RunTable::BarRole);
        if (!value.canConvert<RunBar>()) return;
        const auto bar = value.value<RunBar>();
        const QRectF room = QRectF(option.rect).adjusted(4, 3, -4, -3);
        const double width = std::max(1.0, room.width() * (bar.end - bar.begin));
        painter->fillRect(
            QRectF(room.left() + room.width() * bar.begin, room.top(), width, room.height()),
            colour_of(bar, Look::of(option.palette)));
    }

  private:
    static QColor colour_of(const RunBar& bar, const Look& look) {
        switch (bar.colour) {
            case RunBar::Colour::part:
                return bar.part.of == sim::RunAccount::steps ? look.fill(bar.part.within)
                                                             : look.fill(bar.part.of);
            case RunBar::Colour::gain:
                return look.fill(trace::Account::optimizer);
            case RunBar::Colour::whole:
                break;
        }
        return look.faint;
    }
};

QTableView* table_of(QAbstractItemModel& model, const QString& name) {
    auto* table = new QTableView;
    table->setModel(&model);
    table->setAccessibleName(name);
    dress_answers(*table);
    table->setShowGrid(false);
    table->setFrameShape(QFrame::NoFrame);
    table->setWordWrap(false);
    table->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    table->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    table->horizontalHeader()->setHighlightSections(false);
    table->setItemDelegate(new BarDelegate(table));
    offer_csv(*table);
    return table;
}

// As high as its rows; the bar has what the columns before leave.
void fit(QTableView& table) {
    table.resizeColumnsToContents();
    table.horizontalHeader()->setSectionResizeMode(table.model()->columnCount() - 1,
                                                   QHeaderView::Stretch);
    const int rows = table.model()->rowCount() * table.verticalHeader()->defaultSectionSize();
    table.setFixedHeight(table.horizontalHeader()->sizeHint().height() + rows + 4);
}

}  // namespace

DaysPane::DaysPane(QWidget* parent)
    : QScrollArea(parent),
      headline_(new WrappedLabel),
      notes_(new WrappedLabel),
      ways_(new QHBoxLayout),
      views_(new QGridLayout),
      parts_view_(table_of(parts_, tr("Where the days of the run go"))),
      changes_view_(table_of(changes_, tr("What would help"))),
      run_view_(new QWidget),
      strip_title_(new WrappedLabel),
      legend_(new WrappedLabel),
      strip_(new DaysStrip),
      failure_(new WrappedLabel) {
    setAccessibleName(tr("Days of the run"));
    setFrameShape(QFrame::NoFrame);
    setWidgetResizable(true);
    auto* inside = new QWidget;
    auto* layout = new QVBoxLayout(inside);
    layout->setContentsMargins(8, 4, 8, 4);
    layout->setSpacing(4);
    layout->addWidget(headline_);
    layout->addWidget(notes_);
    layout->addLayout(ways_);
    auto* run = new QVBoxLayout(run_view_);
    run->setContentsMargins(0, 0, 0, 0);
    run->setSpacing(4);
    for (QWidget* widget : {static_cast<QWidget*>(strip_title_), static_cast<QWidget*>(legend_),
                            static_cast<QWidget*>(strip_), static_cast<QWidget*>(failure_)})
        run->addWidget(widget);
    layout->addLayout(views_);
    layout->addStretch(1);
    setWidget(inside);
    arrange();
    connect(&run_, &DaysRun::found, this, &DaysPane::show_days);
    connect(strip_, &DaysStrip::chosen, this, [this](const QString& text) { failure_->say(text); });
    show_answer(nullptr);
}

QString DaysPane::headline() const {
    return headline_->text();
}
QString DaysPane::notes() const {
    return notes_->text();
}

void DaysPane::show_answer(const AnswerPtr& answer) {
    answer_ = answer && answer->predicted() ? answer : nullptr;
    run_.cancel();
    if (answer_) return draw_if_seen();
    show_days(nullptr);
    headline_->say(tr("Open a scenario to see how long its run takes."));
}

void DaysPane::set_stale() {
    answer_ = nullptr;
    run_.cancel();
    headline_->setEnabled(false);
}

void DaysPane::draw_if_seen() {
    if (!answer_ || !seen_ || (days_ && days_->answer == answer_)) return;
    headline_->setEnabled(false);
    if (!days_) headline_->say(tr("Drawing runs …"));
    run_.ask(answer_);
}

void DaysPane::show_days(const DaysPtr& days) {
    days_ = days;
    headline_->setEnabled(true);
    parts_.show(days);
    changes_.show(days);
    strip_->show_days(days);
    const bool drawn = days && days->goodput;
    const bool has_run = drawn && days->goodput->middle;
    for (QWidget* widget :
         {static_cast<QWidget*>(parts_view_), static_cast<QWidget*>(changes_view_)})
        widget->setVisible(drawn);
    run_view_->setVisible(has_run);
    while (QLayoutItem* item = ways_->takeAt(0)) {
        if (item->widget() != nullptr) {
            item->widget()->deleteLater();
            item->widget()->hide();
        }
        delete item;
    }
    notes_->hide();
    if (!days) return;
    fit(*parts_view_);
    fit(*changes_view_);
    if (drawn && hasFocus()) parts_view_->setFocus();
    show_what_is_assumed();
    if (!drawn)
        return headline_->say(days->without_length
                                  ? tr("No days: %1.").arg(QLatin1String(cli::kNoLength))
                                  : QString::fromStdString(days->failure));
    const sim::Goodput& goodput = *days->goodput;
    headline_->say(
        tr("<b>%1</b> (nine runs in ten: %2 to %3), %4 without failures and checkpoints: "
           "<b>%5</b> of the wall clock is steps that count.")
            .arg(length(goodput.days), length(goodput.low_days), length(goodput.high_days),
                 length(goodput.ideal_days),
                 QString::fromStdString(cli::percent_text(goodput.effective_fraction))));
    if (!has_run) return;
    strip_title_->say(
        tr("<b>Day by day</b>, %1").arg(QString::fromStdString(cli::middle_text(days->report()))));
    show_legend();
}

void DaysPane::show_what_is_assumed() {
    QStringList notes;
    if (days_->answer->prediction->memory.verdict == sim::Verdict::exceeds)
        notes << tr("The layout does not fit into the device's memory.");
    const plan::Scenario& scenario = *days_->answer->read.scenario;
    if (days_->goodput && days_->goodput->unended > 0)
        notes << tr("%1 of %2 runs do not end: they lose more than they do.")
                     .arg(days_->goodput->unended)
                     .arg(days_->options.runs);
    if (days_->without_length) {
        const double tokens = proposed_tokens(*days_->answer->prediction);
        QString said = QString::number(tokens, 'g', 2);
        said.remove(QLatin1Char('+'));
        offer(tr("Set training.tokens to %1, 20 for each parameter").arg(said), "training.tokens",
              said.toStdString());
    }
    if (!days_->assumed.empty()) {
        const std::string& name =
            days_->read.scenario ? days_->read.scenario->reliability->name : days_->assumed;
        notes << tr("Failures: %1, assumed: the scenario has no reliability section.")
                     .arg(QString::fromStdString(name));
        offer(tr("Set reliability to %1").arg(QString::fromStdString(days_->assumed)),
              "reliability", days_->assumed);
    }
    if (days_->goodput && days_->goodput->spares_assumed)
        notes << tr("Spare nodes: %1, assumed: as many as are rarely short.")
                     .arg(QString::fromStdString(
                         cli::whole_text(days_->goodput->model.spare_nodes)));
    if (days_->goodput && !scenario.storage)
        notes << tr("Storage: 1 GB/s a node, assumed: the scenario has no storage section.");
    ways_->addStretch(1);
    notes_->say(notes.join(QLatin1Char(' ')).toHtmlEscaped());
    notes_->setVisible(!notes.isEmpty());
}

void DaysPane::offer(const QString& text, const std::string& key, const std::string& value) {
    auto* button = new QPushButton(text);
    button->setToolTip(tr("Change the scenario so; Undo takes it back"));
    connect(button, &QPushButton::clicked, this, [this, key, value] {
        Q_EMIT wanted({{key, value}});
    });
    ways_->addWidget(button);
}

void DaysPane::show_legend() {
    const Look look = Look::of(palette());
    QString text;
    for (std::size_t a = 0; a < sim::kRunAccounts; ++a) {
        if (days_->goodput->middle->outcome.seconds[a] <= 0) continue;
        const auto account = static_cast<sim::RunAccount>(a);
        text += QStringLiteral("<span style='color:%1'>■</span>&nbsp;%2 &nbsp; ")
                    .arg(look.fill(account).name(),
                         QString::fromStdString(cli::words_of(account))
                             .toHtmlEscaped()
                             .replace(QLatin1Char(' '), QStringLiteral("&nbsp;")));
    }
    legend_->say(text + tr("╵&nbsp;a&nbsp;failure: point at it, or go there with ← and →"));
}

void DaysPane::set_seen(bool seen) {
    seen_ = seen;
    draw_if_seen();
}

void DaysPane::resizeEvent(QResizeEvent* event) {
    QScrollArea::resizeEvent(event);
    arrange();
}

// The run as wide as there is room, below where its days go.
void DaysPane::arrange() {
    const bool wide = viewport()->width() >= kBesideEachOther;
    for (QWidget* view :
         {static_cast<QWidget*>(parts_view_), run_view_, static_cast<QWidget*>(changes_view_)})
        views_->removeWidget(view);
    views_->addWidget(parts_view_, 0, 0, Qt::AlignTop);
    views_->addWidget(run_view_, 1, 0, 1, wide ? 2 : 1);
    views_->addWidget(changes_view_, wide ? 0 : 2, wide ? 1 : 0, Qt::AlignTop);
    views_->setColumnStretch(0, 1);
    views_->setColumnStretch(1, wide ? 1 : 0);
}

void DaysPane::focusInEvent(QFocusEvent* event) {
    QScrollArea::focusInEvent(event);
    if (days_ && days_->goodput) parts_view_->setFocus(event->reason());
}

void DaysPane::changeEvent(QEvent* event) {
    QScrollArea::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && days_ && days_->goodput && days_->goodput->middle)
        show_legend();
}

}  // namespace orrery::gui
