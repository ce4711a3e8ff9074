#include "cli/command_line/description.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "cli/completed_values.hpp"
#include "cli/run_cli.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool among(const std::vector<const CLI::Option*>& options, const CLI::Option* one) {
    return std::find(options.begin(), options.end(), one) != options.end();
}

// As help spells it: "KEY=VALUE"; what is checked stands behind a colon there.
std::string value_name(const CLI::Option& option) {
    if (option.get_items_expected_max() == 0) return "";
    std::string text = option.get_option_text();
    if (text.empty() || text == " ") text = option.get_type_name();
    text.resize(std::min(text.size(), text.find(':')));
    if (option.get_lnames().empty() && option.get_snames().empty()) return option.get_single_name();
    return text;
}

DescribedOption described(CLI::Option& option, const CommandFiles* files) {
    DescribedOption out;
    for (const std::string& name : option.get_snames())
        out.names.push_back('-' + name);
    for (const std::string& name : option.get_lnames())
        out.names.push_back("--" + name);
    out.value = value_name(option);
    out.help = option.get_description();
    out.required = option.get_required();
    out.repeatable = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ||
                     option.get_items_expected_max() > 1;
    if (files != nullptr) {
        out.folder = among(files->folders(), &option);
        out.file =
            !out.folder && (among(files->inputs(), &option) || among(files->outputs(), &option));
    }
    const CompletedValues values = completed_values(option);
    out.words = values.words;
    if (values.source) out.source = name(*values.source);
    return out;
}

std::vector<DescribedOption> options_of(CLI::App& app, const CommandFiles* files) {
    std::vector<DescribedOption> options;
    for (CLI::Option* option : app.get_options(std::function<bool(CLI::Option*)>()))
        if (!option->get_group().empty())  // else hidden: for programs alone
            options.push_back(described(*option, files));
    return options;
}

Json to_json(const std::vector<DescribedOption>& options) {
    Json list = Json::array();
    for (const DescribedOption& one : options)
        list.push_back({{"names", one.names},
                        {"value", one.value},
                        {"help", one.help},
                        {"required", one.required},
                        {"repeatable", one.repeatable},
                        {"file", one.file},
                        {"folder", one.folder},
                        {"words", one.words},
                        {"source", one.source}});
    return list;
}

std::vector<DescribedOption> options_from(const nlohmann::json& list) {
    std::vector<DescribedOption> options;
    for (const auto& one : list)
        options.push_back({one.at("names"), one.at("value"), one.at("help"), one.at("required"),
                           one.at("repeatable"), one.at("file"), one.at("folder"), one.at("words"),
                           one.at("source")});
    return options;
}

// What orrery-run prints of itself; empty, and why, where it does not.
std::vector<DescribedCommand> ask_orrery_run(std::string& why) {
    std::error_code failed;
    const fs::path self = fs::read_symlink("/proc/self/exe", failed);
    const fs::path program = self.parent_path() / "orrery-run";
    if (failed || !fs::exists(program, failed)) {
        why = "orrery-run does not lie beside this program";
        return {};
    }
    std::string quoted;
    for (const char c : program.string())
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
        popen(("'" + quoted + "' commands --json 2>/dev/null").c_str(), "r"), pclose);
    std::string text;
    std::array<char, 4096> part{};
    while (pipe != nullptr && std::fgets(part.data(), part.size(), pipe.get()) != nullptr)
        text += part.data();
    try {
        return command_line_of(nlohmann::json::parse(text)).commands;
    } catch (const nlohmann::json::exception&) {
        why = program.string() + " does not say what its commands are";
        return {};
    }
}

// Prints them; each program has one.
class Commands : public Subcommand {
  public:
    using Describe = CommandLine (*)(Console&, Program (*)());

    Commands(Describe describe_all, Program (*program)())
        : describe_(describe_all), program_(program) {}

