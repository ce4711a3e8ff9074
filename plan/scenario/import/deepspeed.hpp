// A DeepSpeed JSON config as a scenario: alone, beside the options of the program that is started
// with it, or as the engine of a program that settles model, ranks and optimizer itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/scenario/import/import.hpp"
#include "plan/scenario/import/launch.hpp"

namespace orrery::plan::imports {

Imported import_deepspeed(std::string_view text, const std::string& file, const Wishes& wishes);

// `text` is the config; the launcher says the ranks, and options of the program, spelled as Hugging
// Face's TrainingArguments, stand for what is "auto".
Imported import_deepspeed_run(std::string_view text, const std::string& file, const Launch& launch,
                              const Wishes& wishes);

// What a program has settled that hands its steps to DeepSpeed.
struct EngineSurroundings {
    std::optional<std::int64_t> data;  // data-parallel ranks
    std::string precision;             // of its parameters; empty: not known
};

// No model, no ranks, no optimizer but its clipping: the rest is the program's.
Imported import_engine(std::string_view text, const std::string& file,
                       const EngineSurroundings& known);

}  // namespace orrery::plan::imports
