#include "runtime/physical_memory.hpp"

#include <unistd.h>

namespace orrery::runtime {

std::optional<std::int64_t> physical_memory_bytes() {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long size = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || size <= 0) return std::nullopt;
    return std::int64_t{pages} * size;
}

}  // namespace orrery::runtime
