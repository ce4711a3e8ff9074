#include "calib/compare/self_calibration.hpp"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "calib/compare/record_words.hpp"
#include "calib/compare/stack_population.hpp"
#include "calib/compare/validate.hpp"
#include "plan/scenario/reader.hpp"
#include "plan/scenario/spellings.hpp"
#include "sim/network/network_kinds.hpp"

namespace orrery::compare {
namespace {

using nlohmann::json;

constexpr double kSlopeProbe = 0.05;  // of a logarithm, for slopes

struct Movable {
    std::string key;
    double before = 1;
    double prior_sd = 0;
    double least = 0;  // that its key allows
};

// The scenario of the first record that has one: its stack and cluster are those of all.
plan::Scenario first_scenario(const json& records, const json& rules, const std::string& path,
                              const std::string& library_dir) {
    for (const json& record : records) {
        const Translation translation = translate(record, rules, Fitted::all_sources);
        if (translation.scenario_json.empty()) continue;
        plan::ReadResult read =
            plan::read_scenario_text(translation.scenario_json, path, library_dir, {}, library_dir);
        if (read.scenario) return std::move(*read.scenario);
    }
    throw RecordsError(path + ": no record amounts to a scenario; orrery validate says why");
}

// What may move, as far as stacks (scenarios/priors/stacks.json) and clusters lie from each other
// in it; nothing of which the population knows nothing.
std::vector<Movable> movables(const plan::Scenario& scenario, const StackPopulation& population) {
    const plan::Framework& stack = scenario.training.framework;
    std::vector<Movable> all;
    const auto add = [&](const char* constant, double before) {
        const std::optional<Pooled> known = population.pooled(
            constant, std::string(plan::spelling(stack.generation)), scenario.cluster.device, "");
        if (known && before > 0)
            all.push_back({std::string("training.") + constant, before, known->sd});
    };
    add("kernel_factor", stack.kernel_factor);
    add("memory_kernel_factor", stack.memory_kernel_factor);
    add("attention_factor", stack.attention_factor);
    add("launch_us", stack.launch_us);
    add("overlap_factor", stack.overlap_factor);
    const plan::InterNode& network = scenario.cluster.inter_node;
    if (scenario.cluster.nodes > 1)
        all.push_back({"cluster.inter_node.oversubscription", network.oversubscription,
                       sim::network_share(network.kind).relative_sd, 1});
    return all;
}

struct Residuals {
    Eigen::VectorXd log_error;  // ln(predicted ÷ measured)
    std::vector<std::string> stacks;

