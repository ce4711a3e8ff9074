#include "calib/fit/fit_kernels.hpp"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "calib/fit/relative_fit.hpp"

namespace orrery::fit {
namespace {

struct Rows {
    RelativeProblem fitted;  // time in us over 1 and bytes
    std::vector<const MemoryRow*> unseen;
};

}  // namespace

std::vector<KernelFit> fit_kernels(const std::vector<MemoryRow>& rows, double resident_bytes) {
    std::map<std::string, Rows> kernels;
    for (const MemoryRow& row : rows) {
        if (row.bytes > resident_bytes) continue;
        Rows& own = kernels[row.kernel];
        own.fitted.columns = 2;
        if (is_held_out(fmt::format("kernel {} {:.0f}", row.kernel, row.bytes))) {
            own.unseen.push_back(&row);
        } else {
            own.fitted.terms.insert(own.fitted.terms.end(), {1.0, row.bytes});
            own.fitted.times.push_back(row.time_us);
        }
    }
    std::vector<KernelFit> fits;
    for (const auto& [kernel, own] : kernels) {
        if (own.fitted.times.size() < own.fitted.columns || own.unseen.empty()) continue;
        const std::vector<double> x = fit_relative(own.fitted);
        KernelFit fit;
        fit.kernel = kernel;
        fit.t0_us = x[0];
        fit.GBps = x[1] > 0 ? 1e-3 / x[1] : 0;
        fit.fitted_rows = static_cast<std::int64_t>(own.fitted.times.size());
        std::vector<double> errors;
        for (const MemoryRow* row : own.unseen)
            errors.push_back((x[0] + x[1] * row->bytes) / row->time_us - 1);
        fit.held_out = summarize(std::move(errors));
        fits.push_back(std::move(fit));
    }
    return fits;
}

}  // namespace orrery::fit
