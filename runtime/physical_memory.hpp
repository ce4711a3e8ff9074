// How much memory this machine has, as its system says.
#pragma once

#include <cstdint>
#include <optional>

namespace orrery::runtime {

// Of the whole machine, whatever this process may take of it; none: the system does not say.
std::optional<std::int64_t> physical_memory_bytes();

}  // namespace orrery::runtime
