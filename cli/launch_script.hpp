// How a run of orrery's own is started: the command that does it here or by a launcher, and the
// script that has Slurm do it. `orrery launch` writes them, the desktop application shows and
// starts them. Both are what a person would type (docs/train.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/scenario/scenario.hpp"

namespace orrery::cli {

// threads: of one process. Of slurm a command is what each task is.
enum class Launcher : std::uint8_t { threads, mpirun, srun, torchrun, slurm };

struct LaunchedRun {
    std::string program;   // orrery-run, or the wrapper that builds it
    std::string scenario;  // path of its file
    std::int64_t ranks = 1;
    std::int64_t devices_per_node = 1;
    std::string backend = "cpu";
    std::int64_t steps = 0;  // 0: as the scenario says
    bool resume = false;
    // Of mpirun's --host: "node01:8,node02:8"; empty: this computer. Further options of sbatch's:
    // "--partition=gpu --time=12:00:00".
    std::string hosts, sbatch_options;
    bool has_checkpoints = false;  // a job of Slurm's then goes on from the newest

    // As many of a node's devices as there are ranks, where these need no whole one.
    std::int64_t ranks_per_node() const;
    std::int64_t nodes() const { return (ranks + ranks_per_node() - 1) / ranks_per_node(); }
};

// `trace`: where the measured step goes; empty: nowhere. Its event lines go to standard output.
std::vector<std::string> training_command(const LaunchedRun& run, Launcher launcher,
                                          const std::string& trace);

// A script for sbatch:
//   #!/bin/bash
//   #SBATCH --job-name=tiny-gpt
//   #SBATCH --nodes=1
//   …
//   srun orrery-run train tiny-gpt.json --json >"tiny-gpt-$SLURM_JOB_ID.jsonl"
// With checkpoints it resumes from the newest, so that a job that was cut short is submitted again
// as it is.
std::string slurm_script(const LaunchedRun& run);

// Whether a text begins as such a script does.
bool is_slurm_script(const std::string& text);

// As a person would type it into a shell.
std::string shell_text(const std::vector<std::string>& command);

}  // namespace orrery::cli
