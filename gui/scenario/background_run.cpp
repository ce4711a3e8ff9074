#include "gui/scenario/background_run.hpp"

#include <utility>

namespace orrery::gui {

BackgroundRun::~BackgroundRun() {
    stop();
    if (thread_.joinable()) thread_.join();
}

void BackgroundRun::perform(std::function<void()> work, std::function<void()> done) {
    if (running_) return;
    if (thread_.joinable()) thread_.join();
    running_ = true;
    stop_ = false;
    thread_ = std::thread([this, work = std::move(work), done = std::move(done)] {
        work();
        QMetaObject::invokeMethod(
            this,
            [this, done] {
                running_ = false;
                done();
            },
            Qt::QueuedConnection);
    });
}

void BackgroundRun::tell(double share) {
    QMetaObject::invokeMethod(
        this, [this, share] { Q_EMIT progressed(share); }, Qt::QueuedConnection);
}

}  // namespace orrery::gui
