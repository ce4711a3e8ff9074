// orrery size: which cluster for a run of so many tokens, by a deadline, within a budget.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <optional>

#include "cli/chart.hpp"
#include "cli/completed_values.hpp"
#include "cli/csv_output.hpp"
#include "cli/json_values.hpp"
#include "cli/output_kinds.hpp"
#include "cli/progress.hpp"
#include "cli/quantity.hpp"
#include "cli/sizing.hpp"
#include "cli/subcommand.hpp"
#include "cli/text_table.hpp"
#include "plan/exit_code.hpp"
#include "trace/atomic_file.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

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
        app.add_option("--tokens", question_.tokens,
                       "Of the run; else the scenario's training.tokens")
            ->type_name("N");
        app.add_option("--deadline", deadline_text_, "What ends in time: 30d, 72h, 6w")
            ->type_name("TIME");
        app.add_option("--budget", question_.budget_usd, "What the whole run may cost")
            ->type_name("USD");
        app.add_option("--gpus", question_.gpus,
                       "Numbers of GPUs: 64,128 or 64..4096*2; else a quarter to four times those "
                       "of the scenario")
            ->type_name("VALUES");
        app.add_option("--cluster", question_.clusters,
                       "A cluster of the library instead of the scenario's; repeatable")
            ->type_name("NAME")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false)
            ->check(completed_by(WordSource::clusters));
        app.add_option("--carbon-intensity", question_.grams_per_kwh,
                       "Of the grid, grams of CO2 per kWh")
            ->type_name("N");
        files()
            .writes(app, "--svg", svg_, svg_output(), "Write a chart of days over GPUs")
            ->type_name("FILE");
        app.add_flag("--json", json_, "Print one JSON object");
        csv_.declare(app, files(), {{"options", "/options", "cluster,gpus,days"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        if (!deadline_text_.empty()) question_.deadline_days = days_of(deadline_text_);
        question_.require_sense();
        Progress progress(console, name(), "pricing layouts");
        sim::SearchOptions how;
        how.progress = [&](double done) { progress.at(done); };
        const Sizing sizing = size_clusters(input_, question_, how);
        if (!sizing.errors.empty()) return refuse(sizing.errors, sizing.unreadable, console);
        const std::vector<SizeOption>& options = sizing.options;
        console.out << (json_ ? json_of(options) : text_of(options, console));
        csv_.write([&] { return json_of(options); });
        if (!svg_.empty()) trace::write_file(svg_.path(), line_chart_svg(size_chart(options)));
        if (smallest(options)) return kExitOk;
        console.err << "orrery size: no cluster that was tried " << why_none(options, question_)
                    << '\n';
        return kExitInfeasible;
    }

  private:
    int refuse(const std::vector<plan::Diagnostic>& errors, bool unreadable,
               Console& console) const {
        console.err << plan::format_text(errors);
        if (json_) console.out << plan::format_json(errors);
        return unreadable ? kExitUnreadable : kExitInvalidScenario;
    }

    std::string text_of(const std::vector<SizeOption>& options, const Console& console) const {
        std::vector<std::string> head = size_heads();
        std::vector<Align> align(head.size(), Align::right);
        align[0] = Align::left;
        TextTable table(std::move(align));
        table.add(std::move(head));
        std::string remarks;
        for (const SizeOption& option : options) {
            table.add(size_cells(option, question_));
            if (!option.best)
                remarks += fmt::format("  {} GPUs: {}\n", whole_text(option.gpus), option.why);
        }
        std::string text = console.bold("the best layout of each cluster") + '\n' + table.text();
        if (!remarks.empty()) text += '\n' + console.bold("without a layout") + '\n' + remarks;
        return text + '\n' + size_verdicts(options) + kSizeRemarks;
    }

    std::string json_of(const std::vector<SizeOption>& options) const {
        Json json;
        json["options"] = Json::array();
        for (const SizeOption& option : options) {
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
            one["peak_bytes"] = option.best->prediction.memory.worst().peak_bytes;
            one["fit_probability"] = option.best->prediction.memory.fit_probability;
            one["days"] = option.days();
            one["interval_days"] = {option.days_at(step.low_s), option.days_at(step.high_s)};
            one["gpu_hours"] = *option.run().gpu_hours;
            one["cost_usd"] = or_null(option.run().cost_usd);
            one["energy_mwh"] = or_null(option.run().energy_mwh);
            one["carbon_t"] = or_null(option.carbon_t(question_.grams_per_kwh));
            one["gpu_hours_ratio"] = option.gpu_hours_ratio;
            one["lost_to"] = option.lost_to;
            one["meets"] = option.meets;
            json["options"].push_back(std::move(one));
        }
        const auto or_none = [](std::optional<std::size_t> index) {
            return index ? Json(*index) : Json(nullptr);
        };
        json["smallest"] = or_none(smallest(options));
        json["cheapest"] = or_none(cheapest(options));
        json["fastest"] = or_none(fastest(options));
        return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
    }

    ScenarioInput input_;
    SizeQuestion question_;
    std::string deadline_text_;
    OutputPath svg_;
    CsvOutput csv_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> size_command() {
    return std::make_unique<Size>();
}

}  // namespace orrery::cli
