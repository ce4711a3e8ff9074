// The errors of a scenario, each with all that it says, and its ways out as buttons.
#pragma once

#include <QPlainTextEdit>
#include <QTableView>
#include <QWidget>

#include "gui/scenario/answer.hpp"
#include "gui/scenario/diagnostics_model.hpp"

class QLabel;
class QVBoxLayout;

namespace orrery::gui {

class ProblemsPane : public QWidget {
    Q_OBJECT

  public:
    explicit ProblemsPane(QWidget* parent = nullptr);

    void show_answer(const AnswerPtr& answer);
    DiagnosticsModel& model() { return model_; }
    QTableView& table() { return *table_; }

  Q_SIGNALS:
    void chosen(const orrery::plan::Diagnostic& diagnostic);  // to be shown in the text
    void offered(const QString& text, const QString& label);  // the whole scenario, mended

  private:
    void show_row(int row);

    AnswerPtr answer_;
    DiagnosticsModel model_;
    QLabel* summary_;
    QTableView* table_;
    QPlainTextEdit* whole_;
    QVBoxLayout* buttons_;
};

}  // namespace orrery::gui
