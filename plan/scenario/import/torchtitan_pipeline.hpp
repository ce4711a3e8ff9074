// Pipeline of a torchtitan config: its schedule, its stages and how the layers lie on them.
// Internal.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

// Reads the keys of the pipeline of `ranks` ranks and `layers` layers. Returns the micro-batch, of
// `local` sequences of a data-parallel rank.
std::optional<std::int64_t> map_torchtitan_pipeline(Sheet& sheet, std::int64_t ranks,
                                                    std::optional<std::int64_t> layers,
                                                    std::int64_t local);

}  // namespace orrery::plan::imports
