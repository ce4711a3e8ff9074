// Which run is to be followed: those that were started here, newest first, or a file of the lines
// of JSON that any other run writes.
#pragma once

#include <vector>

#include <QDialog>
#include <QListWidget>

#include "gui/scenario/run_record.hpp"

class QPushButton;

namespace orrery::gui {

class AttachDialog : public QDialog {
    Q_OBJECT

  public:
    explicit AttachDialog(std::vector<RunRecord> runs, QWidget* parent = nullptr);

    QListWidget& list() { return *list_; }

  Q_SIGNALS:
    void chosen(const orrery::gui::RunRecord& run);
    void wants_file();

  private:
    void attach();

    std::vector<RunRecord> runs_;
    QListWidget* list_;
    QPushButton* attach_;
};

}  // namespace orrery::gui
