// orrery size: which cluster for a run of so many tokens, by a deadline, within a budget.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "cli/chart.hpp"
#include "cli/json_values.hpp"
#include "cli/layout_search.hpp"
#include "cli/output_kinds.hpp"
#include "cli/progress.hpp"
#include "cli/quantity.hpp"
#include "cli/search_report.hpp"
#include "cli/subcommand.hpp"
#include "cli/text_table.hpp"
#include "plan/exit_code.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

// "30d", "72h", "6w"; a number alone is days.
double days_of(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    if (error == std::errc() && value > 0) {
        if (unit.empty() || unit == "d") return value;
        if (unit == "h") return value / 24;
        if (unit == "w") return value * 7;
    }
    throw UsageError(
        fmt::format("--deadline {}: a time above 0 is expected, e.g. 30d, 72h or 6w", text));
}

// One cluster of so many devices, with its best layout.
struct Option {
    std::string cluster;  // as it was asked for; empty: the file's own
    std::int64_t gpus = 0;
    std::optional<sim::FoundLayout> best;
    std::string why;             // there is none
    double gpu_hours_ratio = 1;  // over those of the fewest devices of this cluster
    std::string lost_to;         // the account that grew most since
    bool meets = false;          // deadline and budget

    const sim::RunPrediction& run() const { return best->prediction.run; }
    double days() const { return *run().days; }
    double days_at(double step_s) const { return days() * step_s / best->prediction.step.time_s; }
    std::optional<double> carbon_t(double grams_per_kwh) const {
        if (!run().energy_mwh || grams_per_kwh <= 0) return std::nullopt;
        return *run().energy_mwh * grams_per_kwh * 1e-3;  // MWh × g/kWh = kg
    }
};

class Size : public Subcommand {
  public:
    std::string name() const override { return "size"; }
    std::string summary() const override {
        return "Say how many GPUs of which kind a run needs: days, cost, energy";
    }
    std::vector<std::string> examples() const override {
        return {"size scenarios/runs/llama3-70b-h100x256.json --tokens 2e12 --deadline 60d",
                "size run.json --tokens 15e12 --gpus 256..4096*2 --budget 5e7 --svg size.svg",
                "size run.json --tokens 1e12 --cluster clusters/h100-sxm-256.json "
                "--cluster clusters/a100-80gb-sxm-1024.json --gpus 128,256,512"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        app.add_option("--tokens", tokens_, "Of the run; else the scenario's training.tokens")
            ->type_name("N");
        app.add_option("--deadline", deadline_text_, "What ends in time: 30d, 72h, 6w")
            ->type_name("TIME");
        app.add_option("--budget", budget_, "What the whole run may cost")->type_name("USD");
        app.add_option("--gpus", gpus_,
                       "Numbers of GPUs: 64,128 or 64..4096*2; else a quarter to four times those "
                       "of the scenario")
            ->type_name("VALUES");
        app.add_option("--cluster", clusters_,
                       "A cluster of the library instead of the scenario's; repeatable")
            ->type_name("NAME")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false);
        app.add_option("--carbon-intensity", grams_per_kwh_, "Of the grid, grams of CO2 per kWh")
            ->type_name("N");
        files()
            .writes(app, "--svg", svg_, svg_output(), "Write a chart of days over GPUs")
            ->type_name("FILE");
        app.add_flag("--json", json_, "Print one JSON object");
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        if (!deadline_text_.empty()) deadline_ = days_of(deadline_text_);
        require_sense();
        if (clusters_.empty()) clusters_.emplace_back();
        std::vector<Option> options;
        std::vector<std::vector<std::string>> combinations;
        for (const std::string& cluster : clusters_) {
            const plan::UnsettledScenario read = input_.read_unsettled(of_cluster(cluster));
            if (!read.scenario) return refuse(read.errors, read.unreadable, console);
            if (!tokens_ && read.scenario->training.tokens <= 0)
                throw UsageError("--tokens N: the scenario does not say how many the run has");
            for (const std::int64_t gpus : counts_of(*read.scenario)) {
                options.push_back({cluster, gpus, {}, {}, 1, {}, false});
                combinations.push_back(of_cluster(cluster));
                combinations.back().push_back(fmt::format(
                    "cluster.nodes={}", gpus / read.scenario->cluster.devices_per_node));
            }
        }
        LayoutSearch search = layout_search_of_each(input_, combinations);
        if (search.bases.empty()) return refuse(search.errors_of_each.front(), false, console);
        Progress progress(console, name(), "pricing layouts");
        sim::SearchOptions how;
        how.top = 1;
        how.of_each_base = true;
        how.progress = [&](double done) { progress.at(done); };
        sim::SearchResult result = sim::search(search.bases, how);
        for (std::size_t i = 0; i < options.size(); ++i)
            options[i].why = search.errors_of_each[i].empty()
                                 ? "no layout fits"
                                 : search.errors_of_each[i].front().message;
        for (sim::FoundLayout& found : result.layouts)
            options[search.number_of_base[found.price.base]].best = std::move(found);
        judge(options);
        console.out << (json_ ? json_of(options) : text_of(options, console));
        if (!svg_.empty()) trace::write_file(svg_.path(), svg_of(options));
        if (best(options, by_gpus)) return kExitOk;
        console.err << "orrery size: no cluster that was tried " << why_none(options) << '\n';
        return kExitInfeasible;
    }

