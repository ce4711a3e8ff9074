#include "gui/scenario/run_tables.hpp"

#include <algorithm>

#include "cli/quantity.hpp"

namespace orrery::gui {
namespace {

QString words(const std::string& text) {
    return QString::fromStdString(text);
}

}  // namespace

void RunTable::set_rows(QStringList heads, std::vector<Row> rows) {
    beginResetModel();
    heads_ = std::move(heads);
    rows_ = std::move(rows);
    endResetModel();
}

int RunTable::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int RunTable::columnCount(const QModelIndex& parent) const {
    return parent.isValid() || heads_.isEmpty() ? 0 : static_cast<int>(heads_.size()) + 1;
}

QVariant RunTable::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount() || index.column() >= columnCount()) return {};
    const Row& row = rows_[static_cast<std::size_t>(index.row())];
    const bool is_bar = index.column() + 1 == columnCount();
    if (role == Qt::DisplayRole && !is_bar) return row.texts[index.column()];
    if (role == Qt::ToolTipRole || (role == Qt::AccessibleTextRole && is_bar))
        return row.texts.join(QStringLiteral("  "));
    if (role == Qt::TextAlignmentRole && index.column() > 0)
        return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    if (role == BarRole && is_bar) return QVariant::fromValue(row.bar);
    return {};
}

QVariant RunTable::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= heads_.size()) return {};
    if (role == Qt::DisplayRole) return heads_[section];
    if (role == Qt::TextAlignmentRole)
        return QVariant((section > 0 ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    return {};
}

void RunPartsTable::show(const DaysPtr& days) {
    std::vector<Row> rows;
    if (days && days->goodput) {
        const double wall_s = days->goodput->days * cli::kDay;
        double before_s = 0;
        for (const cli::RunPart& part : cli::run_parts(days->report())) {
            const double end_s = before_s + part.seconds;
            rows.push_back(
                {{words(part.name), words(cli::span_text(part.seconds)),
                  words(cli::percent_text(part.seconds / wall_s))},
                 {before_s / wall_s, std::min(1.0, end_s / wall_s), RunBar::Colour::part, part}});
            before_s = end_s;
        }
        rows.push_back({{tr("the run"), words(cli::length_text(days->goodput->days)),
                         words(cli::percent_text(1))},
                        {0, 1, RunBar::Colour::whole, {}}});
    }
    set_rows({tr("where the days go"), tr("time"), tr("share")}, std::move(rows));
}

void RunChangesTable::show(const DaysPtr& days) {
    std::vector<Row> rows;
    if (days && days->goodput) {
        const auto gain_s = [&](const sim::GoodputChange& change) {
            return std::max(0.0, days->goodput->days - change.days) * cli::kDay;
        };
        double most_s = 0;
        for (const sim::GoodputChange& change : days->goodput->changes)
            most_s = std::max(most_s, gain_s(change));
        for (const sim::GoodputChange& change : days->goodput->changes)
            rows.push_back(
                {{words(change.what), words(cli::length_text(change.days)),
                  words(cli::span_text(gain_s(change))),
                  words(cli::percent_text(change.effective_fraction))},
                 {0, most_s > 0 ? gain_s(change) / most_s : 0, RunBar::Colour::gain, {}}});
    }
    set_rows({tr("if …"), tr("time"), tr("gain"), tr("effective")}, std::move(rows));
}

}  // namespace orrery::gui
