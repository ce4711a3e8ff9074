// orrery schedule: the order in which pipeline ranks compute, as a picture or as a file.
#include <CLI/CLI.hpp>

#include "cli/scenario_input.hpp"
#include "cli/schedule_text.hpp"
#include "cli/subcommand.hpp"
#include "plan/assemble/chosen_schedule.hpp"
#include "plan/exit_code.hpp"

namespace orrery::cli {
namespace {

class Schedule : public Subcommand {
  public:
    std::string name() const override { return "schedule"; }
    std::string summary() const override {
        return "Draw the pipeline schedule of a scenario, or write it as CSV";
    }
    std::vector<std::string> examples() const override {
        return {"schedule run.json --set layout.schedule=gpipe",
                "schedule run.json --csv > mine.csv",
                "schedule run.json --set layout.schedule=mine.csv"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        app.add_flag("--csv", csv_, "Write the actions of each rank as CSV");
        app.add_flag("--comms", comms_, "With --csv: sends and receives too");
        app.add_flag("--whole", whole_, "Draw all of a long schedule");
        app.add_flag("--json", json_, "Print one JSON object");
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        if (csv_ && json_) throw UsageError("--csv and --json exclude each other");
        if (comms_ && !csv_) throw UsageError("--comms needs --csv");
        const plan::ReadResult read = input_.read(console, json_);
        if (!read.scenario) return exit_code_of(read);
        const plan::Layout& layout = read.scenario->layout;
        const ScheduleView view{layout.schedule, plan::chosen_schedule(layout),
                                static_cast<std::int32_t>(layout.micro_batches()),
                                layout.imported.notes};
        for (const std::string& note : view.notes)
            console.err << "orrery schedule: " << layout.schedule << ": " << note << '\n';
        if (comms_)
            console.out << to_csv(add_transfers(view.schedule.grid, view.schedule.placement));
        else if (csv_)
            console.out << plan::to_csv(view.schedule.grid);
        else
            console.out << (json_ ? schedule_json(view)
                                  : schedule_text(view, console.columns, whole_));
        return kExitOk;
    }

  private:
    ScenarioInput input_;
    bool csv_ = false;
    bool comms_ = false;
    bool json_ = false;
    bool whole_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> schedule_command() {
    return std::make_unique<Schedule>();
}

}  // namespace orrery::cli
