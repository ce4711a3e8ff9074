// orrery goodput: a run as a whole, with failures, checkpoints and data that come late.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>

#include "cli/csv_output.hpp"
#include "cli/goodput_text.hpp"
#include "cli/json_values.hpp"
#include "cli/run_goodput.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/exit_code.hpp"
#include "sim/cost/profile.hpp"
#include "sim/fleet/goodput.hpp"

namespace orrery::cli {
namespace {

class GoodputCommand : public Subcommand {
  public:
    std::string name() const override { return "goodput"; }
    std::string summary() const override {
        return "Say how long a run takes with failures and checkpoints: days, cost";
    }
    std::vector<std::string> examples() const override {
        return {
            "goodput scenarios/runs/llama3.1-405b-h100x16384.json --set "
            "reliability=llama3-405b",
            "goodput run.json --tokens 2e12 --set reliability.spare_nodes=8 --json",
            "goodput run.json --timeline",
            "goodput run.json --set reliability=meta-rsc --set reliability.detection_s=60 "
            "--set reliability.saving=asynchronous"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        app.add_option("--tokens", tokens_, "Of the run; else the scenario's training.tokens")
            ->type_name("N");
        app.add_option("--step-time", step_s_,
                       "Of a step as it was measured; simulated unless given")
            ->type_name("SECONDS")
            ->check(CLI::PositiveNumber);
        app.add_option("--runs", options_.runs, "Runs that are drawn; 1000 unless given")
            ->type_name("N")
            ->check(CLI::Range(1, 1'000'000));
        app.add_option("--seed", options_.seed, "Of the draws; 1 unless given")->type_name("N");
        app.add_flag("--timeline", timeline_,
                     "Add one of the runs, day by day: that of middle length");
        app.add_flag("--json", json_, "Print one JSON object");
        csv_.declare(app, files(),
                     {{"summary", "", "days,effective_fraction", true},
                      {"breakdown", "/breakdown_days", "part,breakdown_days"},
                      {"waterfall", "/waterfall", "part,days"},
                      {"causes", "/causes", "cause,hours_between"},
                      {"changes", "/changes", "change,days,effective_fraction"},
                      {"failures", "/middle_run/failures", "at_days,cause"},
                      {"stretches", "/middle_run/stretches", "does,begin_days,end_days"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        if (tokens_) input_.sets.push_back(fmt::format("training.tokens={}", *tokens_));
        plan::ReadResult read = input_.read(console, json_);
        if (!read.scenario) return exit_code_of(read);
        const std::string assumed = assumed_reliability(*read.scenario);
        if (!assumed.empty()) {
            input_.sets.push_back("reliability=" + assumed);
            read = ScenarioInput(input_).read_all_with({});
            if (!read.scenario) return exit_code_of(read);
        }
        const plan::Scenario& scenario = *read.scenario;
        if (sim::steps_of_run(scenario) <= 0)
            throw UsageError(fmt::format("--tokens N: {}", kNoLength));
        sim::Prediction prediction = step_of(scenario);
        if (!prediction.stuck.empty()) {
            console.err << "orrery goodput: internal error: the plan deadlocks\n"
                        << prediction.stuck;
            return kExitInternal;
        }
        if (step_s_) prediction = measured(std::move(prediction), *step_s_);
        const sim::Goodput goodput = run_goodput(input_, scenario, prediction, options_);
        const GoodputReport report = {scenario, prediction,          goodput,  options_,
                                      assumed,  step_s_.has_value(), timeline_};
        console.out << (json_ ? goodput_json(report) : goodput_text(report, console));
        csv_.write([&] { return goodput_json(report); });
        if (goodput.unended > 0)
            console.err << fmt::format(
                "orrery goodput: {} of {} runs do not end: they lose more than they do\n",
                goodput.unended, options_.runs);
        const bool fits = prediction.memory.verdict != sim::Verdict::exceeds;
        if (!fits)
            console.err << "orrery goodput: the layout does not fit into the device's memory\n";
        return fits && goodput.unended == 0 ? kExitOk : kExitInfeasible;
    }

  private:
    static sim::Prediction step_of(const plan::Scenario& scenario) {
        sim::SimulateOptions how;
        how.keep_trace = false;
        return sim::simulate(scenario, sim::load_profiles(scenario.cluster), how, "");
    }

    // A step that was measured has no interval of a model's error.
    static sim::Prediction measured(sim::Prediction prediction, double step_s) {
        prediction.throughput.tokens_per_s =
            static_cast<double>(prediction.conserved.tokens_per_step) / step_s;
        prediction.step.time_s = step_s;
        prediction.step.interval_parts = {};
        return prediction;
    }

    ScenarioInput input_;
    std::optional<double> tokens_, step_s_;
    sim::GoodputOptions options_;
    CsvOutput csv_;
    bool timeline_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> goodput_command() {
    return std::make_unique<GoodputCommand>();
}

}  // namespace orrery::cli
