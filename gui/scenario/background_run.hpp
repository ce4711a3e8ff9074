// Work on a thread of its own, one at a time: with progress, and stopped when it is not wanted any
// more.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include <QObject>

namespace orrery::gui {

class BackgroundRun : public QObject {
    Q_OBJECT

  public:
    ~BackgroundRun() override;  // stops it and waits

    void stop() { stop_ = true; }
    bool is_running() const { return running_; }

  Q_SIGNALS:
    void progressed(double share);  // of the work

  protected:
    explicit BackgroundRun(QObject* parent) : QObject(parent) {}

    // `work` is done on the thread, and knows nothing of this object but what is below; `done`
    // after it on this one's. Nothing where some is under way.
    void perform(std::function<void()> work, std::function<void()> done);
    // For `work`.
    const std::atomic<bool>& stopped() const { return stop_; }
    void tell(double share);

  private:
    std::thread thread_;
    std::atomic<bool> stop_{false};
    bool running_ = false;
};

}  // namespace orrery::gui
