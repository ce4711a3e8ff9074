#include "calib/fit/held_out.hpp"

#include <algorithm>
#include <cmath>

#include "calib/fit/fit_error.hpp"

namespace orrery::fit {

std::uint64_t fnv1a(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const char c : text) {
        hash ^= static_cast<unsigned char>(c);
        hash *= 0x100000001b3ULL;
    }
    return hash;
}

// The low bits of FNV-1a mix worst; the remainder is taken of the high half.
bool is_held_out(std::string_view key) {
    return (fnv1a(key) >> 32) % 5 == 0;
}

ErrorSummary summarize(std::vector<double> errors) {
    if (errors.empty()) throw FitError("no rows to judge the fit by");
    ErrorSummary summary;
    const double count = static_cast<double>(errors.size());
    double squares = 0;
    for (double& error : errors) {
        summary.bias += error / count;
        squares += error * error;
        error = std::fabs(error);
    }
    std::sort(errors.begin(), errors.end());
    auto quantile = [&](double share) {
        return errors[static_cast<std::size_t>(share * (count - 1) + 0.5)];
    };
    summary.standard_deviation = std::sqrt(squares / count);
    summary.absolute.rows = static_cast<std::int64_t>(errors.size());
    for (double error : errors)
        summary.absolute.mean_abs_error += error / count;
    summary.absolute.median_abs_error = quantile(0.5);
    summary.absolute.p95_abs_error = quantile(0.95);
    return summary;
}

}  // namespace orrery::fit