  private:
    void require_sense() const {
        if (tokens_ && !(*tokens_ > 0))
            throw UsageError(fmt::format("--tokens {:g}: a number above 0 is expected", *tokens_));
        if (budget_ && !(*budget_ >= 0))
            throw UsageError(fmt::format("--budget {:g}: money is 0 or more", *budget_));
        if (!(grams_per_kwh_ >= 0))
            throw UsageError(
                fmt::format("--carbon-intensity {:g}: grams are 0 or more", grams_per_kwh_));
    }

    // What is asked for, and the nearest to it.
    std::string why_none(std::vector<Option> options) const {
        const bool any = std::any_of(options.begin(), options.end(),
                                     [](const Option& option) { return option.best.has_value(); });
        if (!any) return "has a layout that fits";
        for (Option& option : options)
            option.meets = option.best.has_value();
        std::string why = "meets the deadline and the budget";
        if (deadline_)
            why += fmt::format("; the fastest takes {} days, the deadline is {}",
                               digits_text(options[*best(options, by_days)].days()),
                               digits_text(*deadline_));
        const std::optional<double> cost = options[*best(options, by_cost)].run().cost_usd;
        if (budget_ && cost)
            why += fmt::format("; the cheapest costs {} USD, the budget is {}", counted_text(*cost),
                               counted_text(*budget_));
        if (budget_ && !cost)
            why += "; no price is known: --set cluster.price_usd_per_gpu_hour=USD says one";
        return why;
    }

    std::vector<std::string> of_cluster(const std::string& cluster) const {
        std::vector<std::string> sets;
        if (!cluster.empty()) sets.push_back("cluster=" + cluster);
        if (tokens_) sets.push_back(fmt::format("training.tokens={}", *tokens_));
        return sets;
    }

    int refuse(const std::vector<plan::Diagnostic>& errors, bool unreadable,
               Console& console) const {
        console.err << plan::format_text(errors);
        if (json_) console.out << plan::format_json(errors);
        return unreadable ? kExitUnreadable : kExitInvalidScenario;
    }

