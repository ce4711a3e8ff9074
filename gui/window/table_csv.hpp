// What a table shows, as CSV for a spreadsheet.
#pragma once

#include <functional>
#include <string>

#include <QTableView>

namespace orrery::gui {

// The heads and all rows, as they are read; columns without a head are left out.
std::string csv_of(const QTableView& table);

// Gives a table a context menu: copy as CSV, save as CSV. `text`: what is written instead of what
// is read, such as numbers without their units.
void offer_csv(QTableView& table, std::function<std::string()> text = {});

// Of the table that has the keyboard, which offers that; false: none does.
bool copy_csv_of_focused();
bool save_csv_of_focused();

// Empty, or why not. Nothing is left half-written.
QString write_csv(const std::string& text, const QString& path);

}  // namespace orrery::gui
