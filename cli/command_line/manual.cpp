// orrery man: the manual page of a command, or of orrery, in the language of man(7).
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>

#include "cli/command_line/description.hpp"
#include "cli/completed_values.hpp"
#include "cli/run_cli.hpp"
#include "plan/exit_code.hpp"
#include "plan/scenario/suggest.hpp"
#include "trace/program_version.hpp"

namespace orrery::cli {
namespace {

struct ExitMeaning {
    int code;
    const char* meaning;
};

// docs/command-line.md has the same, which a test compares.
constexpr ExitMeaning kExitMeanings[] = {
    {kExitOk, "ok"},
    {kExitInternal, "internal error"},
    {kExitUsage, "usage"},
    {kExitInvalidScenario, "invalid scenario: all errors at once"},
    {kExitInfeasible, "infeasible; the result is still printed"},
    {kExitUnreadable, "unreadable, missing or corrupt file"},
    {kExitDevice, "device or communication failure"},
    {kExitVerification, "verification failed"},
    {kExitStorage, "storage"},
    {kExitInterrupted, "interrupted"},
};

// A line of text that troff prints as it stands.
std::string roff(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";  // no hyphen: words are copied from here
        else if (c == '\'' || c == '`')
            out += c == '\'' ? "\\(aq" : "\\(ga";
        else if (c == '~' || c == '^')
            out += c == '~' ? "\\(ti" : "\\(ha";
        else
            out += c;
    }
    return out.starts_with('.') ? "\\&" + out : out;
}

std::string bold(std::string_view text) {
    return "\\fB" + roff(text) + "\\fR";
}
std::string italic(std::string_view text) {
    return "\\fI" + roff(text) + "\\fR";
}

std::string sentence(std::string text) {
    if (!text.ends_with('.')) text += '.';
    return text;
}

std::string head(const std::string& page, const std::string& summary) {
    std::string upper = page;
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return fmt::format(
        ".\\\" Written by: orrery man\n.TH {} 1 \"\" \"{}\" \"Orrery\"\n.SH NAME\n{} \\- {}\n",
        roff(upper), tool_name(), roff(page), roff(summary));
}

// ".TP" and a tag, as in lists of options.
std::string tagged(const std::string& tag, const std::string& text) {
    return ".TP\n" + tag + '\n' + text + '\n';
}

std::string option_entry(const DescribedOption& option) {
    std::string tag;
    for (const std::string& name : option.names)
        tag += (tag.empty() ? "" : ", ") + bold(name);
    if (!option.value.empty()) tag += (tag.empty() ? "" : " ") + italic(option.value);
    std::string text = roff(sentence(option.help));
    const bool in_help = std::all_of(
        option.words.begin(), option.words.end(),
        [&](const std::string& word) { return option.help.find(word) != std::string::npos; });
    if (!in_help) {
        std::string words;
        for (const std::string& word : option.words)
            words += (words.empty() ? "" : ", ") + bold(word);
        text += " One of: " + words + '.';
    }
    if (option.required && !option.is_positional()) text += " Required.";
    if (option.repeatable && option.help.find("repeatable") == std::string::npos)
        text += " May be given several times.";
    return tagged(tag, text);
}

std::string entries(const std::vector<DescribedOption>& options, bool positional) {
    std::string text;
    for (const DescribedOption& option : options)
        if (option.is_positional() == positional) text += option_entry(option);
    return text;
}

std::string exit_status() {
    std::string text = ".SH EXIT STATUS\n";
    for (const ExitMeaning& one : kExitMeanings)
        text += tagged(bold(std::to_string(one.code)), roff(one.meaning) + '.');
    return text;
}

std::string examples(const std::vector<std::string>& lines) {
    if (lines.empty()) return "";
    std::string text = ".SH EXAMPLES\n.EX\n";
    for (const std::string& line : lines)
        text += roff("orrery " + line) + '\n';
    return text + ".EE\n";
}

std::string page_of(const DescribedCommand& command) {
    std::string text = head("orrery-" + command.name, command.summary);
    text += fmt::format(".SH SYNOPSIS\n{} [{}]", bold("orrery " + command.name), italic("OPTIONS"));
    for (const DescribedOption& option : command.options) {
        if (!option.is_positional()) continue;
        std::string word = italic(option.value) + (option.repeatable ? "..." : "");
        text += ' ' + (option.required ? word : '[' + word + ']');
    }
    text += "\n.SH DESCRIPTION\n" + roff(sentence(command.summary)) + '\n';
    if (!command.known)
        text += fmt::format("It is part of {}; its options are listed by\n{}.\n",
                            bold(command.program), bold("orrery " + command.name + " --help"));
    const std::string arguments = entries(command.options, true);
    const std::string options = entries(command.options, false);
    if (!arguments.empty()) text += ".SH ARGUMENTS\n" + arguments;
    if (!options.empty()) text += ".SH OPTIONS\n" + options;
    return text + examples(command.examples) + exit_status() + ".SH SEE ALSO\n.BR orrery (1)\n";
}

std::string page_of(const CommandLine& all) {
    std::string text = head("orrery", "predict what GPUs do in a training step, and train");
    text += fmt::format(".SH SYNOPSIS\n{} {} [{}]\n.SH DESCRIPTION\n{}\n", bold("orrery"),
                        italic("COMMAND"), italic("OPTIONS"), roff(all.description));
    text +=
        ".PP\nData goes to standard output, all else to standard error. No output is written onto "
        "a file\nthat the command reads, nor onto something of another kind, without\n" +
        bold("--force") + ".\n.SH COMMANDS\n";
    for (const DescribedCommand& command : all.commands)
        text += tagged(fmt::format("\\fB{}\\fR(1)", roff("orrery-" + command.name)),
                       roff(sentence(command.summary)));
    text += ".SH OPTIONS\n" + entries(all.options, false) + exit_status();
    text += ".SH SEE ALSO\n";
    for (std::size_t i = 0; i < all.commands.size(); ++i)
        text += fmt::format(".BR {} (1){}\n", roff("orrery-" + all.commands[i].name),
                            i + 1 < all.commands.size() ? " ," : "");
    return text;
}

class Manual : public Subcommand {
  public:
    std::string name() const override { return "man"; }
    std::string summary() const override { return "Print the manual page of a command"; }
    std::vector<std::string> examples() const override {
        return {"man simulate | man -l -", "man > orrery.1"};
    }

    void declare(CLI::App& app) override {
        std::string names;
        const Program program = predicting_program();
        for (const auto& subcommand : program.subcommands)
            names += subcommand->name() + ',';
        for (const Elsewhere& other : program.elsewhere)
            names += other.name + ',';
        app.add_option("COMMAND", command_, "Of which command; else of orrery")
            ->option_text("WORD")
            ->check(completed_by(names));
    }

    int run(Console& console) override {
        const CommandLine all = whole_command_line(console);
        if (command_.empty()) {
            console.out << page_of(all);
            return kExitOk;
        }
        std::vector<std::string> names;
        for (const DescribedCommand& command : all.commands) {
            names.push_back(command.name);
            if (command.name != command_) continue;
            console.out << page_of(command);
            return kExitOk;
        }
        const std::string near = plan::nearest(command_, names);
        throw UsageError(fmt::format("no command '{}'{}", command_,
                                     near.empty() ? "" : "; did you mean '" + near + "'?"));
    }

  private:
    std::string command_;
};

}  // namespace

std::unique_ptr<Subcommand> man_command() {
    return std::make_unique<Manual>();
}

}  // namespace orrery::cli
