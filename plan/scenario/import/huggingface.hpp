// A Hugging Face model's config.json to the beginning of a scenario. Internal.
#pragma once

#include <string>
#include <string_view>

#include "plan/scenario/import/import.hpp"

namespace orrery::plan::imports {

// Whether the text is such a config: a JSON object with a model_type or architectures.
bool is_model_config_text(std::string_view text);

Imported import_huggingface(std::string_view text, const std::string& file, const Wishes& wishes);

}  // namespace orrery::plan::imports
