// A scenario for each value of one key, as `orrery sweep` predicts them, on a thread of its own:
// with progress, and stopped when it is not wanted any more.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/sweep.hpp"
#include "gui/scenario/answer.hpp"
#include "gui/scenario/background_run.hpp"

namespace orrery::gui {

struct SweepFound {
    cli::ScenarioInput input;
    std::vector<cli::Vary> varies;  // one
    // In the order of the values; of a sweep that was stopped those that had been predicted.
    std::vector<cli::SweepPoint> points;
    bool stopped = false;
    std::string failure;  // why there is no result
};
using SweepFoundPtr = std::shared_ptr<const SweepFound>;

class SweepRun : public BackgroundRun {
    Q_OBJECT

  public:
    explicit SweepRun(QObject* parent = nullptr) : BackgroundRun(parent) {}

    // `vary`: "KEY=VALUES" as --vary takes it. One at a time.
    void start(const ScenarioText& scenario, const std::string& vary);

  Q_SIGNALS:
    void found(orrery::gui::SweepFoundPtr found);

  private:
    void predict_all(SweepFound& found, const std::string& vary);
};

}  // namespace orrery::gui
