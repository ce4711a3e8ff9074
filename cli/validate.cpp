// orrery validate: predictions of published runs beside what was measured.
#include <CLI/CLI.hpp>

#include "calib/compare/validate.hpp"
#include "cli/exit_code.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"

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
                "validate records.json --json > validation.json"};
    }

    void declare(CLI::App& app) override {
        app.add_option("RECORDS", records_path_, "Records of measured runs, a JSON array")
            ->required()
            ->option_text(" ");
        app.add_flag("--json", json_, "Print rows, skipped rows and summaries as JSON");
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        const compare::Validation validation =
            compare::validate_records(records_path_, library_folder());
        console.out << (json_ ? compare::validation_json(validation)
                              : compare::validation_text(validation));
        return kExitOk;
    }

  private:
    std::string records_path_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> validate_command() {
    return std::make_unique<Validate>();
}

}  // namespace orrery::cli
