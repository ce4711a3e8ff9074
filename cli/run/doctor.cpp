// orrery doctor: what this machine has for a run, what it lacks, and how to get it.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/csv_output.hpp"
#include "cli/run/doctor_report.hpp"
#include "cli/run/preflight.hpp"
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
        return {kDoctor.example, "doctor --backend cuda", "doctor --json",
                "doctor scenarios/runs/tiny-gpt.json --preflight",
                "srun orrery doctor run.json --preflight --backend cuda"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        input_.reads_standard_input = false;
        CLI::Option* file = app.get_option("FILE")->required(false)->description(
            "With --preflight: the scenario of the run");
        CLI::Option* preflight =
            app.add_flag("--preflight", preflight_,
                         "Have the run's ranks time products, memory, links of every pair and an "
                         "all-reduce, and name what is slow: exit code 7 if anything is")
                ->needs(file);
        file->needs(preflight);
        app.add_option("--tolerance", options_.tolerance_percent,
                       "How much longer than its like a rank or a pair may take (default: 10)")
            ->type_name("PERCENT")
            ->check(CLI::Range(0.0, 10'000.0))
            ->check(is_number)
            ->needs(preflight);
        app.add_option("--steps", options_.steps,
                       "How often all is timed (default: some seconds of it)")
            ->type_name("N")
            ->check(CLI::Range(1, 100'000))
            ->needs(preflight);
        declare_ranks(app, options_.backend);
        app.add_option("--backend", backend_,
                       fmt::format("Whether this one is ready, {}: exit code 6 if not; with "
                                   "--preflight what performs it (default: {})",
                                   fmt::join(runtime::backend_names(), " or "),
                                   runtime::backend_names().front()))
            ->type_name("NAME")
            ->check(CLI::IsMember(runtime::backend_names()));
        app.add_flag("--json", json_, "Print one JSON object");
        csv_.declare(app, files(),
                     {{"summary", "", "orrery,host.processor", true},
                      {"numa_nodes", "/host/numa_nodes", "node,cores"},
                      {"libraries", "/driver/libraries /libraries", "of,name,used_for,found"},
                      {"gpus", "/gpus", "name,memory_bytes"},
                      {"peer_access", "/peer_access", "of_gpu_to_each"},
                      {"network", "/network", "name,kind,state"},
                      {"adapters", "/adapters", "name,bus_id"},
                      {"nccl_settings", "/nccl_settings", "name,value,origin"},
                      {"missing", "/backends/*/missing", "backend,what,remedy"},
                      {"advice", "/advice", "what,remedy"},
                      {"checks", "/checks", "check,over_profile"},
                      {"timings", "/checks/*/timings", "check,time_s,expected_s"},
                      {"slow", "/slow", "check,slowdown"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        if (preflight_) {
            options_.backend.command = name();
            options_.json = json_;
            options_.csv = &csv_;
            if (!backend_.empty()) options_.backend.backend = backend_;
            return run_preflight(options_, input_, console);
        }
        const runtime::BackendRow* asked = nullptr;
        if (!backend_.empty()) asked = &runtime::backend_named(backend_);
        runtime::SystemLoader loader;
        const runtime::Machine machine = runtime::inspect_machine(loader);
        const auto printed = [&] {
            return doctor_json(machine).dump(2, ' ', false,
                                             nlohmann::json::error_handler_t::replace);
        };
        if (json_)
            console.out << printed() << '\n';
        else
            print_doctor(machine, asked, console);
        csv_.write(printed);
        return asked != nullptr && !asked->missing(machine).empty() ? kExitDevice : kExitOk;
    }

  private:
    ScenarioInput input_;
    PreflightOptions options_;
    std::string backend_;
    CsvOutput csv_;
    bool preflight_ = false;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> doctor_command() {
    return std::make_unique<Doctor>();
}

}  // namespace orrery::cli
