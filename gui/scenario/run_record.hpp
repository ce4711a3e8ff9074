// A run of `orrery train` that this application has started: the folder that holds what it says,
// and the process. It is written to files, not to this program, so that it goes on when the program
// ends, however it ends, and the next one finds it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <QDateTime>
#include <QStringList>

namespace orrery::gui {

// What identifies a process for good: a number alone is given again to another.
struct RunProcess {
    std::int64_t id = 0;      // 0: none that is known, as of a job of Slurm's
    std::uint64_t since = 0;  // field 22 of /proc/ID/stat, clock ticks since boot

    bool is_alive() const;
    static RunProcess of(std::int64_t id);
};

struct RunRecord {
    QString folder;  // empty: event lines of a run that another has started
    QString events;  // file of its lines of JSON (docs/train.md)
    QString words;   // file of its stderr; empty: none
    QString trace;   // file of the measured step, once it is there; empty: none
    QString scenario;
    QStringList command;
    QDateTime begun;
    int stop_signal = 0;  // that ends it after its step
    RunProcess process;

    // A fresh folder in `runs`; of those of runs that have ended the newest `kKept` stay. Throws
    // trace::TraceFileError (storage).
    static RunRecord fresh(const QString& runs);
    // Of a file of event lines alone.
    static RunRecord of_events(const QString& file);
    // Newest first; what is no record is left alone.
    static std::vector<RunRecord> all_in(const QString& runs);

    void keep() const;  // as all_in reads it; throws trace::TraceFileError (storage)

    static constexpr std::size_t kKept = 10;
};

// Starts the record's command in a session of its own, with its files as stdout and stderr, and
// fills in the process. Empty, or why it could not be started.
QString start_process(RunRecord& record);

// How a process has ended that this program has started: as `$?` of a shell has it. Nothing while
// it runs, or where that cannot be known.
std::optional<int> exit_code_of(const RunProcess& process);

}  // namespace orrery::gui