    // Whole nodes.
    std::vector<std::int64_t> counts_of(const plan::Scenario& scenario) const {
        const std::int64_t per_node = scenario.cluster.devices_per_node;
        std::vector<std::int64_t> counts;
        if (gpus_.empty()) {
            const std::int64_t now = scenario.cluster.devices();
            for (const std::int64_t count : {now / 4, now / 2, now, 2 * now, 4 * now})
                if (count > 0 && count % per_node == 0) counts.push_back(count);
            return counts;
        }
        for (const std::string& text : parse_vary("--gpus=" + gpus_).values) {
            std::int64_t count = 0;
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), count);
            if (error != std::errc() || end != text.data() + text.size() || count <= 0)
                throw UsageError(fmt::format("--gpus {}: whole numbers above 0", gpus_));
            if (count % per_node != 0)
                throw UsageError(fmt::format("--gpus {}: {} is no whole number of nodes of {}",
                                             gpus_, count, per_node));
            counts.push_back(count);
        }
        std::sort(counts.begin(), counts.end());
        return counts;
    }

    void judge(std::vector<Option>& options) const {
        const Option* fewest = nullptr;
        for (Option& option : options) {
            if (!option.best) continue;
            if (fewest == nullptr || fewest->cluster != option.cluster) fewest = &option;
            option.gpu_hours_ratio = *option.run().gpu_hours / *fewest->run().gpu_hours;
            option.lost_to = grown_most(*fewest, option);
            option.meets =
                (!deadline_ || option.days() <= *deadline_) &&
                (!budget_ || (option.run().cost_usd && *option.run().cost_usd <= *budget_));
        }
    }

    // Of the step's accounts but compute, whose share has grown most.
    static std::string grown_most(const Option& before, const Option& now) {
        double most = 0.002;  // less is nothing
        std::string account;
        for (std::size_t a = 1; a < trace::kAccounts; ++a) {
            const auto share = [&](const Option& option) {
                const sim::StepPrediction& step = option.best->prediction.step;
                return step.breakdown_s[a] / step.time_s;
            };
            const double more = share(now) - share(before);
            if (more <= most) continue;
            most = more;
            account = trace::name(static_cast<trace::Account>(a));
        }
        return account;
    }

    static double by_gpus(const Option& option) { return static_cast<double>(option.gpus); }
    static double by_cost(const Option& option) {
        return option.run().cost_usd.value_or(std::numeric_limits<double>::infinity());
    }
    static double by_days(const Option& option) { return option.days(); }

    // Of those that meet what was asked for.
    static std::optional<std::size_t> best(const std::vector<Option>& options,
                                           double (*value)(const Option&)) {
        std::optional<std::size_t> found;
        for (std::size_t i = 0; i < options.size(); ++i)
            if (options[i].meets && (!found || value(options[i]) < value(options[*found])))
                found = i;
        if (found && std::isinf(value(options[*found]))) return std::nullopt;
        return found;
    }

    std::string cluster_name(const Option& option) const {
        if (!option.cluster.empty()) {
            std::string name = file_name(option.cluster);
            return name.substr(0, name.rfind(".json"));
        }
        return option.best ? option.best->scenario.cluster.device : "the scenario's";
    }

    std::string text_of(const std::vector<Option>& options, const Console& console) const {
        std::vector<std::string> head = {"cluster",   "GPUs",    "days",     "90 % interval",
                                         "cost",      "MWh",     "t CO2",    "MFU",
                                         "GPU-hours", "lost to", "in bounds"};
        for (std::string& cell : layout_heads())
            head.push_back(std::move(cell));
        std::vector<Align> align(head.size(), Align::right);
        align[0] = Align::left;
        TextTable table(std::move(align));
        table.add(std::move(head));
        std::string remarks;
        for (const Option& option : options) {
            if (!option.best) {
                table.add({cluster_name(option), whole_text(option.gpus), "-"});
                remarks += fmt::format("  {} GPUs: {}\n", whole_text(option.gpus), option.why);
                continue;
            }
            const sim::Prediction& prediction = option.best->prediction;
            const auto or_empty = [](const std::optional<double>& value) {
                return value ? digits_text(*value) : std::string();
            };
            std::vector<std::string> row = {
                cluster_name(option),
                whole_text(option.gpus),
                digits_text(option.days()),
                fmt::format("{} to {}", digits_text(option.days_at(prediction.step.low_s)),
                            digits_text(option.days_at(prediction.step.high_s))),
                option.run().cost_usd ? "$" + whole_text(std::llround(*option.run().cost_usd)) : "",
                or_empty(option.run().energy_mwh),
                or_empty(option.carbon_t(grams_per_kwh_)),
                percent_text(prediction.throughput.mfu),
                fmt::format("x {:.2f}", option.gpu_hours_ratio),
                option.lost_to,
                option.meets ? "yes" : "no"};
            for (std::string& cell : layout_cells(option.best->scenario.layout))
                row.push_back(std::move(cell));
            table.add(std::move(row));
        }
        std::string text = console.bold("the best layout of each cluster") + '\n' + table.text();
        if (!remarks.empty()) text += '\n' + console.bold("without a layout") + '\n' + remarks;
        text += '\n';
        const auto say = [&](const char* what, std::optional<std::size_t> index) {
            if (!index) return;
            const Option& option = options[*index];
            text += fmt::format("  {:<10}{} x {}: {} days", what, whole_text(option.gpus),
                                cluster_name(option), digits_text(option.days()));
            if (option.run().cost_usd)
                text += fmt::format(", ${}", whole_text(std::llround(*option.run().cost_usd)));
            text += '\n';
        };
        say("smallest", best(options, by_gpus));
        say("cheapest", best(options, by_cost));
        say("fastest", best(options, by_days));
        text +=
            "  GPU-hours: over those of the fewest GPUs of the cluster; lost to: the account of "
            "the step whose share\n  has grown most since. Days are without failures and "
            "checkpoints.\n";
        return text;
    }

    std::string json_of(const std::vector<Option>& options) const {
        Json json;
        json["options"] = Json::array();
        for (const Option& option : options) {
            Json one;
            one["cluster"] = option.cluster.empty() ? Json(nullptr) : Json(option.cluster);
            one["gpus"] = option.gpus;
            if (!option.best) {
                one["days"] = nullptr;
                one["why"] = option.why;
                json["options"].push_back(std::move(one));
                continue;
            }
            const sim::StepPrediction& step = option.best->prediction.step;
            one["device"] = option.best->scenario.cluster.device;
            one["layout"] = Json::parse(plan::layout_text(option.best->scenario.layout));
            one["set"] = option.best->sets;
            one["step_time_s"] = step.time_s;
            one["mfu"] = option.best->prediction.throughput.mfu;
            one["days"] = option.days();
            one["interval_days"] = {option.days_at(step.low_s), option.days_at(step.high_s)};
            one["gpu_hours"] = *option.run().gpu_hours;
            one["cost_usd"] = or_null(option.run().cost_usd);
            one["energy_mwh"] = or_null(option.run().energy_mwh);
            one["carbon_t"] = or_null(option.carbon_t(grams_per_kwh_));
            one["gpu_hours_ratio"] = option.gpu_hours_ratio;
            one["lost_to"] = option.lost_to;
            one["meets"] = option.meets;
            json["options"].push_back(std::move(one));
        }
        const auto index = [&](double (*value)(const Option&)) {
            const auto found = best(options, value);
            return found ? Json(*found) : Json(nullptr);
        };
        json["smallest"] = index(by_gpus);
        json["cheapest"] = index(by_cost);
        json["fastest"] = index(by_days);
        return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
    }

    std::string svg_of(const std::vector<Option>& options) const {
        LineChart chart;
        chart.title = "Days of the run over GPUs";
        chart.x_label = "GPUs";
        chart.y_label = "days";
        chart.log_x = true;
        std::string last;
        for (const Option& option : options) {
            if (!option.best) continue;
            if (chart.lines.empty() || option.cluster != last)
                chart.lines.push_back({cluster_name(option), {}});
            last = option.cluster;
            const sim::StepPrediction& step = option.best->prediction.step;
            chart.lines.back().points.push_back({static_cast<double>(option.gpus), option.days(),
                                                 option.days_at(step.low_s),
                                                 option.days_at(step.high_s)});
            chart.subtitle = fmt::format(
                "{}, {} tokens, the best layout at each point; predicted "
                "by orrery",
                option.best->scenario.model.name,
                counted_text(option.best->scenario.training.tokens));
        }
        return line_chart_svg(chart);
    }

    ScenarioInput input_;
    std::optional<double> tokens_, deadline_, budget_;
    std::string deadline_text_, gpus_;
    std::vector<std::string> clusters_;
    double grams_per_kwh_ = 0;
    OutputPath svg_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> size_command() {
    return std::make_unique<Size>();
}

}  // namespace orrery::cli
