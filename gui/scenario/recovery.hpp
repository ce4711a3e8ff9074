// What has been typed and not been saved, kept on the disk while it is edited: a program that is
// killed leaves it to the next one. A file per editor, locked as long as its editor lives.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <QDateTime>
#include <QLockFile>
#include <QString>

namespace orrery::gui {

// What an editor that is gone has left.
struct Unsaved {
    QString path;  // of the scenario; empty: it had no file yet
    QString text;
    QDateTime time;  // of the last edit that was kept
    QString file;    // that it lies in
};

class Recovery {
  public:
    // Nothing is written before the first keep().
    explicit Recovery(QString folder);
    ~Recovery();  // an editor that ends in order has asked; what it kept goes
    Recovery(const Recovery&) = delete;
    Recovery& operator=(const Recovery&) = delete;

    // Whole and on the disk when this returns, or trace::TraceFileError (storage).
    void keep(const QString& path, const QString& text);
    void forget();  // all is saved, or not wanted

    // Of editors that live no more, newest first. A file that is no such thing is left alone.
    static std::vector<Unsaved> left_behind(const QString& folder);
    static void discard(const Unsaved& unsaved);

    // Where the user's programs keep such.
    static QString default_folder();

  private:
    QString folder_;
    QString file_;
    std::unique_ptr<QLockFile> lock_;
};

}  // namespace orrery::gui
