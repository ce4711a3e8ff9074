// Memory-bound kernels by kind, each with a constant and a rate of its own (sim::KernelCurve), from
// timings of the kernels in whole steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calib/fit/fit_memory.hpp"
#include "calib/fit/held_out.hpp"

namespace orrery::fit {

struct KernelFit {
    std::string kernel;  // plan::name of its kind
    double t0_us = 0;
    double GBps = 0;  // of all operands, each once; 0 where the rows show none
    std::int64_t fitted_rows = 0;
    ErrorSummary held_out;
};

// One for each kernel that has rows to fit and rows held out, by name. Rows of more than
// resident_bytes are left out: beyond the cache it is the memory's curve that counts.
std::vector<KernelFit> fit_kernels(const std::vector<MemoryRow>& rows, double resident_bytes);

}  // namespace orrery::fit
