#include "gui/window/problems_pane.hpp"

#include <QFontDatabase>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

namespace orrery::gui {

ProblemsPane::ProblemsPane(QWidget* parent)
    : QWidget(parent),
      summary_(new QLabel(this)),
      table_(new QTableView(this)),
      whole_(new QPlainTextEdit(this)),
      buttons_(new QVBoxLayout) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 2, 4, 2);
    layout->setSpacing(3);
    summary_->setWordWrap(true);
    layout->addWidget(summary_);
    table_->setModel(&model_);
    table_->setAccessibleName(tr("Errors of the scenario"));
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->setSelectionMode(QAbstractItemView::SingleSelection);
    table_->setTabKeyNavigation(false);
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setDefaultSectionSize(table_->fontMetrics().height() + 6);
    table_->horizontalHeader()->setStretchLastSection(true);
    table_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Ignored);
    table_->setMinimumHeight(70);
    table_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);  // the rest is told below
    layout->addWidget(table_, 2);
    whole_->setReadOnly(true);
    whole_->setAccessibleName(tr("The selected error in full"));
    whole_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    whole_->setTabChangesFocus(true);
    whole_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Ignored);
    whole_->setMinimumHeight(90);
    layout->addWidget(whole_, 3);
    layout->addLayout(buttons_);
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& now) { show_row(now.row()); });
    const auto choose = [this](const QModelIndex& index) { Q_EMIT chosen(model_.at(index.row())); };
    connect(table_, &QTableView::activated, this, choose);
    connect(table_, &QTableView::clicked, this, choose);
    show_answer(nullptr);
}

void ProblemsPane::show_answer(const AnswerPtr& answer) {
    answer_ = answer;
    model_.show(answer ? answer->errors : std::vector<plan::Diagnostic>{});
    const int errors = model_.rowCount();
    QString text;
    if (answer && !answer->failure.empty())
        text = QString::fromStdString(answer->failure);
    else if (answer)
        text = errors == 0
                   ? tr("No errors.")
                   : tr("Errors: %1. Nothing is simulated until they are gone.").arg(errors);
    summary_->setText(text);
    table_->setVisible(errors > 0);
    whole_->setVisible(errors > 0);
    table_->resizeColumnsToContents();
    if (errors > 0)
        table_->selectRow(0);
    else
        show_row(-1);
}

void ProblemsPane::show_row(int row) {
    while (QLayoutItem* item = buttons_->takeAt(0)) {
        item->widget()->deleteLater();
        item->widget()->hide();
        delete item;
    }
    if (row < 0 || row >= model_.rowCount()) return whole_->clear();
    whole_->setPlainText(model_.data(model_.index(row, 0), Qt::UserRole).toString());
    const auto number = static_cast<std::size_t>(row);
    if (number >= answer_->offers.size()) return;
    for (const Offer& offer : answer_->offers[number]) {
        const QString label = QString::fromStdString(offer.label);
        auto* button = new QPushButton(tr("Fix: %1").arg(label), this);
        button->setToolTip(tr("Change the scenario so; Undo takes it back"));
        connect(button, &QPushButton::clicked, this,
                [this, label, text = QString::fromStdString(offer.text)] {
                    Q_EMIT offered(text, label);
                });
        buttons_->addWidget(button);
    }
}

}  // namespace orrery::gui
