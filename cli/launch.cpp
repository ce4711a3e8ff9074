// orrery launch: a scenario in the form that what runs it takes.
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/csv_output.hpp"
#include "cli/launch_script.hpp"
#include "cli/output_kinds.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/exit_code.hpp"
#include "plan/scenario/export/export.hpp"
#include "trace/atomic_file.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
namespace exports = plan::exports;
using Json = nlohmann::ordered_json;

constexpr const char* kOwn = "orrery";
constexpr const char* kSlurm = "slurm";

struct LauncherName {
    const char* name;
    Launcher launcher;
};
constexpr LauncherName kLaunchers[] = {{"threads", Launcher::threads},
                                       {"mpirun", Launcher::mpirun},
                                       {"srun", Launcher::srun},
                                       {"torchrun", Launcher::torchrun}};

std::vector<std::string> launcher_names() {
    std::vector<std::string> names;
    for (const LauncherName& one : kLaunchers)
        names.emplace_back(one.name);
    return names;
}

std::vector<std::string> all_tools() {
    std::vector<std::string> names = exports::tool_names();
    names.insert(names.end(), {kSlurm, kOwn});
    return names;
}

// orrery-run where it lies beside this program.
std::string performing_program() {
    std::error_code failed;
    const fs::path self = fs::read_symlink("/proc/self/exe", failed);
    const fs::path beside = self.parent_path() / "orrery-run";
    return !failed && fs::exists(beside, failed) ? beside.string() : "orrery-run";
}

const char* word_of(exports::Fate fate) {
    switch (fate) {
        case exports::Fate::elsewhere:
            return "elsewhere";
        case exports::Fate::other:
            return "other";
        case exports::Fate::refused:
            return "refused";
    }
    return "";
}

Json json_of(const std::vector<exports::Note>& notes) {
    Json list = Json::array();
    for (const exports::Note& note : notes)
        list.push_back({{"fate", word_of(note.fate)},
                        {"key", note.key},
                        {"wanted", note.wanted},
                        {"stands", note.stands},
                        {"why", note.why}});
    return list;
}

