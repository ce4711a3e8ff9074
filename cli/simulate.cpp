// orrery simulate: what a scenario's training step takes, in time, memory and money.
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/chakra_output.hpp"
#include "cli/csv_output.hpp"
#include "cli/output_kinds.hpp"
#include "cli/report.hpp"
#include "cli/scenario_input.hpp"
#include "cli/simulation.hpp"
#include "cli/subcommand.hpp"
#include "cli/trace_excerpt.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/exit_code.hpp"
#include "sim/prediction.hpp"
#include "trace/atomic_file.hpp"
#include "trace/formats/memory_snapshot.hpp"
#include "trace/formats/trace_file.hpp"
#include "trace/timeline.hpp"

namespace orrery::cli {
namespace {

class Simulate : public Subcommand {
  public:
    std::string name() const override { return "simulate"; }
    std::string summary() const override {
        return "Predict a training step: time, memory, throughput, cost";
    }
    std::vector<std::string> examples() const override {
        return {"simulate scenarios/runs/gpt3-175b-a100x1024.json",
                "simulate run.json --set layout.tensor_parallel=4 --set layout.zero_stage=2",
                "simulate run.json --timeline",
                "simulate run.json --trace run.pftrace",
                "simulate run.json --json --trace run.orrery",
                "simulate run.json --csv tables/",
                "simulate run.json --chakra traces --chakra-ranks folded",
                "simulate run.json --set cluster.stragglers=megascale --draws 32",
                "simulate cluster.json --plan run.plan",
                "simulate run.json --costs measured.orrery --set layout.schedule=gpipe",
                "simulate run.json --routing trained.jsonl"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        input_.declare_plan(app, files(), plan::LeftOpen::cluster_and_run);
        input_.declare_routing(app, files());
        app.add_flag("--json", json_, "Print one JSON object, with the resolved scenario");
        csv_.declare(
            app, files(),
            {{"summary", "", "step.time_s,throughput.tokens_per_s,throughput.mfu,memory.verdict",
              true},
             {"breakdown", "/step/breakdown_s", "account,breakdown_s"},
             {"stages", "/memory/stages", "stage,parameters_bytes"},
             {"communication", "/communication", "group,bytes_per_rank"},
             {"copies", "/copies", "copy,bytes_per_rank"},
             {"interval", "/step/interval_parts", "part,early"},
             {"stragglers", "/step/stragglers/added_breakdown_s", "account,added_breakdown_s"},
             {"draws", "/step/draws/times_s", "times_s"},
             {"quantiles", "/step/draws/quantiles_s", "quantile,quantiles_s"},
             {"stacks", "/memory/stacks_in_use", "framework,peak_bytes"},
             {"fixes", "/fixes", "step_time_s,peak_bytes"},
             {"prices", "/prices/kinds", "kind,over_model"},
             {"unused", "/unused", "pointer,why"}});
        files()
            .writes(app, "--trace", trace_file_, trace_output(),
                    "Also write the trace: *.orrery, *.pftrace (Perfetto), *.json (Chrome)")
            ->type_name("FILE");
        chakra_.declare(app, files());
        files()
            .writes(app, "--memory-snapshot", snapshot_file_, snapshot_output(),
                    "Also write planned memory for pytorch.org/memory_viz: *.pickle")
            ->type_name("FILE");
        app.add_flag("--unfolded", unfolded_, "Simulate every rank instead of one of each class");
        files().reads(
            app.add_option("--costs", costs_file_,
                           "A measured trace, also of another layout or cluster, that prices ops")
                ->type_name("TRACE"));
        excerpt_.declare(app);
        app.add_option("--draws", draws_,
                       "Also the spread of steps over so many draws of stragglers and jitter")
            ->type_name("N")
            ->check(CLI::Range(std::int64_t{1}, kMostDraws, std::string{}));
        app.add_flag("--timeline", timeline_, "Print the pipeline over time instead of the report");
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        chakra_.require_sense();
        if (json_ && timeline_) throw UsageError("--json and --timeline exclude each other");
        if (excerpt_.any() && trace_file_.empty())
            throw UsageError("--ranks, --steps, --kinds and --max-size need --trace");
        excerpt_.check(trace_file_.typed());
        plan::ReadResult read = input_.read(console, json_);
        if (!read.scenario) return exit_code_of(read);
        std::optional<plan::Plan> own;  // whose ops are written
        if (chakra_.wanted() && input_.plan() == nullptr) own = plan::build_plan(*read.scenario);
        const plan::Plan* const plan = own ? &*own : input_.plan();
        SimulationQuestion question;
        question.unfolded = unfolded_;
        question.costs_file = costs_file_;
        question.scenario_file = input_.file;
        question.draws = draws_;
        question.keep_trace =
            !trace_file_.empty() || !snapshot_file_.empty() || chakra_.wanted() || timeline_;
        question.plan = plan;
        const Simulation simulation = simulated(std::move(read), question);
        for (const std::string& warning : simulation.warnings)
            console.err << "orrery simulate: warning: " << warning << '\n';
        const sim::Prediction& prediction = simulation.prediction;
        ReportInput report = simulation.report(input_);
        if (!timeline_ || csv_.wanted()) report.ask_further(simulation.read, name(), console);
        print(report, console);
        if (prediction.stuck.empty()) csv_.write([&] { return report_json(report); });
        if (!trace_file_.empty()) excerpt_.write(prediction.trace, trace_file_, name(), console);
        if (!snapshot_file_.empty()) write_snapshot(report.scenario, prediction);
        if (!prediction.stuck.empty()) return kExitInternal;
        if (chakra_.wanted()) chakra_.write(*plan, &prediction.trace);
        return prediction.memory.verdict == sim::Verdict::exceeds ? kExitInfeasible : kExitOk;
    }

  private:
    void write_snapshot(const plan::Scenario& scenario, const sim::Prediction& prediction) const {
        std::optional<plan::Plan> built;
        if (input_.plan() == nullptr) built = plan::build_plan(scenario);
        const plan::Plan& plan = built ? *built : *input_.plan();
        trace::write_file(snapshot_file_.path(), trace::memory_snapshot(plan, prediction.trace));
    }

    void print(const ReportInput& report, Console& console) const {
        const sim::Prediction& prediction = report.prediction;
        if (!prediction.stuck.empty()) {
            console.err << "orrery simulate: internal error: the plan deadlocks\n"
                        << prediction.stuck;
            if (json_) console.out << report_json(report);
            return;
        }
        if (json_)
            console.out << report_json(report);
        else if (timeline_)
            console.out << headline_text(report, console) << '\n'
                        << trace::timeline_text(prediction.trace,
                                                {console.columns, console.colour});
        else
            console.out << report_text(report, console);
        if (prediction.memory.verdict == sim::Verdict::exceeds)
            console.err << "orrery simulate: the layout does not fit into the device's memory\n";
    }

    ScenarioInput input_;
    OutputPath trace_file_;
    ChakraOutput chakra_;
    OutputPath snapshot_file_;
    TraceExcerpt excerpt_;
    std::string costs_file_;
    std::int64_t draws_ = 0;
    CsvOutput csv_;
    bool json_ = false;
    bool unfolded_ = false;
    bool timeline_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> simulate_command() {
    return std::make_unique<Simulate>();
}

}  // namespace orrery::cli
