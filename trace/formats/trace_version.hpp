// The version of trace files, native and for viewers (docs/formats.md): raised when a reader of the
// one before would go wrong.
#pragma once

#include <cstdint>

namespace orrery::trace {

inline constexpr std::uint32_t kTraceVersion = 2;

}  // namespace orrery::trace
