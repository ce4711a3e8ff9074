// --chakra and --chakra-ranks: a plan's step as Chakra execution traces, for plan and simulate
// alike.
#pragma once

#include <string>
#include <vector>

#include "cli/command_files.hpp"
#include "plan/ir/plan.hpp"
#include "trace/trace.hpp"

namespace CLI {
class App;
}

namespace orrery::cli {

class ChakraOutput {
  public:
    void declare(CLI::App& app, CommandFiles& files);
    bool wanted() const { return !folder_.empty(); }
    // Throws UsageError for --chakra-ranks without --chakra.
    void require_sense() const;
    // `priced` is of this plan, from the file `priced_file` or, where that is empty, simulated;
    // null: nodes say no times. Throws UsageError for ranks that are none, or of which it says
    // nothing, and for more than a folder is to hold.
    void write(const plan::Plan& plan, const trace::Trace* priced,
               const std::string& priced_file = "") const;

  private:
    OutputPath folder_;
    std::string ranks_;
};

}  // namespace orrery::cli
