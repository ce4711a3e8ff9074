// orrery doctor: what this machine has for a run, what it lacks, and how to get it.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/run/doctor_report.hpp"
#include "cli/run_subcommands.hpp"
#include "plan/exit_code.hpp"
#include "runtime/backends/registry.hpp"
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
                       fmt::format("Whether this one is ready, {}: exit code 6 if not",
                                   fmt::join(runtime::backend_names(), " or ")))
            ->type_name("NAME")
            ->check(CLI::IsMember(runtime::backend_names()));
        app.add_flag("--json", json_, "Print one JSON object");
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        const runtime::BackendRow* asked = nullptr;
        if (!backend_.empty()) asked = &runtime::backend_named(backend_);
        runtime::SystemLoader loader;
        const runtime::Machine machine = runtime::inspect_machine(loader);
        if (json_)
            console.out << doctor_json(machine).dump(2, ' ', false,
                                                     nlohmann::json::error_handler_t::replace)
                        << '\n';
        else
            print_doctor(machine, asked, console);
        return asked != nullptr && !asked->missing(machine).empty() ? kExitDevice : kExitOk;
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
