// Pipeline of a torchtitan config: its schedule, its stages and how the layers lie on them.
// Internal.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

// Reads the keys of the pipeline of `ranks` ranks and `layers` layers. Returns the micro-batch, of
// `local` sequences of a data-parallel rank.
std::optional<std::int64_t> map_torchtitan_pipeline(Sheet& sheet, std::int64_t ranks,
                                                    std::optional<std::int64_t> layers,
                                                    std::int64_t local);

// torchtitan counts the embedding and the head as so many layers of the first and the last stage,
// and gives the layers that are left over to the first stages
// (torchtitan/distributed/pipeline_parallel.py). Empty where the layers do not make such stages.
std::vector<std::int64_t> torchtitan_stages(std::int64_t layers, std::int64_t first,
                                            std::int64_t last, std::int64_t stages);

// PyTorch's name of a schedule of ours; that of 1f1b where it has none.
const char* torchtitan_schedule(std::string_view ours);

}  // namespace orrery::plan::imports
