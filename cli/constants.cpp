// orrery constants: what published runs say of a stack's and a cluster's constants.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calib/compare/fit_constants.hpp"
#include "cli/completed_values.hpp"
#include "cli/csv_output.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "cli/text_table.hpp"
#include "plan/exit_code.hpp"

namespace orrery::cli {
namespace {

// KEY=PRIOR or KEY=PRIOR:SD
compare::Constant parse_constant(const std::string& text) {
    const std::size_t equals = text.find('=');
    compare::Constant constant;
    const std::string fault = fmt::format(
        "--constant {}: KEY=PRIOR[:SD] is expected, e.g. training.attention_factor=1:0.3", text);
    if (equals == std::string::npos || equals == 0) throw UsageError(fault);
    constant.key = text.substr(0, equals);
    const std::string numbers = text.substr(equals + 1);
    const std::size_t colon = numbers.find(':');
    if (!CLI::detail::lexical_cast(numbers.substr(0, colon), constant.prior))
        throw UsageError(fault);
    if (colon != std::string::npos &&
        !CLI::detail::lexical_cast(numbers.substr(colon + 1), constant.prior_sd))
        throw UsageError(fault);
    if (!(constant.prior > 0) || !(constant.prior_sd > 0)) throw UsageError(fault);
    return constant;
}

nlohmann::ordered_json errors_json(const compare::ErrorSummary& s) {
    return {{"n", s.n},
            {"mean_abs_error_pct", s.mean_abs_error_pct},
            {"median_abs_error_pct", s.median_abs_error_pct},
            {"p95_abs_error_pct", s.p95_abs_error_pct},
            {"bias_pct", s.bias_pct},
            {"interval_coverage", s.interval_coverage}};
}

std::string to_json(const compare::ConstantsFit& fit) {
    nlohmann::ordered_json out;
    out["constants"] = nlohmann::ordered_json::array();
    for (const compare::FittedConstant& c : fit.constants)
        out["constants"].push_back({{"key", c.constant.key},
                                    {"prior", c.constant.prior},
                                    {"prior_sd", c.constant.prior_sd},
                                    {"value", c.value},
                                    {"sd", c.sd}});
    out["before"] = {{"training", errors_json(fit.training_before)},
                     {"held_out", errors_json(fit.held_out_before)}};
    out["after"] = {{"training", errors_json(fit.training)},
                    {"held_out", errors_json(fit.held_out)}};
    return out.dump(2) + "\n";
}

std::string to_text(const compare::ConstantsFit& fit) {
    TextTable constants({Align::left, Align::right, Align::right, Align::right});
    constants.add({"constant", "prior", "fitted", "± %"});
    for (const compare::FittedConstant& c : fit.constants)
        constants.add({c.constant.key, fmt::format("{:g}", c.constant.prior),
                       fmt::format("{:.4g}", c.value), fmt::format("{:.1f}", 100 * c.sd)});
    TextTable errors(
        {Align::left, Align::right, Align::right, Align::right, Align::right, Align::right});
    errors.add({"|error| of step time, %", "rows", "mean", "median", "p95", "bias"});
    const auto add = [&](const char* name, const compare::ErrorSummary& s) {
        errors.add({name, fmt::format("{}", s.n), fmt::format("{:.1f}", s.mean_abs_error_pct),
                    fmt::format("{:.1f}", s.median_abs_error_pct),
                    fmt::format("{:.1f}", s.p95_abs_error_pct),
                    fmt::format("{:+.1f}", s.bias_pct)});
    };
    add("training half, at the priors", fit.training_before);
    add("training half, fitted", fit.training);
    add("other half, at the priors", fit.held_out_before);
    add("other half, fitted", fit.held_out);
    return constants.text() + "\n" + errors.text();
}

class Constants : public Subcommand {
  public:
    std::string name() const override { return "constants"; }
    std::string summary() const override {
        return "Fit constants of a stack or a cluster to published runs, on half of them";
    }
    std::vector<std::string> examples() const override {
        return {"constants records.json --constant training.attention_factor=1:0.3",
                "constants records.json --constant cluster.inter_node.bandwidth_Gbps=200:1 --json"};
    }

    void declare(CLI::App& app) override {
        files().reads(
            app.add_option("RECORDS", records_path_, "Records of measured runs, a JSON array")
                ->required()
                ->option_text(" "));
        app.add_option("--constant", constants_,
                       "A key of the scenarios, what it is believed to be, and the standard "
                       "deviation of its logarithm (0.3 unless given); repeatable")
            ->required()
            ->option_text("KEY=PRIOR[:SD]")
            ->take_all()
            ->allow_extra_args(false)
            ->check(completed_by(WordSource::settings));
        app.add_option("--set", overrides_,
                       "Override a key of every record's scenario throughout; repeatable")
            ->option_text("KEY=VALUE")
            ->take_all()
            ->allow_extra_args(false)
            ->check(completed_by(WordSource::settings));
        app.add_flag("--json", json_, "Print constants and errors as JSON");
        csv_.declare(
            app, files(),
            {{"constants", "/constants", "key,prior"},
             {"errors", "/before/training /before/held_out /after/training /after/held_out",
              "rows,n", true}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        require_overrides("--set", overrides_);
        std::vector<compare::Constant> constants;
        std::transform(constants_.begin(), constants_.end(), std::back_inserter(constants),
                       parse_constant);
        const compare::ConstantsFit fit =
            compare::fit_constants(records_path_, library_folder(), constants, overrides_);
        console.out << (json_ ? to_json(fit) : to_text(fit));
        csv_.write([&] { return to_json(fit); });
        return kExitOk;
    }

  private:
    std::string records_path_;
    std::vector<std::string> constants_;
    std::vector<std::string> overrides_;
    CsvOutput csv_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> constants_command() {
    return std::make_unique<Constants>();
}

}  // namespace orrery::cli
