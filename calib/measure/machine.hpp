// What a measurement was made on: part of every calibrated profile, which is worth no more than the
// reader's trust that it is about their machine.
#pragma once

#include <cstdint>
#include <string>

namespace orrery::measure {

struct Machine {
    std::string processor;          // as the system names it
    std::int64_t cores = 1;         // that this process may use
    std::int64_t memory_bytes = 0;  // physical
    std::int64_t cache_bytes = 0;   // last level, of all cores together
    std::string compiler;           // of this program
    std::string date;               // today, UTC, "2026-11-21"
};

Machine this_machine();

}  // namespace orrery::measure
