#include "calib/fit/relative_fit.hpp"

#include <cmath>

#include <fmt/format.h>
#include <Eigen/Dense>

#include "calib/fit/fit_error.hpp"
#include "plan/check.hpp"

namespace orrery::fit {
namespace {

constexpr int kIterations = 30;

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

// Least squares with x ≥ 0 from the Gram matrix AᵀA and Aᵀb: the optimum is the best feasible
// solution over the subsets of columns that are allowed to differ from zero (Karush–Kuhn–Tucker).
Vector non_negative_solution(const Matrix& gram, const Vector& right) {
    const auto columns = static_cast<std::size_t>(right.size());
    Vector best = Vector::Zero(right.size());
    double best_cost = 0;  // ½xᵀGx − rᵀx, 0 at x = 0
    for (std::size_t subset = 1; subset < (std::size_t{1} << columns); ++subset) {
        std::vector<Eigen::Index> chosen;
        for (std::size_t j = 0; j < columns; ++j)
            if (((subset >> j) & 1) != 0) chosen.push_back(static_cast<Eigen::Index>(j));
        const Matrix part = gram(chosen, chosen);
        const Eigen::FullPivLU<Matrix> solver(part);
        if (!solver.isInvertible()) continue;
        const Vector x = solver.solve(Vector(right(chosen)));
        if (x.minCoeff() < 0) continue;
        const double cost = 0.5 * x.dot(part * x) - right(chosen).dot(x);
        if (cost >= best_cost) continue;
        best_cost = cost;
        best.setZero();
        for (std::size_t j = 0; j < chosen.size(); ++j)
            best(chosen[j]) = x(static_cast<Eigen::Index>(j));
    }
    return best;
}

// Rows divided by their times, so that the right side is 1 everywhere, and columns by their norms.
Matrix relative_rows(const RelativeProblem& problem, Vector& scales) {
    const std::size_t rows = problem.times.size();
    Matrix a(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(problem.columns));
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < problem.columns; ++j)
            a(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) =
                problem.terms[i * problem.columns + j] / problem.times[i];
    scales = a.colwise().norm();
    for (Eigen::Index j = 0; j < a.cols(); ++j)
        if (scales(j) > 0) a.col(j) /= scales(j);
    return a;
}

}  // namespace

std::vector<double> fit_relative(const RelativeProblem& problem) {
    ORRERY_CHECK(problem.columns >= 1 && problem.columns <= 8, "1 to 8 columns");
    ORRERY_CHECK(problem.terms.size() == problem.columns * problem.times.size(), "terms per row");
    if (problem.times.size() < problem.columns)
        throw FitError(fmt::format("{} rows cannot determine {} coefficients", problem.times.size(),
                                   problem.columns));
    Vector scales;
    const Matrix a = relative_rows(problem, scales);
    Vector weights = Vector::Ones(a.rows());
    Vector x = Vector::Zero(a.cols());
    for (int iteration = 0; iteration < kIterations; ++iteration) {
        const Matrix weighted = weights.asDiagonal() * a;
        x = non_negative_solution(a.transpose() * weighted, a.transpose() * weights);
        const Vector errors = (a * x).array() - 1.0;
        for (Eigen::Index i = 0; i < weights.size(); ++i) {
            const double error = std::fabs(errors(i));
            weights(i) = error <= kHuberError ? 1.0 : kHuberError / error;
        }
    }
    std::vector<double> coefficients(problem.columns);
    for (std::size_t j = 0; j < problem.columns; ++j) {
        const auto index = static_cast<Eigen::Index>(j);
        coefficients[j] = scales(index) > 0 ? x(index) / scales(index) : 0;
    }
    return coefficients;
}

}  // namespace orrery::fit
