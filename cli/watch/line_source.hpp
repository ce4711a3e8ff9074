// Where the lines of a run come from while it goes on: a file that grows, standard input, or what a
// command prints (`ssh host tail -n +1 -F run.jsonl`). Nothing here waits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace orrery::cli {

class LineSource {
  public:
    virtual ~LineSource() = default;
    // Whole lines that have come since, up to some megabytes; none: there is nothing now.
    virtual std::vector<std::string> lines() = 0;
    // Nothing will come any more: a pipe was closed. A file may always grow.
    virtual bool closed() const = 0;
    // Why it cannot be read now; empty: it can. A file that is not there yet may come.
    virtual std::string problem() const { return ""; }
    // Lines that were too long to be kept.
    std::int64_t dropped() const { return dropped_; }

  protected:
    // Cuts what has come into lines.
    void cut(std::string_view bytes, std::vector<std::string>& lines);
    void forget_partial() { partial_.clear(); }

  private:
    std::string partial_;  // of a line that is not whole
    bool too_long_ = false;
    std::int64_t dropped_ = 0;
};

// A file that is replaced or cut off is read anew from its beginning.
std::unique_ptr<LineSource> file_source(const std::string& path);
std::unique_ptr<LineSource> stdin_source();
// By the shell, as it was typed. Throws UsageError where it cannot be started.
std::unique_ptr<LineSource> command_source(const std::string& command);

}  // namespace orrery::cli
