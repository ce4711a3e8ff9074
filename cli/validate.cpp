// orrery validate: predictions of published runs beside what was measured.
#include <CLI/CLI.hpp>

#include "calib/compare/validate.hpp"
#include "cli/completed_values.hpp"
#include "cli/csv_output.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/exit_code.hpp"

namespace orrery::cli {
namespace {

class Validate : public Subcommand {
  public:
    std::string name() const override { return "validate"; }
    std::string summary() const override {
        return "Predict published runs and say how far off the predictions are";
    }
    std::vector<std::string> examples() const override {
        return {"validate scenarios/published/megatron-2021.json",
                "validate records.json --json > validation.json",
                "validate records.json --leave-out",
                "validate scenarios/published/*.json --markdown > docs/accuracy.md"};
    }

    void declare(CLI::App& app) override {
        files().reads(
            app.add_option("RECORDS", records_paths_, "Records of measured runs, JSON arrays")
                ->required()
                ->option_text(" "));
        app.add_option("--set", overrides_,
                       "Override a key of every record's scenario, e.g. training.launch_us=20; "
                       "repeatable")
            ->option_text("KEY=VALUE")
            ->take_all()
            ->allow_extra_args(false)
            ->check(completed_by(WordSource::settings));
        CLI::Option* leave_out =
            app.add_flag("--leave-out", leave_out_,
                         "Predict each run without what was fitted to runs of its source");
        CLI::Option* json =
            app.add_flag("--json", json_, "Print rows, skipped rows and summaries as JSON");
        csv_.declare(app, files(),
                     {{"rows", "/rows", "id,measured_s,predicted_s"},
                      {"sources", "/sources", "source,n,mean_abs_error_pct"},
                      {"skipped", "/skipped", "id,why"},
                      {"errors",
                       "/summary/step_time /summary/memory /summary_trusted/step_time "
                       "/summary_trusted/memory /summary_assumed/step_time /summary_assumed/memory",
                       "of,n,mean_abs_error_pct", true},
                      {"out_of_memory", "/summary/out_of_memory /summary_trusted/out_of_memory",
                       "of,true_positive,false_positive", true},
                      {"memory_outcomes", "/memory_outcomes", "id,ran_out,verdict"}});
        app.add_flag("--markdown", markdown_, "Print summaries as a page of Markdown, both ways")
            ->excludes(json)
            ->excludes(leave_out);
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        require_overrides("--set", overrides_);
        const auto predicted = [this](compare::Fitted fitted) {
            return compare::validate_records(records_paths_, library_folder(), overrides_, fitted);
        };
        const compare::Validation validation =
            predicted(leave_out_ ? compare::Fitted::other_sources : compare::Fitted::all_sources);
        csv_.write([&] { return compare::validation_json(validation); });
        if (json_)
            console.out << compare::validation_json(validation);
        else if (markdown_)
            console.out << compare::validation_markdown(validation,
                                                        predicted(compare::Fitted::other_sources));
        else
            console.out << compare::validation_text(validation);
        return kExitOk;
    }

  private:
    std::vector<std::string> records_paths_;
    std::vector<std::string> overrides_;
    CsvOutput csv_;
    bool json_ = false;
    bool markdown_ = false;
    bool leave_out_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> validate_command() {
    return std::make_unique<Validate>();
}

}  // namespace orrery::cli
