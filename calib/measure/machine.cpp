#include "calib/measure/machine.hpp"

#include <unistd.h>

#include <chrono>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "calib/fit/this_machine.hpp"
#include "runtime/physical_memory.hpp"

namespace orrery::measure {
namespace {

// 0 where the system does not say.
std::int64_t last_level_cache() {
    for (const int level : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE})
        if (const long bytes = sysconf(level); bytes > 0) return bytes;
    return 0;
}

}  // namespace

Machine this_machine() {
    const fit::ThisMachine self = fit::this_machine();
    Machine machine;
    machine.processor = self.processor;
    machine.cores = self.cores;
    machine.memory_bytes = runtime::physical_memory_bytes().value_or(0);
    machine.cache_bytes = last_level_cache();
#if defined(__clang__)
    machine.compiler = "clang " __clang_version__;
#else
    machine.compiler = "gcc " __VERSION__;
#endif
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    machine.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
    return machine;
}

}  // namespace orrery::measure
