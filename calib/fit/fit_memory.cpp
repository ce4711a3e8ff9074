#include "calib/fit/fit_memory.hpp"

#include <utility>

#include <fmt/format.h>

#include "calib/fit/fit_error.hpp"
#include "calib/fit/relative_fit.hpp"

namespace orrery::fit {
namespace {

// Constant of maps, constant of reductions, bytes in cache, bytes in memory.
constexpr std::size_t kColumns = 4;

std::vector<double> terms_of(const MemoryRow& row, double resident_bytes) {
    const bool resident = row.bytes <= resident_bytes;
    return {row.reduction ? 0.0 : 1.0, row.reduction ? 1.0 : 0.0, resident ? row.bytes : 0.0,
            resident ? 0.0 : row.bytes};
}

}  // namespace

MemoryFit fit_memory(const std::vector<MemoryRow>& rows, double resident_bytes) {
    MemoryFit fit;
    RelativeProblem problem;
    problem.columns = kColumns;
    std::vector<const MemoryRow*> unseen;
    for (const MemoryRow& row : rows) {
        if (row.bytes > resident_bytes && row.bytes < 2 * resident_bytes) {
            ++fit.between_rows;
        } else if (is_held_out(fmt::format("memory {} {:.0f}", row.kernel, row.bytes))) {
            unseen.push_back(&row);
        } else {
            const std::vector<double> terms = terms_of(row, resident_bytes);
            problem.terms.insert(problem.terms.end(), terms.begin(), terms.end());
            problem.times.push_back(row.time_us * 1e-6);
        }
    }
    fit.fitted_rows = static_cast<std::int64_t>(problem.times.size());
    const std::vector<double> x = fit_relative(problem);
    if (x[2] <= 0 || x[3] <= 0 || unseen.empty())
        throw FitError("the rows of memory-bound kernels do not determine two bandwidths");
    fit.t0_us = x[0] * 1e6;
    fit.reduction_t0_us = x[1] * 1e6;
    fit.cache_GBps = 1e-9 / x[2];
    fit.memory_GBps = 1e-9 / x[3];
    std::vector<double> errors;
    for (const MemoryRow* row : unseen) {
        const std::vector<double> terms = terms_of(*row, resident_bytes);
        double seconds = 0;
        for (std::size_t i = 0; i < kColumns; ++i)
            seconds += x[i] * terms[i];
        errors.push_back(seconds / (row->time_us * 1e-6) - 1);
    }
    fit.held_out = summarize(std::move(errors));
    return fit;
}

}  // namespace orrery::fit
