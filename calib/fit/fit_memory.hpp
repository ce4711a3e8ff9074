// The curve of memory-bound kernels of one device, in two regimes (sim::MemoryProfile), from
// timings of kernels over sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calib/fit/held_out.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::fit {

struct MemoryRow {
    std::string kernel;
    bool reduction = false;  // over rows: such kernels have a constant time of their own
    double bytes = 0;        // of all operands, each once
    double time_us = 0;
};

struct MemoryFit {
    double t0_us = 0;
    double reduction_t0_us = 0;
    double cache_GBps = 0;   // of operands of at most resident_bytes together
    double memory_GBps = 0;  // of operands of twice that and more
    std::int64_t fitted_rows = 0;
    std::int64_t between_rows = 0;  // between the two regimes: neither fitted nor held out
    ErrorSummary held_out;
};

// Fits the four to the rows that is_held_out leaves. Throws FitError where a regime has no rows.
MemoryFit fit_memory(const std::vector<MemoryRow>& rows, double resident_bytes);

}  // namespace orrery::fit
