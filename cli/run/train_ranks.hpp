// The ranks of a run that are processes: whether there is one for each rank of the layout, how the
// user is told of them, and what a run that ends badly leaves.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/run/train_backend.hpp"
#include "cli/scenario_input.hpp"
#include "plan/scenario/scenario.hpp"
#include "runtime/comm/processes/process_world.hpp"
#include "runtime/flight/flight_records.hpp"
#include "runtime/launch/launch.hpp"

namespace orrery::cli {

// Throws UsageError where a launcher has started another number of processes than the layout has
// ranks: with the arithmetic, and with what comes near. In full on rank 0; on each, since a
// launcher ends the others when one has ended.
void require_a_process_per_rank(const runtime::Launch& launch, const plan::Scenario& scenario,
                                const ScenarioInput& input);

// "8 processes, started by Open MPI on 2 nodes; …".
std::string ranks_line(const runtime::Launch& launch, const runtime::ProcessWorld& world,
                       const runtime::CallTimeouts& timeouts);

// Where flight records go: as said, else beside the checkpoints, else into the working folder.
std::string flight_folder(const BackendOptions& options, const plan::Scenario& scenario);
std::unique_ptr<runtime::FlightRecords> flight_records(const BackendOptions& options,
                                                       const plan::Scenario& scenario);

// "orrery train: …", a line on stderr, from any thread, that no other one breaks.
using SayOfRun = std::function<void(const std::string& line)>;
SayOfRun say_of_run(const BackendOptions& options);

// Ends the process of a rank that is held where its run has ended: says with which op, writes the
// records (null: none), and exits with kExitDevice. From any thread.
[[noreturn]] void end_process(std::int64_t rank, runtime::FlightRecords* records,
                              const SayOfRun& say, const std::string& reason);

}  // namespace orrery::cli
