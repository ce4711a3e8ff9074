// Non-negative coefficients of a sum of terms that predicts measured times, by relative error: a
// curve that is 5 % off at a microsecond is as good as one that is 5 % off at a second.
#pragma once

#include <cstddef>
#include <vector>

namespace orrery::fit {

// time ≈ Σ coefficient_j · terms[i·columns + j], times[i] > 0.
struct RelativeProblem {
    std::size_t columns = 0;
    std::vector<double> terms;  // row after row
    std::vector<double> times;
};

// Coefficients ≥ 0 that minimise Σ huber(prediction ÷ time − 1): squares up to kHuberError, linear
// beyond, so that a few rows of another kind (a preempted run, an unlucky kernel) do not bend the
// curve. Solved by iterated weights; each weighted problem exactly, by trying every subset of
// columns (at most 8). Throws FitError when there are fewer rows than columns.
std::vector<double> fit_relative(const RelativeProblem& problem);

inline constexpr double kHuberError = 0.1;

}  // namespace orrery::fit