class Launch : public Subcommand {
  public:
    std::string name() const override { return "launch"; }
    std::string summary() const override {
        return "Write a scenario as another tool's settings, or as a script";
    }
    std::vector<std::string> examples() const override {
        return {"launch run.json --for megatron -o pretrain.sh",
                "launch run.json --for torchtitan -o run.toml",
                "launch run.json --for slurm --backend cuda -o run.sbatch"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        input_.reads_standard_input = false;
        app.get_option("FILE")->description("Scenario, a JSON file");
        app.add_option("--for", tool_,
                       fmt::format("What runs it: {}", fmt::join(all_tools(), ", ")))
            ->required()
            ->type_name("TOOL")
            ->check(CLI::IsMember(all_tools()));
        files()
            .writes(app, "-o,--output", output_, launch_output(),
                    "Write it there, not to standard output")
            ->type_name("OUT");
        app.add_flag("--allow-unsupported", allow_unsupported_,
                     "Write it although the tool cannot run it like that: as near as it comes");
        app.add_option("--launcher", launcher_,
                       fmt::format("orrery: what starts its ranks ({}); threads unless the layout "
                                   "has more ranks than a node devices",
                                   fmt::join(launcher_names(), ", ")))
            ->type_name("NAME")
            ->check(CLI::IsMember(launcher_names()));
        app.add_option("--backend", backend_, "slurm, orrery: what performs the run (cpu, cuda)")
            ->type_name("NAME")
            ->check(CLI::IsMember({"cpu", "cuda"}));
        app.add_option("--hosts", hosts_, "With --launcher mpirun: node01:8,node02:8")
            ->type_name("NAME");
        app.add_option("--sbatch", sbatch_, "slurm: further options, as one text")
            ->type_name("WORD");
        app.add_flag("--json", json_, "Print one JSON object: the text and what it leaves out");
        csv_.declare(app, files(), {{"notes", "/notes", "fate,key,wanted,stands"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        check_options();
        const plan::ReadResult read = input_.read(console, json_);
        if (!read.scenario) return exit_code_of(read);
        if (tool_ == kSlurm) return write(slurm_script(own_run(*read.scenario)), {}, console);
        if (tool_ == kOwn) return write(own_command(*read.scenario), {}, console);
        const fs::path folder = fs::path(input_.file).parent_path();
        const exports::Exported exported =
            exports::export_scenario(read, *exports::tool_of_name(tool_), input_.arguments(),
                                     folder.empty() ? "." : folder.string(), library_folder());
        return finish(exported, console);
    }

  private:
    bool is_own() const { return tool_ == kOwn || tool_ == kSlurm; }

    void check_options() const {
        const auto only = [&](bool given, const char* option, bool fits, const char* with) {
            if (given && !fits) throw UsageError(fmt::format("{} needs --for {}", option, with));
        };
        only(!launcher_.empty(), "--launcher", tool_ == kOwn, kOwn);
        only(!sbatch_.empty(), "--sbatch", tool_ == kSlurm, kSlurm);
        only(backend_ != "cpu", "--backend", is_own(), "slurm or orrery");
        only(allow_unsupported_, "--allow-unsupported", !is_own(), "another tool");
        if (!hosts_.empty() && launcher_ != "mpirun")
            throw UsageError("--hosts needs --launcher mpirun");
        if (is_own() && !input_.sets.empty())
            throw UsageError(
                "--set: the run reads FILE itself; orrery init or an editor writes it there");
    }

    LaunchedRun own_run(const plan::Scenario& scenario) const {
        LaunchedRun run;
        run.program = performing_program();
        run.scenario = input_.file;
        run.ranks = scenario.layout.ranks();
        run.devices_per_node = scenario.cluster.devices_per_node;
        run.backend = backend_;
        run.hosts = hosts_;
        run.sbatch_options = sbatch_;
        run.has_checkpoints = !scenario.run.checkpoint_path.empty();
        return run;
    }

    std::string own_command(const plan::Scenario& scenario) const {
        const LaunchedRun run = own_run(scenario);
        Launcher launcher = run.nodes() > 1 ? Launcher::mpirun : Launcher::threads;
        for (const LauncherName& one : kLaunchers)
            if (launcher_ == one.name) launcher = one.launcher;
        const std::string head =
            output_.empty() ? "" : "#!/bin/bash\n# Written by orrery launch.\n";
        return head + shell_text(training_command(run, launcher, "")) + '\n';
    }

    int finish(const exports::Exported& exported, Console& console) const {
        for (const exports::Note& note : exported.notes)
            console.err << "orrery launch: " << exports::note_text(note) << '\n';
        if (exported.is_refused() && !allow_unsupported_) {
            console.err << fmt::format(
                "orrery launch: {} cannot run this scenario: nothing was written; "
                "--allow-unsupported writes what comes nearest\n",
                tool_);
            print_json("", exported.notes, console);
            return kExitInvalidScenario;
        }
        if (!exported.start.empty())
            console.err << "orrery launch: started by: " << exported.start << '\n';
        return write(exported.text, exported.notes, console);
    }

    // Where it is asked for, and its tables.
    void print_json(const std::string& text, const std::vector<exports::Note>& notes,
                    Console& console) const {
        const Json out = {{"for", tool_}, {"text", text}, {"notes", json_of(notes)}};
        const std::string printed = out.dump(2) + '\n';
        if (json_) console.out << printed;
        csv_.write([&] { return printed; });
    }

    int write(const std::string& text, const std::vector<exports::Note>& notes,
              Console& console) const {
        if (!output_.empty()) trace::write_file(output_.path(), text);
        if (!json_ && output_.empty()) console.out << text;
        print_json(text, notes, console);
        return kExitOk;
    }

    ScenarioInput input_;
    std::string tool_, launcher_, backend_ = "cpu", hosts_, sbatch_;
    OutputPath output_;
    CsvOutput csv_;
    bool allow_unsupported_ = false;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> launch_command() {
    return std::make_unique<Launch>();
}

}  // namespace orrery::cli
