// A table of answers, of a search, a sweep, a sizing or a run: whole rows, chosen one at a time,
// that nothing edits; Tab leaves it.
#pragma once

#include <QTableView>

namespace orrery::gui {

void dress_answers(QTableView& table);

}  // namespace orrery::gui
