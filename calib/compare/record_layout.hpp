// The layout of a published record as the "layout" part of a scenario.
#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

namespace orrery::compare {

// `stated` is the record's layout with what rules add. Throws Skip with the arithmetic where the
// ranks or the batch do not come out.
nlohmann::json layout_part(const nlohmann::json& stated, std::int64_t layers, std::int64_t gpus);

// Where the record's recipe or arguments say by letters what each stage holds (Megatron-LM's
// --pipeline-model-parallel-layout), `layout` has it as facts: layers of each stage, and how many
// stages a rank has. Throws Skip where the letters are not read, or are of another pipeline.
void take_stage_letters(const nlohmann::json& record, const nlohmann::json& model,
                        nlohmann::json& layout);

}  // namespace orrery::compare
