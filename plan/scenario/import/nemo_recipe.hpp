// A recipe of NeMo 2, which is Python: `recipe = llm.llama3_8b.pretrain_recipe(…)`, assignments to
// its attributes, or a `run.Partial(llm.pretrain, …)` of one's own.
#pragma once

#include <string>
#include <string_view>

#include "plan/scenario/import/import.hpp"

namespace orrery::plan::imports {

Imported import_nemo_recipe(std::string_view text, const std::string& file, const Wishes& wishes);

// Whether a text looks like one: Python that names NeMo's recipes.
bool is_nemo_recipe(std::string_view text);

}  // namespace orrery::plan::imports
