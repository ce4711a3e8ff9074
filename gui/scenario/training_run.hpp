// A run of `orrery train` as a process: what it says of each step as it goes, and why it ended. The
// application links no runtime: a run that dies takes nothing with it.
#pragma once

#include <QObject>
#include <QProcess>
#include <QStringList>

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

class TrainingRun : public QObject {
    Q_OBJECT

  public:
    explicit TrainingRun(QObject* parent = nullptr);
    ~TrainingRun() override;  // a run that goes on is asked to stop, and waited for

    // The program and its arguments, as they will be started: orrery-run where it lies beside this
    // program, else the wrapper, which builds it first. `steps` 0: as the scenario says.
    static QStringList command(const QString& scenario, int steps, bool resume,
                               const QString& trace);
    void start(const QStringList& command);
    // As Ctrl+C does: the step in work is finished, and a checkpoint written where there are any.
    void stop();
    bool is_running() const { return process_.state() != QProcess::NotRunning; }

  Q_SIGNALS:
    void began(int steps);
    void stepped(const orrery::gui::TrainedStep& step);
    void said(const QString& line);  // what is meant for people, and events that are not steps
    void ended(const QString& verdict, bool well);  // "done", or what happened

  private:
    void read_events();
    void read_event(const QByteArray& line);
    void read_words();
    void finish();

    QProcess process_;
    QString last_words_;  // of the program, for a verdict
    bool interrupted_ = false;
};

// As a person would type it into a shell.
QString shell_text(const QStringList& command);

}  // namespace orrery::gui
