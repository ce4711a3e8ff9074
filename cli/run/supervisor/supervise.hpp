// orrery train --supervise: starts the run as a process, again from its newest checkpoint when it
// fails or stalls, and stops with a diagnosis when that leads nowhere. docs/train.md says by what
// rules.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::cli {

struct SupervisionOptions {
    bool asked = false;
    std::string launch;  // command that starts the ranks, {ranks} in it their number; empty: none
    std::string ranks_left;  // command that prints how many ranks can be started; empty: none
    bool json = false;
};

// `words`: the arguments that this process was started with. Returns the exit code of the run, once
// it and all that it started have ended.
int supervise(const plan::Scenario& scenario, const SupervisionOptions& options,
              const std::vector<std::string>& words, Console& console);

// The same without what is the supervisor's alone, and without --resume, which it says itself.
std::vector<std::string> arguments_of_run(const std::vector<std::string>& words);

}  // namespace orrery::cli
