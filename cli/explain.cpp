// orrery explain: why the step takes as long as it does, and what would shorten it.
#include <CLI/CLI.hpp>

#include "cli/csv_output.hpp"
#include "cli/explain.hpp"
#include "cli/progress.hpp"
#include "cli/scenario_input.hpp"
#include "cli/simulation.hpp"
#include "cli/subcommand.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/exit_code.hpp"
#include "sim/cuda_graphs.hpp"

namespace orrery::cli {
namespace {

class Explain : public Subcommand {
  public:
    std::string name() const override { return "explain"; }
    std::string summary() const override {
        return "Say why a step takes as long as it does, and what would shorten it";
    }
    std::vector<std::string> examples() const override {
        return {"explain scenarios/runs/gpt3-175b-a100x1024.json",
                "explain run.json --set layout.recompute=full --json",
                "explain run.json --costs measured.orrery"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        input_.declare_routing(app, files());
        app.add_flag("--json", json_, "Print one JSON object");
        csv_.declare(app, files(),
                     {{"summary", "", "step.time_s,summary", true},
                      {"critical_path", "/critical_path/parts", "account,kind,group,time_s"},
                      {"stays", "/critical_path/stays", "from_s,to_s"},
                      {"what_ifs", "/what_if", "name,step_time_s,gain_s"},
                      {"prices", "/prices/kinds", "kind,over_model"}});
        files().reads(
            app.add_option("--costs", costs_file_,
                           "A measured trace that prices ops: why the run took as long as it did")
                ->type_name("TRACE"));
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        plan::ReadResult read = input_.read(console, json_);
        if (!read.scenario) return exit_code_of(read);
        SimulationQuestion question;
        question.costs_file = costs_file_;
        question.scenario_file = input_.file;
        question.keep_trace = true;
        Simulation simulation = simulated(std::move(read), question);
        for (const std::string& warning : simulation.warnings)
            console.err << "orrery explain: warning: " << warning << '\n';
        const sim::Prediction& prediction = simulation.prediction;
        const ReportInput report = simulation.report(input_);
        if (!prediction.stuck.empty()) {
            console.err << "orrery explain: internal error: the plan deadlocks\n"
                        << prediction.stuck;
            if (json_) console.out << report_json(report);
            return kExitInternal;
        }
        if (simulation.costs) simulation.costs->price_by_means();
        const Explanation explanation =
            explained(report, name(), console, simulation.costs ? &*simulation.costs : nullptr);
        console.out << (json_ ? explanation_json(explanation)
                              : explanation_text(explanation, console));
        csv_.write([&] { return explanation_json(explanation); });
        if (prediction.memory.verdict != sim::Verdict::exceeds) return kExitOk;
        console.err << "orrery explain: the layout does not fit into the device's memory\n";
        return kExitInfeasible;
    }

  private:
    ScenarioInput input_;
    std::string costs_file_;
    CsvOutput csv_;
    bool json_ = false;
};

}  // namespace

Explanation explained(const ReportInput& report, const std::string& subcommand,
                      const Console& console, const sim::MeasuredCosts* costs) {
    const plan::Scenario& scenario = report.scenario;
    Explanation explanation{report, {}, {}, {}, {}};
    trace::HostIssue host;  // of measured ops each says itself how late it came
    if (costs == nullptr) host = sim::host_issue(scenario, report.profile.hardware);
    explanation.path = trace::critical_path(report.prediction.trace, host);
    explanation.parts = trace::parts_of(report.prediction.trace, explanation.path);
    Progress progress(console, subcommand, "simulating what would shorten the step");
    explanation.answers = sim::ask_what_ifs(
        scenario, report.profile, report.prediction, [&] { progress.step(); }, costs);
    if (costs != nullptr) {
        explanation.by_means_s = sim::to_seconds(
            sim::step_if(nullptr, plan::build_plan(scenario), scenario, report.profile, costs));
        return explanation;
    }
    explanation.balanced = sim::balanced_layers(scenario, report.profile, report.prediction,
                                                [&](const std::vector<std::string>& changes) {
                                                    return report.arguments.read_with(changes);
                                                });
    return explanation;
}

std::unique_ptr<Subcommand> explain_command() {
    return std::make_unique<Explain>();
}

}  // namespace orrery::cli
