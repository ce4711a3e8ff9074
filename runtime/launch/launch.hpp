// Who this process is among those of a run, told by the variables of what started it: torchrun,
// Open MPI's mpirun or Slurm's srun. All ranks of a run learn the same size and the same meeting
// point from them, each its own number; nothing is asked over a network.
//
//   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   Open MPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   Slurm      SLURM_PROCID, SLURM_LOCALID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS,
//              SLURM_STEP_TASKS_PER_NODE or SLURM_TASKS_PER_NODE (entry SLURM_NODEID), or
//              SLURM_NTASKS_PER_NODE; SLURM_STEP_NODELIST, SLURM_JOB_ID, SLURM_STEP_ID
//
// The run's name is of TORCHELASTIC_RUN_ID and TORCHELASTIC_RESTART_COUNT, of PMIX_NAMESPACE, or of
// SLURM_JOB_ID and SLURM_STEP_ID.
//
// The innermost launcher counts, in this order: torchrun runs below srun, and mpirun in a script of
// sbatch. Where the variables of two are there, they must say the same, or the outer ones be of
// what started the inner launcher, a task on each node; else nobody knows which rank this process
// is. MASTER_ADDR and MASTER_PORT alone launch nothing, but say where to meet under each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace orrery::runtime {

enum class Launcher : std::uint8_t { torchrun, open_mpi, slurm };

// "torchrun", "Open MPI", "Slurm".
std::string name(Launcher launcher);

struct Launch {
    Launcher launcher = Launcher::torchrun;
    std::int64_t rank = 0;
    std::int64_t size = 1;        // processes of the run
    std::int64_t local_rank = 0;  // among those of this node …
    std::int64_t local_size = 1;  // … which are so many
    // Where rank 0 waits for the others. Under Open MPI on several nodes nobody says a host: it is
    // empty, and the ranks meet through MPI, or where MASTER_ADDR says.
    std::string host;
    std::int64_t port = 0;
    // What the launcher calls the run, the same on all its ranks; two that it calls differently
    // never meet.
    std::string run = {};
    // What the ranks of a run alone know: of ORRERY_RUN_SECRET, or of the file that
    // ORRERY_RUN_SECRET_FILE names. Empty: who knows the run's name can join it.
    std::string secret = {};
    bool operator==(const Launch&) const = default;
};

// Variables that are missing, are no numbers or contradict one another: all that is wrong at once,
// a line each.
class LaunchError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The value of a variable; none when it is not set, or set to nothing.
using VariableLookup = std::function<std::optional<std::string>(const std::string& name)>;

VariableLookup process_environment();

// None when nobody launched us: also in the shell of salloc and the script of sbatch, which have
// Slurm's variables and are no task of a step. `only`: this launcher did, whatever others say.
// Throws LaunchError.
std::optional<Launch> launch_of_environment(const VariableLookup& lookup,
                                            std::optional<Launcher> only = std::nullopt);

}  // namespace orrery::runtime
