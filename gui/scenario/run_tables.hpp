// The tables of a run's days: where its wall clock goes, and what would help. A last column without
// text has what a bar shows of the row.
#pragma once

#include <QAbstractTableModel>

#include "cli/run_parts.hpp"
#include "gui/scenario/days_run.hpp"

namespace orrery::gui {

// What a bar shows, under BarRole: from where to where of its width, and in which colour.
struct RunBar {
    enum class Colour { part, whole, gain };

    double begin = 0, end = 0;
    Colour colour = Colour::part;
    cli::RunPart part;  // of colour part
};

class RunTable : public QAbstractTableModel {
    Q_OBJECT

  public:
    static constexpr int BarRole = Qt::UserRole;

    using QAbstractTableModel::QAbstractTableModel;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

  protected:
    struct Row {
        QStringList texts;  // by column, the bar's left out
        RunBar bar;
    };
    void set_rows(QStringList heads, std::vector<Row> rows);

  private:
    QStringList heads_;
    std::vector<Row> rows_;
};

// The waterfall: each part begins where the one above ends, and the last row is the run.
class RunPartsTable : public RunTable {
    Q_OBJECT

  public:
    using RunTable::RunTable;
    void show(const DaysPtr& days);  // null, or without a goodput: no rows
};

// What would help, the most first; bars are gains, the largest as wide as the column.
class RunChangesTable : public RunTable {
    Q_OBJECT

  public:
    using RunTable::RunTable;
    void show(const DaysPtr& days);
};

}  // namespace orrery::gui

Q_DECLARE_METATYPE(orrery::gui::RunBar)
