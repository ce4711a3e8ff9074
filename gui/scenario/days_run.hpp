// How long the run of a scenario takes with failures and checkpoints, as `orrery goodput` answers
// it, on a thread of its own: of the newest answer that was asked about, the others are stopped.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/goodput_text.hpp"
#include "gui/scenario/answer.hpp"
#include "gui/scenario/background_run.hpp"

namespace orrery::gui {

// Shared between threads, and never changed once it is there. The step is the answer's.
struct Days {
    AnswerPtr answer;
    plan::ReadResult read;  // with the failures that are assumed
    std::string assumed;    // preset of them; empty: the scenario says
    sim::GoodputOptions options;
    std::optional<sim::Goodput> goodput;
    bool without_length = false;  // there is none: neither tokens nor steps are said
    std::string failure;          // why else there is none

    // Of what is here; there must be a goodput.
    cli::GoodputReport report() const;
};
using DaysPtr = std::shared_ptr<const Days>;

// Of an answer with a prediction. `stop` becomes true: throws sim::Stopped.
DaysPtr days_of(const AnswerPtr& answer, const std::atomic<bool>& stop);

// Tokens that are proposed for a run without length: 20 for each parameter (Hoffmann et al. 2022,
// arXiv 2203.15556, table 3), to two digits.
double proposed_tokens(const sim::Prediction& prediction);

class DaysRun : public BackgroundRun {
    Q_OBJECT

  public:
    explicit DaysRun(QObject* parent = nullptr) : BackgroundRun(parent) {}

    void ask(const AnswerPtr& answer);
    void cancel();  // nothing that was asked before is answered
    bool is_asked() const { return asked_ != nullptr; }

  Q_SIGNALS:
    void found(orrery::gui::DaysPtr days);

  private:
    void start();

    AnswerPtr asked_;  // the newest, not answered yet
};

}  // namespace orrery::gui
