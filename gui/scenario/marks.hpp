// Marks that a person has set in the timeline of a file, kept in a folder of the user's: the file
// itself is not touched by them.
#pragma once

#include <vector>

#include <QString>

#include "trace/trace.hpp"

namespace orrery::gui {

class Marks {
  public:
    // `file`: that they are kept in.
    explicit Marks(QString file) : file_(std::move(file)) {}

    // Of a scenario or a trace by its path, counted from the start of its step, ascending.
    std::vector<trace::Picoseconds> of(const QString& path) const;
    // In place of those that were; throws trace::TraceFileError (storage). Those of the files that
    // were marked longest ago go, beyond `kMostFiles`.
    void keep(const QString& path, const std::vector<trace::Picoseconds>& marks) const;

    static constexpr std::size_t kMostFiles = 200;

  private:
    QString file_;
};

}  // namespace orrery::gui
