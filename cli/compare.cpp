// orrery compare: a predicted step and the measured one, op by op.
#include "cli/compare.hpp"

#include <algorithm>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "calib/compare/measured_facts.hpp"
#include "cli/machine_files.hpp"
#include "cli/report_sections.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/exit_code.hpp"
#include "sim/prediction.hpp"
#include "sim/replay/measured.hpp"
#include "trace/formats/chrome.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace {

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

// A prediction that was written down, or is made on the spot.
struct Predicted {
    trace::Trace trace;
    plan::ReadResult read;
    sim::Profile profile;
    std::string from;
    std::string prices;  // of measured costs; empty: the profile's
};

class Compare : public Subcommand {
  public:
    std::string name() const override { return "compare"; }
    std::string summary() const override {
        return "Hold a measured step against the predicted one, op by op";
    }
    std::vector<std::string> examples() const override {
        return {"compare scenarios/runs/tiny-gpt.json measured.orrery",
                "compare run.json measured.orrery --set layout.zero_stage=1 --top 30",
                "compare predicted.orrery measured.orrery --json"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files(), "PREDICTED", "--set");
        app.get_option("PREDICTED")->description("A predicted trace, or a scenario to simulate");
        files().reads(app.add_option("MEASURED", measured_, "A measured trace")
                          ->required()
                          ->option_text(" "));
        files().reads(app.add_option("--costs", costs_,
                                     "A measured trace that prices the simulation of PREDICTED")
                          ->type_name("TRACE"));
        app.add_flag("--json", json_, "Print one JSON object");
        app.add_option("--top", top_, "Ops to list: of the text 10, of --json all, if not given")
            ->check(CLI::PositiveNumber)
            ->type_name("N");
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        const trace::Trace measured = trace::read_trace(measured_);
        const Predicted predicted =
            is_trace(input_.file) ? from_trace(console) : simulated(console);
        if (!predicted.read.scenario) return exit_code_of(predicted.read);
        const plan::Scenario& scenario = *predicted.read.scenario;
        const plan::Plan plan = plan::build_plan(scenario);
        const sim::MemoryPrediction memory = sim::predict_memory(plan, scenario, predicted.profile);
        const compare::Comparison comparison = compare::compare_traces(
            predicted.trace, plan, scenario.cluster, memory, measured, measured_);
        const ComparisonReport report{
            comparison,
            predicted.from,
            fmt::format("{}: {} ranks{}", measured_, comparison.ranks,
                        comparison.backend.empty() ? "" : ", backend " + comparison.backend),
            predicted.prices.empty() ? "profile " + file_name(scenario.cluster.profile_path)
                                     : predicted.prices,
            top_,
            predicted.read.resolved_json};
        console.out << (json_ ? comparison_json(report) : comparison_text(report, console));
        return kExitOk;
    }

  private:
    // Scenarios and Chrome's traces are both JSON; ours begin with a key of their own.
    static bool is_trace(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        std::string head(64, '\0');
        file.read(head.data(), static_cast<std::streamsize>(head.size()));
        head.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
        const std::size_t first = head.find_first_not_of(" \t\r\n");
        if (first == std::string::npos || head[first] != '{')
            return trace::format_of_name(path).has_value() && !ends_in_json(path);
        return head.compare(first, trace::kChromeBegin.size(), trace::kChromeBegin) == 0;
    }

    static bool ends_in_json(const std::string& path) {
        return trace::format_of_name(path) == trace::TraceFormat::chrome;
    }

    Predicted simulated(Console& console) const {
        Predicted predicted;
        predicted.read = input_.read(console, json_);
        if (!predicted.read.scenario) return predicted;
        predicted.profile = sim::load_profile(predicted.read.scenario->cluster.profile_path);
        std::optional<sim::MeasuredCosts> costs;
        if (!costs_.empty()) costs.emplace(trace::read_trace(costs_), costs_);
        sim::Prediction prediction =
            sim::simulate(*predicted.read.scenario, predicted.profile,
                          {false, costs ? &*costs : nullptr}, predicted.read.resolved_json);
        if (!prediction.stuck.empty())
            throw std::runtime_error("the plan deadlocks\n" + prediction.stuck);
        if (prediction.prices) predicted.prices = prices_text(*prediction.prices);
        predicted.trace = std::move(prediction.trace);
        predicted.from = fmt::format("{}, simulated", input_.arguments());
        return predicted;
    }

    Predicted from_trace(Console& console) const {
        if (!input_.sets.empty())
            throw UsageError("--set: PREDICTED is a trace, and only a scenario has keys to set");
        if (!costs_.empty())
            throw UsageError("--costs: PREDICTED is a trace, and only a scenario is simulated");
        Predicted predicted;
        predicted.trace = trace::read_trace(input_.file);
        predicted.read = plan::read_scenario_text(
            compare::scenario_text(predicted.trace, input_.file), input_.file,
            folder_of(input_.file), {}, library_folder(), MachineFiles(nullptr));
        if (!predicted.read.scenario) {
            console.err << plan::format_text(predicted.read.errors);
            if (json_) console.out << plan::format_json(predicted.read.errors);
            return predicted;
        }
        predicted.profile = sim::load_profile(predicted.read.scenario->cluster.profile_path);
        predicted.from = input_.file;
        return predicted;
    }

    ScenarioInput input_;
    std::string measured_;
    std::string costs_;
    bool json_ = false;
    std::size_t top_ = 0;
};

}  // namespace

std::unique_ptr<Subcommand> compare_command() {
    return std::make_unique<Compare>();
}

}  // namespace orrery::cli
