// Scripts whose program hands its steps to DeepSpeed: the config that the script writes itself or
// names, and what it settles beside the options of Megatron's fork with DeepSpeed
// (deepspeedai/Megatron-DeepSpeed, megatron/arguments.py). Internal.
#pragma once

#include <optional>
#include <string>

#include "plan/scenario/import/import.hpp"
#include "plan/scenario/import/launch.hpp"
#include "plan/scenario/import/shell_script.hpp"

namespace orrery::plan::imports {

// A config that the program's options name.
struct EngineConfig {
    std::string option;  // "--deepspeed_config"
    std::string name;    // as the option has it
    std::string file;    // where the text stands, for messages
    std::string text;    // JSON; what a run alone can tell is a string between kOpens and kCloses
    std::string fault;   // why there is no text; empty where there is
};

// Nothing where the program is started without DeepSpeed, or with a config of its own making.
std::optional<EngineConfig> find_engine_config(const Launch& launch, const ShellScript& script,
                                               const std::string& file, const Wishes& wishes);

// Of the program's options those about the engine; then the engine's config over what the program's
// options have settled: what DeepSpeed decides is the config's, what both say must be the same.
void map_engine(Sheet& sheet, const std::optional<EngineConfig>& config, Imported& out);

}  // namespace orrery::plan::imports