    double mean_error_pct() const {
        double sum = 0;
        for (const double r : log_error)
            sum += std::fabs(std::exp(r) - 1);
        return 100 * sum / static_cast<double>(log_error.size());
    }
};

Residuals residuals(const std::string& path, const std::string& library_dir,
                    const std::vector<std::string>& overrides) {
    const Validation validation = validate_records({path}, library_dir, overrides);
    Residuals found;
    std::vector<double> errors;
    for (const ValidatedRow& row : validation.rows) {
        if (!row.measured_s) continue;
        errors.push_back(std::log(row.predicted_s / *row.measured_s));
        found.stacks.push_back(row.framework);
    }
    found.log_error =
        Eigen::Map<Eigen::VectorXd>(errors.data(), static_cast<Eigen::Index>(errors.size()));
    return found;
}

Eigen::VectorXd prior_variances(const std::vector<Movable>& constants) {
    Eigen::VectorXd all(static_cast<Eigen::Index>(constants.size()));
    for (Eigen::Index j = 0; j < all.size(); ++j)
        all[j] = std::pow(constants[static_cast<std::size_t>(j)].prior_sd, 2);
    return all;
}

// Twice the negative logarithm of how probable the rows are where single runs lie so far about the
// constants, which have their priors.
double improbability(double spread, const Eigen::MatrixXd& slopes, const Eigen::VectorXd& errors,
                     const Eigen::VectorXd& variances) {
    const double square = spread * spread;
    Eigen::MatrixXd covariance = slopes * variances.asDiagonal() * slopes.transpose();
    covariance.diagonal().array() += square;
    const Eigen::LDLT<Eigen::MatrixXd> factors(covariance);
    const double prior = kRunSpreadRows * (std::log(square) + kRunSpread * kRunSpread / square);
    return factors.vectorD().array().log().sum() + errors.dot(factors.solve(errors)) + prior;
}

// From a quarter of kRunSpread to eight times as much, by quarters of an octave.
double most_probable_spread(const Eigen::MatrixXd& slopes, const Eigen::VectorXd& errors,
                            const Eigen::VectorXd& variances) {
    double best = kRunSpread, least = improbability(best, slopes, errors, variances);
    for (int quarter = -8; quarter <= 12; ++quarter) {
        const double spread = kRunSpread * std::exp2(quarter / 4.0);
        const double found = improbability(spread, slopes, errors, variances);
        if (found >= least) continue;
        least = found;
        best = spread;
    }
    return best;
}

struct Shift {
    Eigen::VectorXd of;  // logarithms
    Eigen::MatrixXd covariance;
    double run_spread = 0;
};

// The shift of those that may move beside `held`, which are where the key's least value is.
Eigen::VectorXd most_probable_shift(const Eigen::MatrixXd& slopes, const Eigen::VectorXd& errors,
                                    const Eigen::MatrixXd& information,
                                    const std::vector<std::optional<double>>& held) {
    Eigen::VectorXd at = Eigen::VectorXd::Zero(slopes.cols());
    std::vector<Eigen::Index> free;
    for (Eigen::Index j = 0; j < slopes.cols(); ++j)
        if (const auto& value = held[static_cast<std::size_t>(j)])
            at[j] = *value;
        else
            free.push_back(j);
    const Eigen::VectorXd left = errors + slopes * at;
    at(free) = -information(free, free)
                    .ldlt()
                    .solve(Eigen::MatrixXd(slopes(Eigen::all, free)).transpose() * left);
    return at;
}

Shift solve(const Eigen::MatrixXd& slopes, const Eigen::VectorXd& errors,
            const std::vector<Movable>& constants) {
    const Eigen::VectorXd variances = prior_variances(constants);
    Shift shift;
    shift.run_spread = most_probable_spread(slopes, errors, variances);
    const double square = shift.run_spread * shift.run_spread;
    // Times the square of the runs' spread.
    Eigen::MatrixXd information = slopes.transpose() * slopes;
    information.diagonal() += square * variances.cwiseInverse();
    shift.covariance =
        square * information.ldlt().solve(Eigen::MatrixXd::Identity(slopes.cols(), slopes.cols()));
    std::vector<std::optional<double>> held(constants.size());
    for (bool all_allowed = false; !all_allowed;) {
        shift.of = most_probable_shift(slopes, errors, information, held);
        all_allowed = true;
        for (std::size_t j = 0; j < constants.size(); ++j) {
            const double least = std::log(constants[j].least / constants[j].before);
            if (held[j] || shift.of[static_cast<Eigen::Index>(j)] >= least) continue;
            held[j] = least;
            all_allowed = false;
        }
    }
    return shift;
}

std::string override_of(const Movable& constant, double shift) {
    return fmt::format("{}={:.6g}", constant.key, constant.before * std::exp(shift));
}

double left_out_error_pct(const Eigen::MatrixXd& slopes, const Eigen::VectorXd& errors,
                          const std::vector<Movable>& constants) {
    if (errors.size() < 2) return 0;
    double sum = 0;
    for (Eigen::Index i = 0; i < errors.size(); ++i) {
        std::vector<Eigen::Index> rows;
        for (Eigen::Index row = 0; row < errors.size(); ++row)
            if (row != i) rows.push_back(row);
        const Shift others = solve(slopes(rows, Eigen::all), errors(rows), constants);
        sum += std::fabs(std::exp(errors[i] + slopes.row(i).dot(others.of)) - 1);
    }
    return 100 * sum / static_cast<double>(errors.size());
}

}  // namespace

SelfCalibration calibrate_to_runs(const std::string& path, const std::string& library_dir) {
    const json records = read_json(path);
    if (!records.is_array()) throw RecordsError(path + ": not an array of records");
    const json rules = read_json(library_dir + "/validation/rules.json");
    const Residuals before = residuals(path, library_dir, {});
    if (before.log_error.size() == 0)
        throw RecordsError(path + ": no record with a step time can be predicted");
    for (const std::string& stack : before.stacks)
        if (stack != before.stacks.front())
            throw RecordsError(
                fmt::format("{}: runs of {} and of {}: calibrate each stack by itself", path,
                            before.stacks.front(), stack));
    const std::vector<Movable> constants =
        movables(first_scenario(records, rules, path, library_dir),
                 StackPopulation(read_json(library_dir + "/priors/stacks.json")));
    const auto rows = before.log_error.size();
    Eigen::MatrixXd slopes(rows, static_cast<Eigen::Index>(constants.size()));
    for (std::size_t j = 0; j < constants.size(); ++j) {
        const Residuals moved =
            residuals(path, library_dir, {override_of(constants[j], kSlopeProbe)});
        if (moved.log_error.size() != rows)
            throw RecordsError(path + ": not every record takes " + constants[j].key);
        slopes.col(static_cast<Eigen::Index>(j)) =
            (moved.log_error - before.log_error) / kSlopeProbe;
    }
    const Shift shift = solve(slopes, before.log_error, constants);
    SelfCalibration result;
    std::vector<std::string> overrides;
    for (std::size_t j = 0; j < constants.size(); ++j) {
        const auto column = static_cast<Eigen::Index>(j);
        overrides.push_back(override_of(constants[j], shift.of[column]));
        result.constants.push_back({constants[j].key, constants[j].before,
                                    constants[j].before * std::exp(shift.of[column]),
                                    constants[j].prior_sd,
                                    std::sqrt(shift.covariance(column, column))});
    }
    result.rows = static_cast<std::int64_t>(rows);
    result.run_spread = shift.run_spread;
    result.mean_error_before_pct = before.mean_error_pct();
    result.mean_error_after_pct = residuals(path, library_dir, overrides).mean_error_pct();
    result.mean_error_left_out_pct = left_out_error_pct(slopes, before.log_error, constants);
    return result;
}

}  // namespace orrery::compare
