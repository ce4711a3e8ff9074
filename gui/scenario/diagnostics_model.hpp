// The errors of a scenario as a table: code, place, what is wrong. Everything else that a
// diagnostic says is in its tooltip and, for whoever shows it whole, under Qt::UserRole.
#pragma once

#include <vector>

#include <QAbstractTableModel>

#include "plan/scenario/diagnostic.hpp"

namespace orrery::gui {

class DiagnosticsModel : public QAbstractTableModel {
    Q_OBJECT

  public:
    enum Column { code, place, message, columns };

    using QAbstractTableModel::QAbstractTableModel;

    void show(std::vector<plan::Diagnostic> diagnostics);
    const plan::Diagnostic& at(int row) const {
        return diagnostics_[static_cast<std::size_t>(row)];
    }

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

  private:
    std::vector<plan::Diagnostic> diagnostics_;
};

}  // namespace orrery::gui
