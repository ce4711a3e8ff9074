// orrery sweep: what changes with one key of a scenario, or with several.
#include "cli/sweep.hpp"

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <CLI/CLI.hpp>

#include <exception>

#include "cli/completed_values.hpp"
#include "cli/csv_output.hpp"
#include "cli/layout_search.hpp"
#include "cli/output_kinds.hpp"
#include "cli/progress.hpp"
#include "cli/subcommand.hpp"
#include "plan/exit_code.hpp"
#include "trace/atomic_file.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kMostPoints = 10'000;

std::vector<std::string> values_of(const std::vector<std::string>& sets) {
    std::vector<std::string> values;
    for (const std::string& set : sets)
        values.push_back(set.substr(set.find('=') + 1));
    return values;
}

class SweepCommand : public Subcommand {
  public:
    std::string name() const override { return "sweep"; }
    std::string summary() const override {
        return "Predict a step for each value of one or more keys";
    }
    std::vector<std::string> examples() const override {
        return {
            "sweep scenarios/runs/llama3-70b-h100x256.json "
            "--vary layout.pipeline_parallel=1,2,4,8",
            "sweep run.json --vary cluster.nodes=16..256*2 --metric tokens_per_s "
            "--svg scaling.svg",
            "sweep run.json --vary cluster.nodes=16..64*2 "
            "--vary cluster.inter_node.bandwidth_Gbps=100..800*2 --search --csv sweep.csv"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        app.add_option("--vary", varies_, "A key and its values: 1,2,4 or 16..256*2; repeatable")
            ->type_name("KEY=VALUES")
            ->required()
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false)
            ->check(completed_by(WordSource::settings));
        app.add_flag("--search", search_, "At each point the best layout that fits");
        app.add_option("--metric", metric_, "What is drawn: " + metric_names())
            ->type_name("WORD")
            ->check(completed_by(metric_names()));
        files()
            .writes(app, "--svg", svg_, svg_output(),
                    "Write a chart: lines of one key, a heat map of two")
            ->type_name("FILE");
        csv_.declare(app, files(), {{"points", "/points", "", false, is_sweep_csv}});
        app.add_flag("--json", json_, "Print one JSON object");
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        const Metric& metric = chosen_metric();
        const std::vector<Vary> varies = parse_all_varies(varies_);
        if (!svg_.empty() && varies.size() > 2)
            throw UsageError("--svg draws one key or two; --csv takes any number");
        const auto all = combinations(varies, kMostPoints);
        std::vector<SweepPoint> points(all.size());
        Progress progress(console, name(), "simulating points");
        // Reading may time this computer, once: not in parallel.
        for (std::size_t i = 0; i < points.size(); ++i)
            if (search_)
                points[i].values = values_of(all[i]);
            else
                points[i] = read_point(input_, all[i]);
        if (search_)
            search(varies, points);
        else
            tbb::parallel_for(std::size_t{0}, all.size(), [&](std::size_t i) {
                if (points[i].scenario) simulate_point(points[i]);
            });
        const Sweep sweep{input_, varies, points, metric, search_};
        const bool any = std::any_of(points.begin(), points.end(), [](const SweepPoint& point) {
            return point.scenario.has_value();
        });
        if (!any) return refuse(points, console);
        console.out << (json_ ? sweep_json(sweep) : sweep_text(sweep, console));
        if (!svg_.empty()) trace::write_file(svg_.path(), sweep_svg(sweep));
        csv_.write_text([&] { return sweep_csv(sweep); });
        return kExitOk;
    }

  private:
    static std::string metric_names() {
        std::string names;
        for (const Metric& metric : metrics())
            names += (names.empty() ? "" : ", ") + std::string(metric.name);
        return names;
    }

    const Metric& chosen_metric() const {
        for (const Metric& metric : metrics())
            if (metric_ == metric.name) return metric;
        throw UsageError(fmt::format("--metric {}: one of {}", metric_, metric_names()));
    }

    // One search of all points, which share what they can.
    void search(const std::vector<Vary>& varies, std::vector<SweepPoint>& points) const {
        LayoutSearch search = layout_search_of_each(input_, varies);
        for (std::size_t i = 0; i < points.size(); ++i) {
            points[i].errors = search.errors_of_each[i];
            points[i].why =
                points[i].errors.empty() ? "no layout fits" : points[i].errors.front().message;
        }
        sim::SearchOptions options;
        options.top = 1;
        options.of_each_base = true;
        sim::SearchResult result = sim::search(search.bases, options);
        for (sim::FoundLayout& best : result.layouts) {
            SweepPoint& point = points[search.number_of_base[best.price.base]];
            point.scenario = std::move(best.scenario);
            point.prediction = std::move(best.prediction);
            point.layout = std::move(best.sets);
        }
    }

    int refuse(const std::vector<SweepPoint>& points, Console& console) const {
        const SweepPoint& first = points.front();
        if (first.errors.empty()) {
            console.err << "orrery sweep: " << first.why << " at any point\n";
            return kExitInfeasible;
        }
        console.err << plan::format_text(first.errors);
        if (json_) console.out << plan::format_json(first.errors);
        if (points.size() > 1)
            console.err << fmt::format(
                "orrery sweep: none of the {} points is a valid scenario; "
                "this is what is wrong with the first\n",
                points.size());
        return kExitInvalidScenario;
    }

    ScenarioInput input_;
    std::vector<std::string> varies_;
    std::string metric_ = "step_time_s";
    OutputPath svg_;
    CsvOutput csv_;
    bool search_ = false;
    bool json_ = false;
};

}  // namespace

SweepPoint read_point(const ScenarioInput& input, const std::vector<std::string>& sets) {
    SweepPoint point;
    point.values = values_of(sets);
    plan::ReadResult read = input.read_all_with(sets);
    point.scenario = std::move(read.scenario);
    point.errors = std::move(read.errors);
    if (!point.scenario) point.why = point.errors.front().message;
    return point;
}

void simulate_point(SweepPoint& point, const std::atomic<bool>* stop) {
    const sim::Profile profile = sim::load_profiles(point.scenario->cluster);
    sim::SimulateOptions options;
    options.keep_trace = false;
    options.part_waiting = false;
    options.stop = stop;
    point.prediction = sim::simulate(*point.scenario, profile, options, "");
}

std::unique_ptr<Subcommand> sweep_command() {
    return std::make_unique<SweepCommand>();
}

}  // namespace orrery::cli
