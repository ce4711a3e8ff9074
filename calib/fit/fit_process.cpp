#include "calib/fit/fit_process.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calib/fit/relative_fit.hpp"
#include "calib/fit/write_profile.hpp"

namespace orrery::fit {

nlohmann::ordered_json process_json(const std::vector<ProcessRow>& rows,
                                    const std::string& source) {
    constexpr int kDigits = 4;
    RelativeProblem problem;
    problem.columns = 3;
    for (const ProcessRow& row : rows) {
        problem.terms.insert(problem.terms.end(),
                             {1.0, static_cast<double>(row.ranks), static_cast<double>(row.ops)});
        problem.times.push_back(static_cast<double>(row.bytes));
    }
    const std::vector<double> bytes = fit_relative(problem);
    double squares = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        double fitted = 0;
        for (std::size_t c = 0; c < problem.columns; ++c)
            fitted += bytes[c] * problem.terms[i * problem.columns + c];
        squares += std::pow(fitted / problem.times[i] - 1, 2);
    }
    const double deviation = std::sqrt(squares / static_cast<double>(rows.size()));
    return {{"source", fmt::format("{}; the largest that {} processes were, less their arenas",
                                   source, rows.size())},
            {"shared_bytes", std::round(bytes[0])},
            {"rank_bytes", std::round(bytes[1])},
            {"op_bytes", std::round(bytes[2])},
            {"relative_sd", rounded(std::max(kLeastError, deviation), kDigits)}};
}

}  // namespace orrery::fit
