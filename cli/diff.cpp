// orrery diff: two scenarios, and why one takes longer than the other.
#include <CLI/CLI.hpp>

#include "cli/csv_output.hpp"
#include "cli/diff.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/exit_code.hpp"

namespace orrery::cli {
namespace {

// One of the two, from its arguments to its prediction.
struct Side {
    const ScenarioInput& arguments;
    plan::ReadResult read;
    sim::Profile profile;
    sim::Prediction prediction;

    ReportInput report() const {
        return {*read.scenario, profile, prediction, arguments, read.resolved_json};
    }
};

class Diff : public Subcommand {
  public:
    std::string name() const override { return "diff"; }
    std::string summary() const override {
        return "Compare two steps and say where the difference comes from";
    }
    std::vector<std::string> examples() const override {
        return {"diff scenarios/runs/gpt3-175b-a100x1024.json run.json",
                "diff run.json run.json --set-b layout.recompute=full --json"};
    }

    void declare(CLI::App& app) override {
        a_.declare(app, files(), "A", "--set-a");
        b_.declare(app, files(), "B", "--set-b");
        app.add_flag("--json", json_, "Print one JSON object, with both resolved scenarios");
        csv_.declare(app, files(),
                     {{"summary", "", "step.a_s,step.b_s,step.difference_s", true},
                      {"sides", "/a /b", "side,step_time_s", true},
                      {"accounts", "/accounts", "account,a_s,b_s"},
                      {"busy", "/busy", "kind,group,a_s"},
                      {"ops", "/ops", "block,op,kind"},
                      {"stages", "/stages", "stage,kind,group,a_s"},
                      {"keys", "/keys", "pointer,a,b"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        Side a{a_, a_.read(console, json_), {}, {}};
        if (!a.read.scenario) return exit_code_of(a.read);
        Side b{b_, b_.read(console, json_), {}, {}};
        if (!b.read.scenario) return exit_code_of(b.read);
        for (Side* side : {&a, &b}) {
            const plan::Scenario& scenario = *side->read.scenario;
            side->profile = sim::load_profiles(scenario.cluster);
            side->prediction = sim::simulate(scenario, side->profile, {}, side->read.resolved_json);
            if (side->prediction.stuck.empty()) continue;
            console.err << "orrery diff: internal error: the plan deadlocks\n"
                        << side->prediction.stuck;
            if (json_) console.out << report_json(side->report());
            return kExitInternal;
        }
        const DiffReport report{
            a.report(), b.report(), sim::difference_of(a.prediction, b.prediction),
            plan::differing_keys(a.read.resolved_json, b.read.resolved_json),
            trace::op_differences(trace::Alignment(a.prediction.trace, b.prediction.trace))};
        console.out << (json_ ? diff_json(report) : diff_text(report, console));
        csv_.write([&] { return diff_json(report); });
        const bool fit_a = a.prediction.memory.verdict != sim::Verdict::exceeds;
        const bool fit_b = b.prediction.memory.verdict != sim::Verdict::exceeds;
        if (fit_a && fit_b) return kExitOk;
        const char* which = fit_a ? "B does" : "A does";
        console.err << "orrery diff: " << (fit_a || fit_b ? which : "A and B do")
                    << " not fit into the device's memory\n";
        return kExitInfeasible;
    }

  private:
    ScenarioInput a_;
    ScenarioInput b_;
    CsvOutput csv_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> diff_command() {
    return std::make_unique<Diff>();
}

}  // namespace orrery::cli
