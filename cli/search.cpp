// orrery search: which layout of a model on a cluster is fastest, among all that fit.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/completed_values.hpp"
#include "cli/csv_output.hpp"
#include "cli/output_kinds.hpp"
#include "cli/progress.hpp"
#include "cli/search_question.hpp"
#include "cli/subcommand.hpp"
#include "plan/exit_code.hpp"
#include "trace/atomic_file.hpp"

namespace orrery::cli {
namespace {

std::atomic<bool> interrupted = false;

void interrupt(int /*signal*/) {
    interrupted.store(true);
}

// While it lives an interrupt ends the search and not the program.
class CatchInterrupt {
  public:
    CatchInterrupt() : before_(std::signal(SIGINT, interrupt)) { interrupted.store(false); }
    ~CatchInterrupt() { std::signal(SIGINT, before_); }
    CatchInterrupt(const CatchInterrupt&) = delete;
    CatchInterrupt& operator=(const CatchInterrupt&) = delete;

  private:
    void (*before_)(int);
};

class Search : public Subcommand {
  public:
    std::string name() const override { return "search"; }
    std::string summary() const override {
        return "Find the fastest layout among all that fit the cluster";
    }
    std::vector<std::string> examples() const override {
        return {
            "search scenarios/runs/llama3-70b-h100x256.json",
            "search run.json --top 3 --explain",
            "search run.json --vary layout.pipeline_parallel=1,2,4 --vary layout.zero_stage=0..3",
            "search run.json --vary cluster.nodes=16..64*2 --objective tokens_per_s_per_gpu",
            "search run.json --write best.json",
            "search run.json --csv layouts.csv --table layouts"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        app.add_option("--vary", question_.varies,
                       "Try these values of a key; without, and without a key that is \"auto\", "
                       "all usual layouts; repeatable")
            ->type_name("KEY=VALUES")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false)
            ->check(completed_by(WordSource::settings));
        app.add_option("--top", question_.options.top, "List so many layouts")
            ->type_name("N")
            ->check(CLI::Range(std::size_t{1}, kMostListed));
        app.add_option("--objective", question_.objective,
                       "step_time, tokens_per_s_per_gpu, "
                       "cost_per_token or energy")
            ->type_name("WORD")
            ->check(completed_by(objective_words()));
        app.add_option("--fit-probability", question_.options.least_fit_probability,
                       "What fits at least so probably counts as fitting")
            ->type_name("P")
            ->check(CLI::Range(0.0, 1.0));
        app.add_option("--memory-margin", question_.memory_margin_percent,
                       "What fits leaves so much of the device's memory free")
            ->type_name("PERCENT")
            ->check(CLI::Range(0.0, kMostMarginPercent));
        app.add_flag("--explain", explain_,
                     "Compare the best with the next one and the file's own layout");
        files()
            .writes(app, "--write", output_, scenario_output(),
                    "Write the best as a scenario, for simulate and train")
            ->type_name("FILE");
        app.add_flag("--json", json_, "Print one JSON object");
        csv_.declare(app, files(),
                     {{"summary", "", "evaluated,priced", true},
                      {"layouts", "/layouts", "step_time_s,peak_bytes,verdict,mfu"},
                      {"own", "/own", "better_by_estimate,step_time_s", true},
                      {"pareto", "/pareto", "step_time_s,peak_bytes,fit_probability"},
                      {"nearest", "/nearest", "peak_bytes,fit_probability,step_time_s"},
                      {"infeasible", "/infeasible", "constraint,layouts"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        const CatchInterrupt catching;
        sim::SearchOptions& options = question_.options;
        options.stop = &interrupted;
        std::optional<Progress> progress;
        progress.emplace(console, name(), "pricing layouts");
        options.progress = [&](double done) { progress->at(done); };
        bool simulating = false;
        options.simulating = [&](double done) {
            if (!simulating) progress.emplace(console, name(), "simulating those that may be best");
            simulating = true;
            progress->at(done);
        };
        const SearchAnswer answer = searched(input_, question_);
        progress.reset();
        if (const LayoutSearch& search = answer.search; !search.errors.empty()) {
            console.err << plan::format_text(search.errors);
            if (json_) console.out << plan::format_json(search.errors);
            return search.unreadable ? kExitUnreadable : kExitInvalidScenario;
        }
        const sim::SearchResult& result = answer.result;
        const SearchReport report = answer.report(input_, explain_);
        console.out << (json_ ? search_json(report) : search_text(report, console));
        csv_.write([&] { return search_json(report); });
        if (!output_.empty() && !result.layouts.empty())
            trace::write_file(output_.path(), input_.assembled(result.layouts.front().sets));
        if (result.stopped) return kExitInterrupted;
        if (!result.layouts.empty()) return kExitOk;
        console.err << "orrery search: " << why_none(result) << '\n';
        return kExitInfeasible;
    }

  private:
    // Whether it is memory, or the rule that most of them break.
    static std::string why_none(const sim::SearchResult& result) {
        if (result.priced > 0 || result.infeasible.empty()) return "no layout fits";
        const auto most = std::max_element(
            result.infeasible.begin(), result.infeasible.end(),
            [](const auto& a, const auto& b) { return a.second.layouts < b.second.layouts; });
        return fmt::format("none of {} is a layout of this model and cluster; {} break {}: {}",
                           result.evaluated, most->second.layouts, most->first,
                           most->second.message);
    }

    ScenarioInput input_;
    SearchQuestion question_;
    OutputPath output_;
    bool explain_ = false;
    CsvOutput csv_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> search_command() {
    return std::make_unique<Search>();
}

}  // namespace orrery::cli
