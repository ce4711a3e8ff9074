// A table of answers, of a search, a sweep or a sizing: whole rows, chosen one at a time, that
// nothing edits; Tab leaves it.
#pragma once

#include <QTableWidget>

namespace orrery::gui {

void dress_answers(QTableWidget& table);

}  // namespace orrery::gui
