// Lays two steps over each other and says in words how they differ, on a thread of its own, since
// millions of ops take a second: of the newest two that were asked about, the others are stopped.
#pragma once

#include <memory>
#include <string>

#include "gui/scenario/answer.hpp"
#include "gui/scenario/background_run.hpp"
#include "trace/alignment.hpp"

namespace orrery::gui {

// A step that is held, and the one that is shown.
struct TwoSteps {
    AnswerPtr held;
    std::shared_ptr<const Timeline> shown;
    AnswerPtr answer;  // that it is of; null: it is of the file
    std::string file;
};
using TwoStepsPtr = std::shared_ptr<const TwoSteps>;

struct AlignedSteps {
    TwoStepsPtr steps;
    // Of the steps, which live on here; null: it failed, and the text says why.
    std::shared_ptr<const trace::Alignment> alignment;
    std::string text;  // empty: of a predicted step of a file there is no report
};

class ComparisonRun : public BackgroundRun {
    Q_OBJECT

  public:
    explicit ComparisonRun(QObject* parent) : BackgroundRun(parent) {}

    void ask(TwoSteps steps);
    void cancel();  // nothing that was asked before is answered
    bool is_asked() const { return asked_ != nullptr; }

  Q_SIGNALS:
    void compared(const orrery::gui::AlignedSteps& steps);

  private:
    void start();

    TwoStepsPtr asked_;  // the newest, not answered yet
};

}  // namespace orrery::gui
