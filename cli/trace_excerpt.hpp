// The options by which a trace for a viewer is made small enough to be opened, the same wherever
// such a trace is written.
#pragma once

#include <string>
#include <vector>

#include "cli/command_files.hpp"
#include "cli/console.hpp"
#include "trace/trace.hpp"

namespace CLI {
class App;
}

namespace orrery::cli {

class TraceExcerpt {
  public:
    void declare(CLI::App& app);
    bool any() const;
    // Throws UsageError for a value that is none, and for a trace in orrery's own format, from
    // which everything else is computed: that is written whole.
    void check(const std::string& path) const;
    // Writes what is chosen of the trace, and says on console.err what was left out. Throws
    // UsageError where one track alone is larger than --max-size, or nothing is chosen.
    void write(const trace::Trace& trace, const OutputPath& path, const std::string& command,
               Console& console) const;

  private:
    std::vector<std::string> ranks_, steps_, kinds_;
    std::string most_;
};

}  // namespace orrery::cli
