#include "calib/compare/fit_constants.hpp"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace orrery::compare {
namespace {

constexpr double kProbe = 0.05;       // of a logarithm, for slopes
constexpr double kLongestStep = 0.5;  // of a logarithm, in one round
constexpr double kSettled = 0.003;    // of a logarithm: rounds end
constexpr int kMostRounds = 6;

class Fit {
  public:
    Fit(const std::string& records_path, const std::string& library_dir,
        const std::vector<Constant>& constants, const std::vector<std::string>& fixed)
        : records_path_(records_path),
          library_dir_(library_dir),
          constants_(constants),
          fixed_(fixed),
          at_(Eigen::VectorXd::Zero(columns())) {}

    ConstantsFit run() {
        ConstantsFit fit;
        Validation validation = predict(at_);
        fit.training_before = errors(validation, true);
        fit.held_out_before = errors(validation, false);
        if (fit.training_before.n < columns())
            throw RecordsError(fmt::format("{}: {} rows cannot settle {} constants", records_path_,
                                           fit.training_before.n, columns()));
        Eigen::MatrixXd information;
        for (int round = 0; round < kMostRounds; ++round) {
            const Eigen::VectorXd step = improve(validation, information);
            at_ += step;
            validation = predict(at_);
            if (step.cwiseAbs().maxCoeff() < kSettled) break;
        }
        const Eigen::MatrixXd covariance =
            information.ldlt().solve(Eigen::MatrixXd::Identity(columns(), columns()));
        for (Eigen::Index j = 0; j < columns(); ++j)
            fit.constants.push_back({constant(j), value(at_, j), std::sqrt(covariance(j, j))});
        fit.training = errors(validation, true);
        fit.held_out = errors(validation, false);
        return fit;
    }

  private:
    Eigen::Index columns() const { return static_cast<Eigen::Index>(constants_.size()); }
    const Constant& constant(Eigen::Index j) const {
        return constants_[static_cast<std::size_t>(j)];
    }

    // `at` is the logarithm of each constant over its prior.
    double value(const Eigen::VectorXd& at, Eigen::Index j) const {
        return constant(j).prior * std::exp(at[j]);
    }

    Validation predict(const Eigen::VectorXd& at) const {
        std::vector<std::string> overrides = fixed_;
        for (Eigen::Index j = 0; j < columns(); ++j)
            overrides.push_back(fmt::format("{}={:.9g}", constant(j).key, value(at, j)));
        return validate_records({records_path_}, library_dir_, overrides);
    }

    static Validation half(const Validation& validation, bool training) {
        Validation chosen;
        for (const ValidatedRow& row : validation.rows)
            if (in_training_half(row.id) == training) chosen.rows.push_back(row);
        return chosen;
    }

    static ErrorSummary errors(const Validation& validation, bool training) {
        return summarise_time(half(validation, training), Rows::trusted);
    }

    // ln(predicted ÷ measured) of the rows that train.
    static std::vector<double> residuals(const Validation& validation) {
        std::vector<double> found;
        for (const ValidatedRow& row : validation.rows)
            if (row.measured_s && row.mistrusted.empty() && in_training_half(row.id))
                found.push_back(std::log(row.predicted_s / *row.measured_s));
        return found;
    }

    // The step of one round, and the information matrix (inverse covariance) around it.
    Eigen::VectorXd improve(const Validation& here, Eigen::MatrixXd& information) const {
        const std::vector<double> residual = residuals(here);
        const auto rows = static_cast<Eigen::Index>(residual.size());
        Eigen::MatrixXd slopes(rows, columns());
        for (Eigen::Index j = 0; j < columns(); ++j) {
            Eigen::VectorXd probe = at_;
            probe[j] += kProbe;
            const std::vector<double> moved = residuals(predict(probe));
            if (moved.size() != residual.size())
                throw RecordsError(
                    fmt::format("{}: not every record takes {}", records_path_, constant(j).key));
            for (Eigen::Index i = 0; i < rows; ++i)
                slopes(i, j) =
                    (moved[static_cast<std::size_t>(i)] - residual[static_cast<std::size_t>(i)]) /
                    kProbe;
        }
        information = Eigen::MatrixXd::Zero(columns(), columns());
        Eigen::VectorXd gradient = Eigen::VectorXd::Zero(columns());
        for (Eigen::Index i = 0; i < rows; ++i) {
            const double r = residual[static_cast<std::size_t>(i)];
            const double weight = std::min(1.0, kSpread / std::fabs(r)) / (kSpread * kSpread);
            information += weight * slopes.row(i).transpose() * slopes.row(i);
            gradient += weight * r * slopes.row(i).transpose();
        }
        for (Eigen::Index j = 0; j < columns(); ++j) {
            const double precision = 1 / (constant(j).prior_sd * constant(j).prior_sd);
            information(j, j) += precision;
            gradient[j] += precision * at_[j];
        }
        Eigen::VectorXd step = -information.ldlt().solve(gradient);
        const double longest = step.cwiseAbs().maxCoeff();
        if (longest > kLongestStep) step *= kLongestStep / longest;
        return step;
    }

    std::string records_path_;
    std::string library_dir_;
    std::vector<Constant> constants_;
    std::vector<std::string> fixed_;
    Eigen::VectorXd at_;
};

}  // namespace

bool in_training_half(const std::string& id) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : id)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash % 2 == 0;
}

ConstantsFit fit_constants(const std::string& records_path, const std::string& library_dir,
                           const std::vector<Constant>& constants,
                           const std::vector<std::string>& fixed) {
    return Fit(records_path, library_dir, constants, fixed).run();
}

}  // namespace orrery::compare
