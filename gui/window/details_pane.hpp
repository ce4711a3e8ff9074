// What is selected in the timeline: a box with all that is known of it, or an area and what it adds
// up to.
#pragma once

#include <QTableWidget>
#include <QWidget>

#include "gui/window/timeline_view.hpp"

class QLabel;
class QPushButton;

namespace orrery::gui {

class DetailsPane : public QWidget {
    Q_OBJECT

  public:
    explicit DetailsPane(TimelineView* view, QWidget* parent = nullptr);

    // Shows what is selected there as well, whichever of the views had a selection last.
    void follow(TimelineView* view);
    QTableWidget& table() { return *table_; }

  private:
    void show_selection();
    void show_details(const Details& details);
    void show_area(const Area& area);
    void add_row(const QStringList& cells);

    TimelineView* const first_;
    TimelineView* view_;  // of which the selection is shown
    QLabel* title_;
    QTableWidget* table_;
    QPushButton* go_;
    std::optional<OpPlace> blocker_;
};

}  // namespace orrery::gui
