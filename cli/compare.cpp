// orrery compare: a predicted step and the measured one, op by op.
#include "cli/compare.hpp"

#include <algorithm>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/csv_output.hpp"
#include "cli/measured_costs.hpp"
#include "cli/report_sections.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/exit_code.hpp"
#include "sim/fleet/goodput.hpp"
#include "sim/prediction.hpp"
#include "sim/replay/measured.hpp"
#include "trace/formats/chrome.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace {

// A prediction that was written down, or is made on the spot.
struct Predicted {
    trace::Trace trace;
    std::string from;
};

// A trace of another program may say nothing of the scenario that people could read.
std::string readable_scenario(const trace::Trace& trace) {
    const auto scenario = nlohmann::json::parse(trace.scenario_json, nullptr, false);
    return scenario.is_object() ? trace.scenario_json : "{}";
}

class Compare : public Subcommand {
  public:
    std::string name() const override { return "compare"; }
    std::string summary() const override {
        return "Hold a measured step against the predicted one, op by op";
    }
    std::vector<std::string> examples() const override {
        return {"compare scenarios/runs/tiny-gpt.json measured.orrery",
                "compare run.json measured.orrery --set layout.zero_stage=1 --top 30",
                "compare predicted.orrery measured.orrery --json",
                "compare run.json measured.orrery --csv ops.csv --table ops"};
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
        csv_.declare(app, files(),
                     {{"summary", "", "step.predicted_s,step.measured_s", true},
                      {"accounts", "/accounts", "account,predicted_s,measured_s"},
                      {"communication", "/communication", "group,predicted_s,measured_s"},
                      {"kinds", "/kinds", "kind,predicted_s,measured_s"},
                      {"ops", "/ops", "block,label,kind"},
                      {"streams", "/streams", "stream,predicted_s,measured_s"},
                      {"storage", "/storage", "fact,predicted,measured"}});
        app.add_option("--top", top_, "Ops to list: of the text 10, of --json all, if not given")
            ->check(CLI::PositiveNumber)
            ->type_name("N");
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        const trace::Trace measured = trace::read_trace(measured_);
        Predicted predicted;
        if (is_trace(input_.file)) {
            predicted = from_trace();
        } else {
            const plan::ReadResult read = input_.read(console, json_);
            if (!read.scenario) return exit_code_of(read);
            predicted = simulated(read, console);
        }
        const compare::Comparison comparison = compare::compare_traces(predicted.trace, measured);
        const ComparisonReport report{
            comparison,
            predicted.from,
            fmt::format("{}: {} ranks{}", measured_, comparison.ranks,
                        comparison.backend.empty() ? "" : ", backend " + comparison.backend),
            predicted.trace.facts.prices,
            top_,
            readable_scenario(predicted.trace)};
        console.out << (json_ ? comparison_json(report) : comparison_text(report, console));
        csv_.write([&] { return comparison_json(report); });
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

    Predicted simulated(const plan::ReadResult& read, Console& console) const {
        const sim::Profile profile = sim::load_profiles(read.scenario->cluster);
        std::optional<sim::MeasuredCosts> costs;
        std::vector<std::string> warnings;
        if (!costs_.empty()) costs.emplace(read_costs(costs_, input_.file, warnings));
        for (const std::string& warning : warnings)
            console.err << "orrery compare: warning: " << warning << '\n';
        sim::Prediction prediction = sim::simulate(
            *read.scenario, profile, {false, costs ? &*costs : nullptr}, read.resolved_json);
        if (!prediction.stuck.empty())
            throw std::runtime_error("the plan deadlocks\n" + prediction.stuck);
        prediction.trace.facts.storage = sim::storage_facts(*read.scenario, prediction);
        if (prediction.prices) prediction.trace.facts.prices = prices_text(*prediction.prices);
        return {std::move(prediction.trace), fmt::format("{}, simulated", input_.arguments())};
    }

    Predicted from_trace() const {
        if (!input_.sets.empty())
            throw UsageError("--set: PREDICTED is a trace, and only a scenario has keys to set");
        if (!costs_.empty())
            throw UsageError("--costs: PREDICTED is a trace, and only a scenario is simulated");
        return {trace::read_trace(input_.file), input_.file};
    }

    ScenarioInput input_;
    std::string measured_;
    std::string costs_;
    CsvOutput csv_;
    bool json_ = false;
    std::size_t top_ = 0;
};

}  // namespace

std::unique_ptr<Subcommand> compare_command() {
    return std::make_unique<Compare>();
}

}  // namespace orrery::cli
