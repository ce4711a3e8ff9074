#include "gui/window/shortcuts_sheet.hpp"

#include <QDialogButtonBox>
#include <QHeaderView>
#include <QTableWidget>
#include <QVBoxLayout>

#include "gui/window/timeline_view.hpp"

namespace orrery::gui {

QString keys_of(const QAction& action) {
    QStringList keys;
    for (const QKeySequence& key : action.shortcuts())
        keys << key.toString(QKeySequence::NativeText);
    return keys.join(QStringLiteral(", "));
}

ShortcutsSheet::ShortcutsSheet(const std::vector<QAction*>& actions, QWidget* parent)
    : QDialog(parent) {
    setWindowTitle(tr("Shortcuts"));
    auto* table = new QTableWidget(0, 2);
    table->setAccessibleName(tr("Shortcuts"));
    table->setHorizontalHeaderLabels({tr("keys, mouse"), tr("what they do")});
    table->verticalHeader()->hide();
    table->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
    table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table->horizontalHeader()->setStretchLastSection(true);
    const auto add = [&](const QString& keys, const QString& what) {
        const int row = table->rowCount();
        table->insertRow(row);
        table->setItem(row, 0, new QTableWidgetItem(keys));
        table->setItem(row, 1, new QTableWidgetItem(what));
    };
    for (const QAction* action : actions)
        if (!action->shortcuts().isEmpty())
            add(keys_of(*action), action->text().remove(QLatin1Char('&')));
    for (const auto& [mouse, what] : TimelineView::mouse_help())
        add(mouse, what);
    table->resizeColumnToContents(0);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    auto* layout = new QVBoxLayout(this);
    layout->addWidget(table);
    layout->addWidget(buttons);
    resize(620, 640);
}

}  // namespace orrery::gui
