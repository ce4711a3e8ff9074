// The sheet of shortcuts: every action of the program with its keys, and what the mouse does.
#pragma once

#include <vector>

#include <QAction>
#include <QDialog>

namespace orrery::gui {

class ShortcutsSheet : public QDialog {
    Q_OBJECT

  public:
    ShortcutsSheet(const std::vector<QAction*>& actions, QWidget* parent);
};

// "W, +, Up"
QString keys_of(const QAction& action);

}  // namespace orrery::gui
