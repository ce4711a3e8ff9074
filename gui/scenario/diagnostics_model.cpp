#include "gui/scenario/diagnostics_model.hpp"

namespace orrery::gui {
namespace {

QString place_of(const plan::Diagnostic& diagnostic) {
    if (diagnostic.line > 0)
        return QStringLiteral("%1:%2").arg(diagnostic.line).arg(diagnostic.column);
    return QString::fromStdString(diagnostic.pointer.empty() ? diagnostic.file
                                                             : diagnostic.pointer);
}

}  // namespace

void DiagnosticsModel::show(std::vector<plan::Diagnostic> diagnostics) {
    beginResetModel();
    diagnostics_ = std::move(diagnostics);
    endResetModel();
}

int DiagnosticsModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(diagnostics_.size());
}

int DiagnosticsModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : columns;
}

QVariant DiagnosticsModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount()) return {};
    const plan::Diagnostic& diagnostic = at(index.row());
    if (role == Qt::ToolTipRole || role == Qt::UserRole)
        return QString::fromStdString(plan::format_text({diagnostic}));
    if (role != Qt::DisplayRole) return {};
    switch (index.column()) {
        case code:
            return QString::fromStdString(diagnostic.code);
        case place:
            return place_of(diagnostic);
        case message:
            return QString::fromStdString(diagnostic.message);
        default:
            return {};
    }
}

QVariant DiagnosticsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
    switch (section) {
        case code:
            return tr("code");
        case place:
            return tr("place");
        case message:
            return tr("what is wrong");
        default:
            return {};
    }
}

}  // namespace orrery::gui
