#include "gui/scenario/resimulation.hpp"

#include <utility>

namespace orrery::gui {
namespace {

ReasonsPtr reasons_or_failure(const AnswerPtr& answer, const std::atomic<bool>& stop) {
    try {
        return reasons_of(answer, stop);
    } catch (const sim::Stopped&) {
        throw;
    } catch (const std::exception& error) {
        auto reasons = std::make_shared<Reasons>();
        reasons->answer = answer;
        reasons->failure = error.what();
        return reasons;
    }
}

}  // namespace

Resimulation::Resimulation(QObject* parent) : QObject(parent), thread_([this] { work(); }) {}

Resimulation::~Resimulation() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
        stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
}

void Resimulation::ask(ScenarioText scenario) {
    {
        const std::lock_guard lock(mutex_);
        waiting_ = std::move(scenario);
        ++asked_;
        stop_ = true;
    }
    wake_.notify_one();
    working_ = true;
    Q_EMIT begun();
}

void Resimulation::cancel() {
    {
        const std::lock_guard lock(mutex_);
        waiting_.reset();
        ++asked_;
        stop_ = true;
    }
    working_ = false;
    Q_EMIT idle();
}

void Resimulation::work() {
    for (;;) {
        ScenarioText scenario;
        std::uint64_t number = 0;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return ends_ || waiting_; });
            if (ends_) return;
            scenario = std::move(*waiting_);
            waiting_.reset();
            number = asked_;
            stop_ = false;
        }
        try {
            perform(scenario, number);
        } catch (const sim::Stopped&) {
            continue;  // another question waits, or nobody does
        }
    }
}

// In the window's thread, unless a newer question has been asked by then.
template <typename Told>
void Resimulation::tell(std::uint64_t number, Told told) {
    QMetaObject::invokeMethod(
        this,
        [this, number, told = std::move(told)] {
            if (number == asked_) told();  // only this thread changes asked_
        },
        Qt::QueuedConnection);
}

void Resimulation::perform(const ScenarioText& scenario, std::uint64_t number) {
    const AnswerPtr answer = answer_of(scenario, stop_, [&](const Estimate& estimate) {
        tell(number, [this, estimate] { Q_EMIT estimated(estimate); });
    });
    tell(number, [this, answer] { Q_EMIT answered(answer); });
    if (answer->predicted()) {
        const ReasonsPtr reasons = reasons_or_failure(answer, stop_);
        tell(number, [this, reasons] { Q_EMIT explained(reasons); });
    }
    tell(number, [this] {
        working_ = false;
        Q_EMIT idle();
    });
}

}  // namespace orrery::gui
