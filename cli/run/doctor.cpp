// orrery doctor: what this machine has for a run, what it lacks, and how to get it.

#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/exit_code.hpp"
#include "cli/run/doctor_report.hpp"
#include "cli/run_subcommands.hpp"
#include "runtime/machine/inspect.hpp"

namespace orrery::cli {
namespace {

class Doctor : public Subcommand {
  public:
    std::string name() const override { return kDoctor.name; }
    std::string summary() const override { return kDoctor.summary; }
    std::vector<std::string> examples() const override {
        return {kDoctor.example, "doctor --backend cuda", "doctor --json"};
    }

    void declare(CLI::App& app) override {
        app.add_option("--backend", backend_,
                       "Whether this one is ready, cpu or cuda: exit code 6 if not")
            ->type_name("NAME")
            ->check(CLI::IsMember({"cpu", "cuda"}));
        app.add_flag("--json", json_, "Print one JSON object");
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        std::optional<runtime::BackendKind> asked;
        if (!backend_.empty())
            asked = backend_ == "cuda" ? runtime::BackendKind::cuda : runtime::BackendKind::cpu;
        runtime::SystemLoader loader;
        const runtime::Machine machine = runtime::inspect_machine(loader);
        if (json_)
            console.out << doctor_json(machine).dump(2, ' ', false,
                                                     nlohmann::json::error_handler_t::replace)
                        << '\n';
        else
            print_doctor(machine, asked, console);
        return asked && !runtime::missing_for(*asked, machine).empty() ? kExitDevice : kExitOk;
    }

  private:
    std::string backend_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> doctor_command() {
    return std::make_unique<Doctor>();
}

}  // namespace orrery::cli
