#include "gui/window/details_pane.hpp"

#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

#include "cli/quantity.hpp"
#include "gui/window/table_csv.hpp"

namespace orrery::gui {
namespace {

QString time_text(Picoseconds time) {
    return QString::fromStdString(
        cli::seconds_text(static_cast<double>(time) / trace::kPsPerSecond));
}

}  // namespace

DetailsPane::DetailsPane(TimelineView* view, QWidget* parent)
    : QWidget(parent),
      first_(view),
      view_(view),
      title_(new QLabel(this)),
      table_(new QTableWidget(this)),
      go_(new QPushButton(tr("Go to what it waited for"), this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 2, 4, 2);
    layout->setSpacing(3);
    auto* top = new QHBoxLayout;
    title_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    top->addWidget(title_, 1);
    top->addWidget(go_);
    layout->addLayout(top);
    table_->setAccessibleName(tr("Details of the selection"));
    table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table_->setTabKeyNavigation(false);
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setDefaultSectionSize(table_->fontMetrics().height() + 5);
    table_->horizontalHeader()->setStretchLastSection(true);
    offer_csv(*table_);
    layout->addWidget(table_, 1);
    follow(first_);
    connect(go_, &QPushButton::clicked, this, [this] {
        if (blocker_) view_->go_to(*blocker_);
    });
    show_selection();
}

void DetailsPane::follow(TimelineView* view) {
    connect(view, &TimelineView::selection_changed, this, [this, view] {
        if (view->scene().selected || view->scene().area)
            view_ = view;
        else if (view_ == view)
            view_ = first_;
        show_selection();
    });
}

void DetailsPane::add_row(const QStringList& cells) {
    const int row = table_->rowCount();
    table_->insertRow(row);
    for (int column = 0; column < cells.size(); ++column) {
        auto* item = new QTableWidgetItem(cells[column]);
        if (column > 0 && table_->columnCount() > 2)
            item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
        table_->setItem(row, column, item);
    }
}

void DetailsPane::show_selection() {
    table_->clear();
    table_->setRowCount(0);
    table_->setColumnCount(0);
    blocker_.reset();
    go_->hide();
    title_->setText(tr("Click a box, or drag over an area, to see what it holds."));
    if (view_->timeline() == nullptr) return;
    if (view_->scene().area)
        show_area(*view_->scene().area);
    else if (const std::optional<Details> details = view_->details())
        show_details(*details);
    table_->resizeColumnsToContents();
    table_->scrollToTop();
}

void DetailsPane::show_details(const Details& details) {
    title_->setText(
        QStringLiteral("<b>%1</b>").arg(QString::fromStdString(details.title).toHtmlEscaped()));
    table_->setColumnCount(2);
    table_->setHorizontalHeaderLabels({tr("what"), tr("value")});
    for (const auto& [what, value] : details.lines)
        add_row({QString::fromStdString(what), QString::fromStdString(value)});
    blocker_ = details.blocker;
    go_->setVisible(blocker_.has_value());
}

void DetailsPane::show_area(const Area& area) {
    const Aggregate aggregate = aggregate_of(*view_->timeline(), area);
    const QString rows =
        area.ranks.size() == 1
            ? QString::fromStdString(view_->timeline()->ranks()[area.ranks.front()].name)
            : tr("%1 rows").arg(area.ranks.size());
    title_->setText(tr("<b>%1</b> of %2, from %3 to %4 of the step")
                        .arg(time_text(aggregate.stretch.length()), rows,
                             time_text(aggregate.stretch.from - view_->timeline()->window().from),
                             time_text(aggregate.stretch.to - view_->timeline()->window().from)));
    table_->setColumnCount(3);
    table_->setHorizontalHeaderLabels({tr("kind"), tr("time of the rows"), tr("share")});
    const auto selected = static_cast<double>(aggregate.selected);
    for (const KindTime& kind : aggregate.kinds)
        add_row(
            {QString::fromStdString(text_of(kind.kind)), time_text(kind.time),
             QString::fromStdString(cli::percent_text(static_cast<double>(kind.time) / selected))});
    table_->setToolTip(
        tr("Of what waits for pipeline peers, the report parts what unequal stages "
           "cause, as imbalance."));
    add_row({tr("selected"), time_text(aggregate.selected),
             aggregate.selected > 0 ? tr("100 %") : QString()});
}

}  // namespace orrery::gui
