#include "calib/fit/relative_fit.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "calib/fit/fit_error.hpp"

namespace orrery::fit {
namespace ORRERY_TEST_FILE {

// Rows (1, i, i²) with times of known coefficients.
RelativeProblem parabola(double a, double b, double c, int rows) {
    RelativeProblem problem;
    problem.columns = 3;
    for (int i = 1; i <= rows; ++i) {
        const double x = i;
        problem.terms.insert(problem.terms.end(), {1, x, x * x});
        problem.times.push_back(a + b * x + c * x * x);
    }
    return problem;
}

TEST(RelativeFit, RecoversWhatMadeTheTimes) {
    const std::vector<double> x = fit_relative(parabola(5e-6, 3e-7, 2e-9, 200));
    EXPECT_NEAR(x[0] / 5e-6, 1, 1e-9);
    EXPECT_NEAR(x[1] / 3e-7, 1, 1e-9);
    EXPECT_NEAR(x[2] / 2e-9, 1, 1e-9);
}

TEST(RelativeFit, IgnoresAColumnThatOnlyANegativeCoefficientWouldUse) {
    // 3x − x²/1000: without the constraint the last coefficient is negative
    const std::vector<double> x = fit_relative(parabola(0, 3, -1e-3, 100));
    EXPECT_EQ(x[2], 0);
    EXPECT_GE(x[0], 0);
    EXPECT_GT(x[1], 2.5);
}

TEST(RelativeFit, AFewWildRowsHardlyBendTheCurve) {
    RelativeProblem problem = parabola(5, 3, 0.2, 200);
    for (std::size_t i = 0; i < 200; i += 20)
        problem.times[i] *= 10;  // 5 % of the rows
    const std::vector<double> x = fit_relative(problem);
    for (double at : {1.0, 50.0, 200.0})
        EXPECT_NEAR((x[0] + x[1] * at + x[2] * at * at) / (5 + 3 * at + 0.2 * at * at), 1, 0.02);
}

TEST(RelativeFit, SmallTimesWeighAsMuchAsLarge) {
    // One constant for times 1 and 1000·(1 ± ε): relative errors call for about 1 (absolute ones
    // for 500), as 1000 predicted by 1 is off by less than 1 predicted by 1000.
    RelativeProblem problem;
    problem.columns = 1;
    problem.terms = {1, 1};
    problem.times = {1, 1000};
    EXPECT_LT(fit_relative(problem)[0], 1.2);
}

TEST(RelativeFit, NeedsAsManyRowsAsColumns) {
    EXPECT_THROW(fit_relative(parabola(1, 1, 1, 2)), FitError);
}

RC_GTEST_PROP(RelativeFit, RecoversAnyNonNegativeCoefficients, ()) {
    const double a = *rc::gen::inRange(0, 1000);
    const double b = *rc::gen::inRange(0, 1000);
    const double c = *rc::gen::inRange(1, 1000);
    const RelativeProblem problem = parabola(a, b, c, 50);
    const std::vector<double> x = fit_relative(problem);
    for (std::size_t i = 0; i < 50; ++i) {
        double predicted = 0;
        for (std::size_t j = 0; j < 3; ++j)
            predicted += x[j] * problem.terms[3 * i + j];
        RC_ASSERT(predicted / problem.times[i] < 1 + 1e-6);
        RC_ASSERT(predicted / problem.times[i] > 1 - 1e-6);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::fit
