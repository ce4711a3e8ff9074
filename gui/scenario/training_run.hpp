// Follows a run of `orrery train`: what it says of each step as it goes, and why it ended. The run
// writes files (run_record.hpp), which are read as they grow: one that this program has not started
// is followed like one that it has, and a run that dies takes nothing with it.
#pragma once

#include <optional>
#include <vector>

#include <QFile>
#include <QObject>
#include <QTimer>

#include "gui/scenario/run_record.hpp"

namespace orrery::gui {

// What one step came to; 0 where the run does not say.
struct TrainedStep {
    int step = 0;
    double loss = 0;
    double grad_norm = 0;
    double time_s = 0;
    double tokens_per_s = 0;
    double mfu = 0;
};

// Bytes by rank, as the run's first and last events have them; empty: not said.
struct TrainedMemory {
    std::vector<double> arena;       // planned
    std::vector<double> high_water;  // of it, in use at most
    std::vector<double> other;       // of the process
};

// Lines of a file that grows, from its beginning.
class GrowingFile {
  public:
    explicit GrowingFile(const QString& path) : file_(path) {}

    // Whole lines that have come since, at most so many bytes of them: one call does not stop a
    // window.
    QList<QByteArray> lines();
    bool has_more() const { return more_; }
    QByteArray rest() const { return partial_; }  // of a line that is not whole

  private:
    static constexpr qint64 kMostBytes = 1 << 20;

    QFile file_;
    QByteArray partial_;
    bool more_ = false;
};

class TrainingRun : public QObject {
    Q_OBJECT

  public:
    explicit TrainingRun(QObject* parent = nullptr);
    // The run goes on.
    ~TrainingRun() override;

    // Starts the record's command, keeps the record, and follows the run.
    void start(RunRecord record);
    // From its beginning, a run that has begun before, or has ended.
    void follow(const RunRecord& record);
    void let_go();  // it goes on, and is not followed any more
    // As Ctrl+C does: the step in work is finished, and a checkpoint written where there are any.
    void stop();
    // Is followed, and has not ended as far as is known.
    bool is_running() const { return following_; }
    bool can_be_stopped() const { return following_ && record_.process.is_alive(); }
    const RunRecord& record() const { return record_; }

  Q_SIGNALS:
    void began(int steps);
    void stepped(const orrery::gui::TrainedStep& step);
    void remembered(const orrery::gui::TrainedMemory& memory);
    // Something is wrong with the run, or is not so any more (docs/train.md).
    void ailed(const QString& message, bool begins);
    void said(const QString& line);  // what is meant for people, and events that are no steps
    void ended(const QString& verdict, bool well);  // "done", or what happened

  private:
    static constexpr int kLookMs = 100;

    void look();
    void read();
    void read_event(const QByteArray& line);
    void read_words(const QByteArray& line);
    void finish();

    RunRecord record_;
    std::optional<GrowingFile> events_, words_;
    QTimer timer_;
    bool following_ = false;
    QString last_words_;            // of the program, for a verdict
    bool said_its_end_ = false;     // an event that is the last one
    bool interrupted_ = false;      // by that event
    std::optional<int> exit_code_;  // by that event, or by the process
};

}  // namespace orrery::gui
