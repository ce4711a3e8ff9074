#include "cli/program.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/build_facts.hpp"
#include "cli/machine_failure.hpp"
#include "plan/exit_code.hpp"
#include "plan/scenario/diagnostic.hpp"
#include "plan/scenario/suggest.hpp"

namespace orrery::cli {
namespace {

// Examples stand first, then what CLI11 knows.
class ExamplesFirst : public CLI::Formatter {
  public:
    std::string make_help(const CLI::App* app, std::string name,
                          CLI::AppFormatMode mode) const override {
        if (mode == CLI::AppFormatMode::Sub) return make_expanded(app);
        if (app->get_parent() != nullptr)
            name = app->get_parent()->get_name() + ' ' + app->get_name();
        return app->get_description() + "\n\n" + app->get_footer() + "\n" + make_usage(app, name) +
               make_positionals(app) + make_groups(app, mode) + make_subcommands(app, mode);
    }
};

std::string examples_text(const std::vector<std::string>& lines) {
    std::string text = "Examples:\n";
    for (const std::string& line : lines)
        text += "  orrery " + line + '\n';
    return text;
}

std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames())
            names.push_back("--" + name);
    return names;
}

// Empty if nothing is left over.
std::string complaint_about(const CLI::App& app, const std::vector<std::string>& known,
                            const char* what) {
    std::vector<std::string> left = app.remaining();
    const bool marked = std::erase(left, "--") > 0;  // what follows it are no options
    if (left.empty()) return "";
    const std::string& word = left.front();
    const bool is_option = !marked && word.size() > 1 && word.front() == '-';
    const std::string name = word.substr(0, word.find('='));
    if (!is_option && *what == '\0') return fmt::format("'{}' is one argument too many", word);
    const std::string near = plan::nearest(name, is_option ? option_names(app) : known);
    std::string text = fmt::format("unknown {} '{}'", is_option ? "option" : what, name);
    return near.empty() ? text : text + fmt::format("; did you mean '{}'?", near);
}

int usage_error(const Console& console, const std::string& subcommand, const std::string& message) {
    console.err << "orrery" << (subcommand.empty() ? "" : " " + subcommand) << ": " << message
                << "\nsee: orrery" << (subcommand.empty() ? "" : " " + subcommand) << " --help\n";
    return kExitUsage;
}

int failure(const Subcommand& subcommand, const Console& console, int code,
            const std::string& message) {
    console.err << "orrery " << subcommand.name() << ": " << message << '\n';
    if (subcommand.prints_json()) {
        nlohmann::ordered_json errors;
        errors["errors"] = {{{"message", message}}};
        console.out << errors.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    }
    return code;
}

int run_subcommand(const Program& program, Subcommand& subcommand, Console& console) {
    try {
        subcommand.files().clear();
        return subcommand.run(console);
    } catch (const UsageError& error) {
        return usage_error(console, subcommand.name(), error.what());
    } catch (const plan::ScenarioError& error) {
        console.err << plan::format_text({error.diagnostic()});
        if (subcommand.prints_json()) console.out << plan::format_json({error.diagnostic()});
        return kExitInvalidScenario;
    } catch (const std::exception& error) {
        if (const auto refused = machine_failure(error))
            return failure(subcommand, console, refused->exit_code, refused->message);
        const int code = exit_code_of(error, program.failures);
        return failure(
            subcommand, console, code,
            fmt::format("{}{}", code == kExitInternal ? "internal error: " : "", error.what()));
    }
}

std::vector<std::string> names_of(const Program& program) {
    std::vector<std::string> names = {"help"};
    for (const auto& subcommand : program.subcommands)
        names.push_back(subcommand->name());
    for (const Elsewhere& other : program.elsewhere)
        names.push_back(other.name);
    return names;
}

// `help` is --help, and `help WORD` is `WORD --help`: what many programs take, and people try
// first.
std::vector<std::string> without_help_word(std::vector<std::string> args) {
    if (args.empty() || args.front() != "help") return args;
    args.erase(args.begin());
    args.emplace_back("--help");
    return args;
}

// Help and version come as "errors" with exit code 0.
int parse_failure(const Program& program, CLI::App& app, const CLI::ParseError& error,
                  Console& console) {
    const std::vector<CLI::App*> parsed = app.get_subcommands();
    if (dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr) {
        console.out << error.what() << '\n';
        return kExitOk;
    }
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
        const std::string complaint =
            parsed.empty() ? complaint_about(app, names_of(program), "subcommand") : "";
        if (!complaint.empty()) return usage_error(console, "", complaint);
        console.out << (parsed.empty() ? app : *parsed.front()).help();
        return kExitOk;
    }
    return usage_error(console, parsed.empty() ? "" : parsed.front()->get_name(), error.what());
}

int dispatch(const Program& program, const std::vector<std::string>& args, Console& console) {
    const std::unique_ptr<CLI::App> app = command_line_app(program);
    try {
        app->parse(std::vector<std::string>(args.rbegin(), args.rend()));
    } catch (const CLI::ParseError& error) {
        return parse_failure(program, *app, error, console);
    }
    for (const auto& subcommand : program.subcommands) {
        const CLI::App* sub = app->get_subcommand(subcommand->name());
        if (!sub->parsed()) continue;
        const std::string complaint = complaint_about(*sub, {}, "");
        if (!complaint.empty()) return usage_error(console, subcommand->name(), complaint);
        return run_subcommand(program, *subcommand, console);
    }
    for (const Elsewhere& other : program.elsewhere)
        if (app->get_subcommand(other.name)->parsed())
            return usage_error(console, "",
                               fmt::format("{} is part of the program {}, which ./orrery starts",
                                           other.name, other.program));
    const std::string complaint = complaint_about(*app, names_of(program), "subcommand");
    if (!complaint.empty()) return usage_error(console, "", complaint);
    console.err << app->help();
    return kExitUsage;
}

}  // namespace

std::unique_ptr<CLI::App> command_line_app(const Program& program) {
    auto app = std::make_unique<CLI::App>(program.description, "orrery");
    const auto formatter = std::make_shared<ExamplesFirst>();
    formatter->column_width(28);
    app->formatter(formatter);
    app->allow_extras();            // what is left over is reported with a suggestion
    app->require_subcommand(0, 1);  // after it, a word is never a second one
    app->set_help_flag("-h,--help", "Show this help");
    app->set_version_flag("--version", build_facts_text(build_facts()), "Show the version");
    std::vector<std::string> first;
    for (const auto& subcommand : program.subcommands) {
        first.push_back(subcommand->examples().front());
        CLI::App* sub = app->add_subcommand(subcommand->name(), subcommand->summary());
        sub->allow_extras();
        sub->footer(examples_text(subcommand->examples()));
        subcommand->declare(*sub);
    }
    for (const Elsewhere& other : program.elsewhere) {
        first.push_back(other.example);
        CLI::App* sub = app->add_subcommand(other.name, other.summary);
        sub->prefix_command();  // its arguments are the other program's
        sub->set_help_flag();
    }
    app->footer(examples_text(first));
    return app;
}

int run_program(const Program& program, const std::vector<std::string>& args, Console console) {
    const int code = dispatch(program, without_help_word(args), console);
    console.out.flush();
    if (!console.out.good()) {
        console.err << "orrery: the output could not be written\n";
        return kExitStorage;
    }
    return code;
}

}  // namespace orrery::cli