    std::string name() const override { return "commands"; }
    std::string summary() const override { return "List every command and its options as data"; }
    std::vector<std::string> examples() const override { return {"commands --json"}; }
    void declare(CLI::App& app) override {
        app.add_flag("--json", json_, "Print one JSON object, options and build facts included");
    }
    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        const CommandLine all = describe_(console, program_);
        if (json_) {
            console.out << orrery::cli::to_json(all, build_facts()).dump(2) << '\n';
            return 0;
        }
        std::size_t widest = 0;
        for (const DescribedCommand& command : all.commands)
            widest = std::max(widest, command.name.size());
        for (const DescribedCommand& command : all.commands)
            console.out << fmt::format("{:{}}  {}\n", command.name, widest, command.summary);
        return 0;
    }

  private:
    Describe describe_;
    Program (*program_)();
    bool json_ = false;
};

}  // namespace

CommandLine describe(const Program& program, const std::string& program_name) {
    const std::unique_ptr<CLI::App> app = command_line_app(program);
    CommandLine all;
    all.description = program.description;
    all.options = options_of(*app, nullptr);
    for (const auto& subcommand : program.subcommands) {
        CLI::App& sub = *app->get_subcommand(subcommand->name());
        all.commands.push_back({subcommand->name(), subcommand->summary(), program_name,
                                subcommand->examples(), options_of(sub, &subcommand->files())});
    }
    for (const Elsewhere& other : program.elsewhere)
        all.commands.push_back(
            {other.name, other.summary, other.program, {other.example}, {}, false});
    return all;
}

CommandLine whole_command_line(Console& console) {
    CommandLine all = describe(predicting_program(), "orrery");
    std::string why;
    const std::vector<DescribedCommand> performing = ask_orrery_run(why);
    std::string unknown;
    for (DescribedCommand& command : all.commands) {
        if (command.known) continue;
        const auto found =
            std::find_if(performing.begin(), performing.end(),
                         [&](const DescribedCommand& other) { return other.name == command.name; });
        if (found != performing.end()) {
            command = *found;
        } else if (command.program == "orrery-gui") {  // of another toolkit: a file, gui/main.cpp
            command.options = {
                {{}, "FILE", "A scenario, or a trace", false, false, true, false, {}, ""}};
            command.known = true;
        } else {
            unknown += (unknown.empty() ? "" : ", ") + command.name;
        }
    }
    if (!unknown.empty())
        console.err << fmt::format("orrery: {}, so that nothing is known of the options of {}\n",
                                   why, unknown);
    return all;
}

Json to_json(const CommandLine& commands, const BuildFacts& facts) {
    Json formats = Json::object();
    for (const FormatVersion& one : facts.formats)
        formats[std::string(one.format)] = one.version;
    Json list = Json::array();
    for (const DescribedCommand& one : commands.commands)
        list.push_back({{"name", one.name},
                        {"summary", one.summary},
                        {"program", one.program},
                        {"examples", one.examples},
                        {"options", to_json(one.options)}});
    return {{"build",
             {{"version", facts.version},
              {"commit", facts.commit},
              {"compiler", facts.compiler},
              {"type", facts.build},
              {"cuda", facts.cuda},
              {"mpi", facts.mpi},
              {"gui", facts.gui},
              {"formats", formats}}},
            {"description", commands.description},
            {"options", to_json(commands.options)},
            {"commands", list}};
}

CommandLine command_line_of(const nlohmann::json& json) {
    CommandLine all;
    all.description = json.at("description");
    all.options = options_from(json.at("options"));
    for (const auto& one : json.at("commands"))
        all.commands.push_back({one.at("name"), one.at("summary"), one.at("program"),
                                one.at("examples"), options_from(one.at("options"))});
    return all;
}

std::unique_ptr<Subcommand> commands_command() {
    return std::make_unique<Commands>(
        [](Console& console, Program (*)()) { return whole_command_line(console); }, nullptr);
}

std::unique_ptr<Subcommand> commands_of_orrery_run(Program (*program)()) {
    return std::make_unique<Commands>(
        [](Console&, Program (*made)()) { return describe(made(), "orrery-run"); }, program);
}

}  // namespace orrery::cli
