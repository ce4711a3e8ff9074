// orrery report: a prediction as one page that opens offline.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/output_kinds.hpp"
#include "cli/page/page.hpp"
#include "cli/progress.hpp"
#include "cli/run_goodput.hpp"
#include "cli/subcommand.hpp"
#include "plan/check.hpp"
#include "plan/exit_code.hpp"
#include "trace/atomic_file.hpp"

namespace orrery::cli {
namespace {

class Report : public Subcommand {
  public:
    std::string name() const override { return "report"; }
    std::string summary() const override {
        return "Write a prediction as a page for the browser, with a timeline";
    }
    std::vector<std::string> examples() const override {
        return {"report scenarios/runs/gpt3-175b-a100x1024.json -o step.html",
                "report run.json --search --set training.sequence_length=8192 -o layouts.html"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        input_.declare_routing(app, files());
        files()
            .writes(app, "-o,--output", output_, page_output(), "The page to write: *.html")
            ->type_name("FILE")
            ->required();
        app.add_flag("--search", search_, "Search the layout, too, and show the Pareto front");
    }

    int run(Console& console) override {
        const plan::ReadResult read = input_.read(console, false);
        if (!read.scenario) return exit_code_of(read);
        const sim::Profile profile = sim::load_profiles(read.scenario->cluster);
        const sim::Prediction prediction =
            sim::simulate(*read.scenario, profile, {}, read.resolved_json);
        if (!prediction.stuck.empty()) {
            console.err << "orrery report: internal error: the plan deadlocks\n"
                        << prediction.stuck;
            return kExitInternal;
        }
        ReportInput report{*read.scenario, profile, prediction, input_, read.resolved_json};
        report.ask_further(read, name(), console);
        const Explanation explanation = explained(report, name(), console);
        const std::optional<sim::Goodput> goodput = goodput_of(*read.scenario, prediction);
        const sim::GoodputOptions drawn;
        std::optional<GoodputReport> days;
        if (goodput)
            days.emplace(GoodputReport{*read.scenario, prediction, *goodput, drawn, "", false});
        PageInput page{explanation, nullptr, days ? &*days : nullptr};
        if (search_)
            write(with_search(page, console), console);
        else
            write(page_html(page), console);
        if (prediction.memory.verdict != sim::Verdict::exceeds) return kExitOk;
        console.err << "orrery report: the layout does not fit into the device's memory\n";
        return kExitInfeasible;
    }

  private:
    // None where the scenario says nothing of failures, or not how long the run is.
    std::optional<sim::Goodput> goodput_of(const plan::Scenario& scenario,
                                           const sim::Prediction& prediction) const {
        if (!scenario.reliability || sim::steps_of_run(scenario) <= 0) return std::nullopt;
        return run_goodput(input_, scenario, prediction, {});
    }

    std::string with_search(PageInput page, const Console& console) const {
        const LayoutSearch search = layout_search(input_, {});
        ORRERY_CHECK(search.errors.empty(), "a scenario that is sound can be searched");
        Progress progress(console, name(), "pricing layouts");
        sim::SearchOptions options;
        options.progress = [&](double done) { progress.at(done); };
        const sim::SearchResult result = sim::search(search.bases, options);
        const SearchReport found{input_, search, options, result, 0, own_layout(input_)};
        page.search = &found;
        return page_html(page);
    }

    void write(const std::string& page, const Console& console) const {
        trace::write_file(output_.path(), page);
        console.err << fmt::format("orrery report: {}, {:.1f} MB; a browser opens it\n",
                                   output_.typed(), static_cast<double>(page.size()) / 1e6);
    }

    ScenarioInput input_;
    OutputPath output_;
    bool search_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> report_command() {
    return std::make_unique<Report>();
}

}  // namespace orrery::cli
