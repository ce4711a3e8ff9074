// orrery import: another tool's settings as a scenario, and what became of each of them.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/completed_values.hpp"
#include "cli/csv_output.hpp"
#include "cli/import_report.hpp"
#include "cli/output_kinds.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/exit_code.hpp"
#include "plan/scenario/files.hpp"
#include "plan/scenario/import/import.hpp"
#include "plan/scenario/references.hpp"
#include "trace/atomic_file.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
namespace imports = plan::imports;

std::set<std::string> frameworks_of(const std::string& library) {
    std::set<std::string> names;
    for (const std::string& file : plan::disk().names((fs::path(library) / "frameworks").string()))
        names.insert(fs::path(file).stem().string());
    return names;
}

class Import : public Subcommand {
  public:
    std::string name() const override { return "import"; }
    std::string summary() const override {
        return "Make a scenario of another tool's settings, or of a model's config.json";
    }
    std::vector<std::string> examples() const override {
        return {"import pretrain_gpt.sh --cluster clusters/a100-80gb-sxm-1024.json -o run.json",
                "import ds_config.json --model models/llama2-7b.json --gpus 64 --json",
                "import llama3_70b.toml --gpus 256 --set training.framework=orrery"};
    }

    void declare(CLI::App& app) override {
        files().reads(
            app.add_option("FILE", file_,
                           "A shell script or options of Megatron-LM, a DeepSpeed JSON, a "
                           "torchtitan TOML, a YAML of nanotron or NeMo 1.x, a recipe of NeMo 2, a "
                           "model of Hugging Face: its config.json or folder; - is standard input")
                ->required()
                ->option_text(" "));
        app.add_option("--from", from_, "What FILE is: " + imports::format_names())
            ->type_name("TOOL")
            ->check(completed_by(imports::format_names()));
        reads_reference(app.add_option("--model", wishes_.model,
                                       "Reference of the model, instead of FILE's own")
                            ->check(completed_by(WordSource::model_files)));
        reads_reference(app.add_option("--cluster", wishes_.cluster, "Reference of the cluster")
                            ->check(completed_by(WordSource::clusters)));
        app.add_option("--gpus", gpus_, "Ranks of the run, instead of what a launcher says")
            ->type_name("N");
        app.add_option("--set", sets_, "Another key of the scenario; repeatable")
            ->type_name("KEY=VALUE")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false)
            ->check(completed_by(WordSource::settings));
        files()
            .writes(app, "-o,--output", output_, scenario_output(),
                    "Write the scenario there, not to standard output")
            ->type_name("OUT");
        app.add_flag("--allow-unsupported", allow_unsupported_,
                     "Write it although settings that would change the step, but not the model, "
                     "are left out");
        app.add_flag("--json", json_, "Print the scenario and what became of each key as JSON");
        csv_.declare(app, files(),
                     {{"mapped", "/mapped", "from,to,value"},
                      {"ignored", "/ignored", "key,value,why"},
                      {"unsupported", "/unsupported", "key,value,why,changes"},
                      {"missing", "/missing", "to,why"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        check_options();
        if (plan::disk().is_file((fs::path(file_) / plan::kModelConfig).string()))
            file_ = (fs::path(file_) / plan::kModelConfig).string();
        std::string text;
        if (!read(text, console)) return kExitUnreadable;
        const imports::Format format =
            from_.empty() ? imports::guess_format(text, file_) : *imports::format_of_name(from_);
        wishes_.frameworks = frameworks_of(library_folder());
        place_references();
        imports::Imported imported =
            imports::import_text(text, file_ == "-" ? "standard input" : file_, format, wishes_);
        if (imported.errors.empty()) apply_sets(imported);
        return finish(std::move(imported), console);
    }

  private:
    // Found from the working folder, or in the library.
    void reads_reference(const CLI::Option* option) {
        files().reads(option, [option] {
            const auto reference = option->as<std::string>();
            return std::vector<std::string>{reference,
                                            (fs::path(library_folder()) / reference).string()};
        });
    }

    void check_options() const {
        if (!from_.empty() && !imports::format_of_name(from_))
            throw UsageError(
                fmt::format("--from {}: known are {}", from_, imports::format_names()));
        for (const std::string& set : sets_)
            if (!plan::valid_override(set))
                throw UsageError(fmt::format("--set {}: KEY=VALUE is expected", set));
        if (gpus_ && *gpus_ < 1)
            throw UsageError(fmt::format("--gpus {}: at least one is needed", *gpus_));
    }

    bool read(std::string& text, Console& console) const {
        std::string why;
        if (auto content =
                file_ == "-" ? plan::read_whole(std::cin, why) : plan::disk().read(file_, why)) {
            text = std::move(*content);
            return true;
        }
        plan::Diagnostic fault;
        fault.code = "S001";
        fault.file = file_;
        fault.message = "the file cannot be read: " + why;
        report({fault}, console);
        return false;
    }

    void report(const std::vector<plan::Diagnostic>& errors, Console& console) const {
        console.err << plan::format_text(errors);
        if (json_) console.out << plan::format_json(errors);
    }

    // A file named from the working folder is referred to from where the scenario will stand.
    void place_references() {
        wishes_.gpus = gpus_;
        wishes_.file = file_ == "-" ? "" : file_;
        const fs::path beside = file_ == "-" ? fs::path() : fs::path(file_).parent_path();
        wishes_.beside = [beside](const std::string& name) {
            std::string why;
            return plan::disk().read((beside / name).string(), why);
        };
        for (std::string* reference : {&wishes_.model, &wishes_.cluster, &wishes_.file})
            if (!reference->empty() && fs::path(*reference).is_relative() &&
                plan::disk().is_file(*reference))
                *reference =
                    fs::absolute(*reference).lexically_relative(fs::absolute(folder())).string();
    }

    fs::path folder() const {
        const fs::path parent = fs::path(output_.typed()).parent_path();
        return parent.empty() ? fs::path(".") : parent;
    }

    void apply_sets(imports::Imported& imported) const {
        for (const std::string& set : sets_)
            if (!imports::set_key(imported, set))
                throw UsageError(fmt::format(
                    "--set {}: its way leads through something that is no object", set));
    }

    // Of an MLP, or of each expert where all are mixtures of these.
    static std::int64_t width_of(const plan::Model& model) {
        for (const plan::LayerSpec& kind : model.kinds)
            if (kind.experts() == nullptr) return kind.dense().ffn_hidden;
        return model.experts()->expert.ffn_hidden;
    }

    // The model of --model must be the one that FILE describes.
    void check_model(const imports::Imported& imported, const plan::Model& model,
                     std::vector<plan::Diagnostic>& faults) const {
        const std::map<std::string, std::int64_t> sizes = {{"layers", model.layers},
                                                           {"hidden", model.hidden},
                                                           {"heads", model.attention().heads},
                                                           {"ffn_hidden", width_of(model)}};
        for (const imports::Stated& stated : imported.stated) {
            const std::int64_t size = sizes.at(stated.what);
            if (stated.value == size) continue;
            plan::Diagnostic fault;
            fault.code = "I005";
            fault.file = file_;
            fault.message = fmt::format("{} is not the model of the file", wishes_.model);
            fault.arithmetic = fmt::format("{} {}, {} of {}: {}", stated.key, stated.value.dump(),
                                           stated.what, wishes_.model, size);
            faults.push_back(std::move(fault));
        }
    }

    // Errors of the scenario but those that say that a missing part is missing.
    std::vector<plan::Diagnostic> faults_of(const imports::Imported& imported,
                                            bool& unreadable) const {
        const plan::ReadResult result = plan::read_scenario_text(
            imported.scenario.dump(2), output_.empty() ? "the imported scenario" : output_.typed(),
            folder().string(), {}, library_folder());
        std::vector<plan::Diagnostic> faults;
        for (const plan::Diagnostic& fault : result.errors) {
            const bool expected = std::any_of(
                imported.missing.begin(), imported.missing.end(), [&](const auto& missing) {
                    std::string pointer = '/' + missing.to;
                    std::replace(pointer.begin(), pointer.end(), '.', '/');
                    return fault.code == "S005" && fault.pointer == pointer;
                });
            if (!expected) faults.push_back(fault);
        }
        unreadable = result.unreadable;
        if (result.scenario) check_model(imported, result.scenario->model, faults);
        return faults;
    }

    int finish(imports::Imported imported, Console& console) const {
        bool unreadable = imported.unreadable;
        if (imported.errors.empty()) imported.errors = faults_of(imported, unreadable);
        console.err << import_text_report(imported, console);
        if (!imported.errors.empty()) {
            report(imported.errors, console);
            return unreadable ? kExitUnreadable : kExitInvalidScenario;
        }
        if (json_) console.out << import_json(imported);
        csv_.write([&] { return import_json(imported); });
        if (refuses(imported, console)) return kExitInvalidScenario;
        return write(imported.scenario.dump(2) + '\n', console);
    }

    // What is left out may be meant where the model stays what it is, never where it does not.
    bool refuses(const imports::Imported& imported, Console& console) const {
        const auto changing = std::count_if(
            imported.unsupported.begin(), imported.unsupported.end(),
            [](const imports::Left& left) { return left.changes == imports::Changes::model; });
        const auto settings = [](auto count) {
            return fmt::format("{} setting{}", count, count == 1 ? "" : "s");
        };
        if (changing > 0) {
            console.err << fmt::format(
                "orrery import: {} without which it is another model: nothing was written, and "
                "--allow-unsupported does not change that\n",
                settings(changing));
            return true;
        }
        if (imported.unsupported.empty() || allow_unsupported_) return false;
        console.err << fmt::format(
            "orrery import: {} without a counterpart: nothing was written; --allow-unsupported "
            "leaves {} out\n",
            settings(imported.unsupported.size()),
            imported.unsupported.size() == 1 ? "it" : "them");
        return true;
    }

    int write(const std::string& scenario, Console& console) const {
        if (output_.empty()) {
            if (!json_) console.out << scenario;
            return kExitOk;
        }
        trace::write_file(output_.path(), scenario);
        return kExitOk;
    }

    std::string file_, from_;
    OutputPath output_;
    imports::Wishes wishes_;
    std::optional<std::int64_t> gpus_;
    std::vector<std::string> sets_;
    bool allow_unsupported_ = false;
    CsvOutput csv_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> import_command() {
    return std::make_unique<Import>();
}

}  // namespace orrery::cli
