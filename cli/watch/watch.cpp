// orrery watch: follows runs while they train.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/output_kinds.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "cli/unix_seconds.hpp"
#include "cli/watch/alerts.hpp"
#include "cli/watch/watch_report.hpp"
#include "plan/exit_code.hpp"
#include "sim/cost/profile.hpp"
#include "sim/fleet/goodput.hpp"
#include "trace/atomic_file.hpp"

namespace orrery::cli {
namespace {

constexpr std::chrono::milliseconds kLook(250);
constexpr double kRedraw_s = 1;  // on a terminal

// Of a scenario that says nothing wrong; nothing where it cannot be simulated.
std::optional<Forecast> forecast_of(const plan::ReadResult& read) {
    if (!read.scenario) return std::nullopt;
    const plan::Scenario& scenario = *read.scenario;
    sim::SimulateOptions how;
    how.keep_trace = false;
    how.part_waiting = false;
    const sim::Prediction prediction =
        sim::simulate(scenario, sim::load_profiles(scenario.cluster), how, "");
    if (!prediction.stuck.empty()) return std::nullopt;
    Forecast forecast{prediction.step.time_s, prediction.step.low_s, prediction.step.high_s,
                      std::nullopt};
    if (scenario.reliability && sim::steps_of_run(scenario) > 0)
        forecast.goodput = sim::predict_goodput(scenario, prediction, 0, {}).effective_fraction;
    return forecast;
}

class Watch : public Subcommand {
  public:
    std::string name() const override { return "watch"; }
    std::string summary() const override {
        return "Follow runs that train: progress, goodput, what is wrong, when they end";
    }
    std::vector<std::string> examples() const override {
        return {"watch run.jsonl",
                "watch a.jsonl b.jsonl --alert stall --alert slow=10 --on-alert 'notify "
                "\"$ORRERY_ALERT_RUN\"'",
                "watch --command 'ssh node7 tail -n +1 -F run.jsonl' --metrics "
                "/var/lib/node/orrery.prom"};
    }

    void declare(CLI::App& app) override {
        files().reads(
            app.add_option("FILES", paths_,
                           "Lines that train --json writes, each file a run; - is standard "
                           "input")
                ->option_text(" "));
        app.add_option(
               "--command", commands_,
               "A command that prints such lines, as ssh HOST tail -n +1 -F FILE; repeatable")
            ->type_name("COMMAND")
            ->expected(1)
            ->take_all();
        files().reads(
            app.add_option("--scenario", by_.file,
                           "Predict steps and goodput by this scenario, not the run's own")
                ->type_name("FILE"),
            [this] { return by_.file.empty() ? std::vector<std::string>() : by_.content().files; });
        app.add_flag("--once", once_, "Say what is known now, and end");
        app.add_option("--every", every_s_, "Seconds between two reports; 10 unless given")
            ->type_name("SECONDS")
            ->check(CLI::Range(0.1, 86400.0));
        app.add_option("--alert", alerts_,
                       "Tell when a run has a stall, slow=N, diverging, not-finite, straggler, "
                       "restart, goodput=N, error, end; repeatable")
            ->type_name("WORD")
            ->expected(1)
            ->take_all();
        app.add_option("--on-alert", on_alert_,
                       "A command to run for each, with ORRERY_ALERT, ORRERY_ALERT_RUN, … set")
            ->type_name("COMMAND");
        files().writes(app, "--metrics", metrics_, metrics_output(),
                       "Keep a file of metrics for Prometheus (OpenMetrics)");
        app.add_flag("--json", json_, "Print a line of JSON for each report");
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        open();
        std::optional<Alerts> alerts;
        if (!alerts_.empty() || !on_alert_.empty())
            alerts.emplace(alert_conditions(alerts_), on_alert_, console.err);
        if (!by_.file.empty()) {
            const plan::ReadResult read = by_.read(console, json_, OwnProfile::find);
            if (!read.scenario) return exit_code_of(read);
            const auto forecast = forecast_of(read);
            for (WatchedRun& run : runs_)
                run.forecast = forecast;
        }
        const bool redraws = !json_ && !once_ && ::isatty(STDOUT_FILENO) == 1 && console.live;
        std::string shown;
        double next = 0;
        for (;;) {
            const bool is_over = look();
            const double now = unix_seconds();
            for (WatchedRun& run : runs_)
                if (alerts)
                    alerts->look(run);
                else
                    run.run.news();  // nobody asks for it: it is not kept
            const bool is_last = is_over || (once_ && !came_);
            if (is_last || (!once_ && now >= next)) {
                if (redraws) console.out << erased(shown);
                shown = json_ ? watch_json(runs_, now) : watch_text(runs_, now, console);
                console.out << shown << std::flush;
                if (!metrics_.empty()) trace::write_file(metrics_.path(), watch_metrics(runs_));
                next = now + (redraws ? kRedraw_s : every_s_);
            }
            if (is_last) break;
            if (!came_) std::this_thread::sleep_for(kLook);
        }
        if (alerts) alerts->finish();
        return kExitOk;
    }

  private:
    void open() {
        if (paths_.empty() && commands_.empty())
            throw UsageError("a FILE of lines that train --json writes is expected, or --command");
        for (const std::string& path : paths_)
            add(path == "-" ? "standard input" : file_name(path),
                path == "-" ? stdin_source() : file_source(path));
        for (const std::string& command : commands_)
            add(command, command_source(command));
    }

    void add(const std::string& name, std::unique_ptr<LineSource> source) {
        runs_.emplace_back();
        runs_.back().source = std::move(source);
        const auto alike = std::count_if(names_.begin(), names_.end(),
                                         [&](const std::string& other) { return other == name; });
        names_.push_back(name);
        runs_.back().name = alike == 0 ? name : fmt::format("{} ({})", name, alike + 1);
    }

    // By the scenario that the run itself has said, once. One of another version of Orrery may not
    // be read: then there is no prediction.
    static void predict_by_own(WatchedRun& watched) {
        if (watched.forecast_asked || watched.forecast || watched.run.scenario().empty()) return;
        watched.forecast_asked = true;
        ScenarioInput input;
        input.file = watched.name;
        input.given = watched.run.scenario();
        watched.forecast = forecast_of(input.read_all_with({}, OwnProfile::find));
    }

    // Whether nothing more is to come of any run.
    bool look() {
        came_ = false;
        bool is_over = true;
        for (WatchedRun& watched : runs_) {
            came_ = watched.follow(unix_seconds()) || came_;
            predict_by_own(watched);
            is_over = is_over && (watched.run.over() || watched.source->closed());
        }
        return is_over && !came_;
    }

    // Takes the lines of what was shown away again.
    static std::string erased(const std::string& shown) {
        const auto lines = std::count(shown.begin(), shown.end(), '\n');
        return lines == 0 ? "" : fmt::format("\x1b[{}A\x1b[J", lines);
    }

    std::vector<std::string> paths_, commands_, alerts_, names_;
    ScenarioInput by_;
    std::string on_alert_;
    OutputPath metrics_;
    bool once_ = false, json_ = false, came_ = false;
    double every_s_ = 10;
    std::vector<WatchedRun> runs_;
};

}  // namespace

std::unique_ptr<Subcommand> watch_command() {
    return std::make_unique<Watch>();
}

}  // namespace orrery::cli
