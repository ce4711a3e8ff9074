// Options of programs that are started with a DeepSpeed config, spelled as Hugging Face's
// TrainingArguments: what a config leaves "auto" is theirs
// (transformers/integrations/deepspeed.py, HfTrainerDeepSpeedConfig). Internal.
#pragma once

#include <vector>

#include "plan/scenario/import/import.hpp"
#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

// Puts the options' values where the config has "auto".
void fill_automatic(std::vector<Setting>& config, const std::vector<Setting>& options);

// Model, sequence length and recomputation, which a config does not say: by options where the sheet
// has them.
void map_program(Sheet& sheet, const Wishes& wishes);

// Options that fill the config, those that change no step, and all other settings.
void settle_program(Sheet& sheet);

}  // namespace orrery::plan::imports
