// A scenario for each value of one key, as `orrery sweep` predicts them, on a thread of its own:
// with progress, and stopped when it is not wanted any more.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <QObject>

#include "cli/sweep.hpp"
#include "gui/scenario/answer.hpp"

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

class SweepRun : public QObject {
    Q_OBJECT

  public:
    explicit SweepRun(QObject* parent = nullptr) : QObject(parent) {}
    ~SweepRun() override;  // stops it and waits

    // `vary`: "KEY=VALUES" as --vary takes it. One at a time.
    void start(const ScenarioText& scenario, const std::string& vary);
    void stop() { stop_ = true; }
    bool is_running() const { return running_; }

  Q_SIGNALS:
    void progressed(double share);  // of the points
    void found(orrery::gui::SweepFoundPtr found);

  private:
    void perform(SweepFound& found, const std::string& vary);

    std::thread thread_;
    std::atomic<bool> stop_{false};
    bool running_ = false;
};

}  // namespace orrery::gui
