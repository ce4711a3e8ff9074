#include "gui/window/table_csv.hpp"

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QCoreApplication>
#include <QFileDialog>
#include <QMessageBox>

#include "cli/csv_cell.hpp"
#include "gui/window/export_file.hpp"

namespace orrery::gui {
namespace {

QString tr(const char* text) {
    return QCoreApplication::translate("TableCsv", text);
}

constexpr QLatin1String kCopy("copy as CSV"), kSave("save as CSV");

void ask_save(QWidget* window, const std::string& text) {
    const QString path =
        QFileDialog::getSaveFileName(window, tr("Save the table as CSV"), {}, tr("Tables (*.csv)"));
    if (path.isEmpty()) return;
    const QString why = write_csv(text, path);
    if (!why.isEmpty()) QMessageBox::warning(window, tr("Orrery"), tr("Not saved: %1").arg(why));
}

bool trigger_of_focused(QLatin1String name) {
    const QWidget* widget = QApplication::focusWidget();
    if (widget == nullptr) return false;
    for (QAction* action : widget->actions()) {
        if (action->objectName() != name) continue;
        action->trigger();
        return true;
    }
    return false;
}

}  // namespace

std::string csv_of(const QTableView& table) {
    const QAbstractItemModel& model = *table.model();
    std::string text;
    const auto add_line = [&](const auto& text_at) {
        std::string line;
        for (int column = 0; column < model.columnCount(); ++column)
            if (model.headerData(column, Qt::Horizontal).isValid())
                line += ',' + cli::csv_cell(text_at(column).toString().toStdString());
        text += line.substr(line.empty() ? 0 : 1) + '\n';
    };
    add_line([&](int column) { return model.headerData(column, Qt::Horizontal); });
    for (int row = 0; row < model.rowCount(); ++row)
        add_line([&](int column) { return model.index(row, column).data(); });
    return text;
}

QString write_csv(const std::string& text, const QString& path) {
    const std::string heads = text.substr(0, text.find('\n') + 1);
    return write_export(path, csv_file(heads), QByteArray::fromStdString(text));
}

void offer_csv(QTableView& table, std::function<std::string()> text) {
    if (!text) text = [&table] { return csv_of(table); };
    auto* copy = new QAction(tr("Copy as CSV"), &table);
    copy->setObjectName(kCopy);
    auto* save = new QAction(tr("Save as CSV…"), &table);
    save->setObjectName(kSave);
    QObject::connect(copy, &QAction::triggered, &table, [text] {
        QApplication::clipboard()->setText(QString::fromStdString(text()));
    });
    QObject::connect(save, &QAction::triggered, &table,
                     [&table, text] { ask_save(table.window(), text()); });
    table.addActions({copy, save});
    table.setContextMenuPolicy(Qt::ActionsContextMenu);
}

bool copy_csv_of_focused() {
    return trigger_of_focused(kCopy);
}

bool save_csv_of_focused() {
    return trigger_of_focused(kSave);
}

}  // namespace orrery::gui
