// How often experts were chosen, as a run has counted it: lines of `orrery train --json`, of which
// each step has a row for each layer of experts, or rows as training.routing.counts takes them.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace orrery::cli {

// A file that cannot be read, or that has no counts (exit code 5).
class RoutingCountsError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Settings that have a scenario's experts chosen as counted: every row of the file is a draw, as of
// a layer and a step. Throws RoutingCountsError, with the path, for what is no such file; whether
// rows fit the model the scenario's reader says.
std::vector<std::string> routing_settings(const std::string& path);

}  // namespace orrery::cli
