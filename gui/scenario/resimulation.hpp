// Simulates what the editor holds, on a thread of its own: a new text replaces one that waits and
// stops one that is in work. The window hears of answers in its own thread, in the order in which
// it asked, and never of one that it has replaced.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include <QObject>

#include "gui/scenario/answer.hpp"

namespace orrery::gui {

class Resimulation : public QObject {
    Q_OBJECT

  public:
    explicit Resimulation(QObject* parent = nullptr);
    ~Resimulation() override;  // stops what is in work and waits for that

    void ask(ScenarioText scenario);
    void cancel();  // nothing that was asked before is answered
    bool is_working() const { return working_; }

  Q_SIGNALS:
    void begun();
    void estimated(orrery::gui::Estimate estimate);   // before the answer, mostly
    void answered(orrery::gui::AnswerPtr answer);     // with a prediction or with errors
    void explained(orrery::gui::ReasonsPtr reasons);  // some time after an answer with a prediction
    void idle();                                      // all that was asked has been answered

  private:
    void work();
    void perform(const ScenarioText& scenario, std::uint64_t number);
    template <typename Told>
    void tell(std::uint64_t number, Told told);

    std::mutex mutex_;
    std::condition_variable wake_;
    std::optional<ScenarioText> waiting_;
    std::uint64_t asked_ = 0;  // number of the latest question; a new one makes the others stale
    bool ends_ = false;
    std::atomic<bool> stop_{false};
    bool working_ = false;  // of the window's thread
    std::thread thread_;
};

}  // namespace orrery::gui
