// The best layouts of the scenario's model on its cluster: progress, the front of step time and
// memory, and a table of which a click tries one in the editor.
#pragma once

#include <functional>

#include <QTableWidget>
#include <QWidget>

#include "gui/scenario/search_run.hpp"
#include "sim/whatif/fixes.hpp"

class QLabel;
class QProgressBar;
class QPushButton;

namespace orrery::gui {

class FrontChart;

class SearchPane : public QWidget {
    Q_OBJECT

  public:
    // `saved_path`: the file that holds what the editor shows; empty where none does.
    explicit SearchPane(std::function<QString()> saved_path, QWidget* parent = nullptr);

    void refresh();
    bool is_running() const { return run_.is_running(); }
    QTableWidget& table() { return *table_; }
    FrontChart& front() { return *front_; }
    const SearchFoundPtr& found() const { return found_; }

  Q_SIGNALS:
    void wanted(const std::vector<orrery::sim::Setting>& settings);

  private:
    void show_found(const SearchFoundPtr& found);
    void try_row(int row);
    QString words_of(int point) const;  // of the chart
    void try_point(int point);

    std::function<QString()> saved_path_;
    SearchRun run_;
    SearchFoundPtr found_;
    QPushButton *start_, *stop_, *try_;
    QProgressBar* progress_;
    QLabel* state_;
    FrontChart* front_;
    QTableWidget* table_;
};

// Of overrides "key=value".
std::vector<sim::Setting> settings_of(const std::vector<std::string>& sets);

}  // namespace orrery::gui
