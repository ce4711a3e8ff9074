// The subcommands of orrery-run, the program that performs plans. The wrapper ./orrery starts it
// for them (its list run_subcommands), and the help of orrery names them. To add one: a file
// cli/run/<name>.cpp that defines <name>_command(), an entry here and in kRunSubcommands, a word in
// the wrapper.
#pragma once

#include <array>
#include <memory>

#include "cli/subcommand.hpp"

namespace orrery::cli {

struct RunSubcommand {
    const char* name;
    const char* summary;
    const char* example;
};

inline constexpr RunSubcommand kTrain{"train",
                                      "Train a scenario's model by the plan that simulate prices",
                                      "train scenarios/runs/tiny-gpt.json"};

inline constexpr RunSubcommand kCalibrate{
    "calibrate", "Time this machine's kernels and communication, and write its profile",
    "calibrate --backend cpu -o my-machine.json"};

inline constexpr RunSubcommand kDoctor{
    "doctor", "Show what this machine has for a run, what it lacks, and how to get it", "doctor"};

inline constexpr RunSubcommand kExport{"export",
                                       "Write a checkpoint's weights as a folder of Hugging Face",
                                       "export saved --hf my-model"};

// A program of its own, which the wrapper builds and starts; the only one that links Qt.
inline constexpr RunSubcommand kGui{"gui", "Show a scenario or a trace in the desktop application",
                                    "gui scenarios/runs/gpt3-175b-a100x1024.json"};

// In the order of --help.
inline constexpr std::array kRunSubcommands{kTrain, kExport, kCalibrate, kDoctor};

std::unique_ptr<Subcommand> train_command();
std::unique_ptr<Subcommand> export_command();
std::unique_ptr<Subcommand> calibrate_command();
std::unique_ptr<Subcommand> doctor_command();

}  // namespace orrery::cli
