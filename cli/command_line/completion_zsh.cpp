// For zsh: what its _arguments takes, option by option.
#include <fmt/format.h>

#include "cli/command_line/completion.hpp"
#include "trace/program_version.hpp"

namespace orrery::cli {
namespace {

std::string escaped(std::string_view text, std::string_view special) {
    std::string out;
    for (const char c : text) {
        if (special.find(c) != std::string_view::npos) out += '\\';
        out += c;
    }
    return out;
}

// ":KEY=VALUE:_orrery_words settings"
std::string value_of(const DescribedOption& option) {
    std::vector<std::string> actions;
    if (!option.source.empty()) actions.push_back("_orrery_words " + option.source);
    if (!option.words.empty()) {
        std::string words;
        for (const std::string& word : option.words)
            words += ' ' + word;
        actions.push_back("compadd --" + words);
    }
    if (option.folder) actions.emplace_back("_files -/");
    if (option.file) actions.emplace_back("_files");
    std::string action;
    for (const std::string& one : actions)
        action += (action.empty() ? "" : "; ") + one;
    // Without an action the value is the user's: only its name is shown.
    return fmt::format(":{}:{}", escaped(option.value, ":\\"),
                       action.empty() ? " " : "{" + action + "}");
}

std::vector<std::string> specs_of(const DescribedOption& option) {
    if (option.is_positional())
        return {(option.repeatable ? "*" : option.required ? "" : ":") + value_of(option)};
    std::string all;
    for (const std::string& name : option.names)
        all += (all.empty() ? "" : " ") + name;
    std::vector<std::string> specs;
    for (const std::string& name : option.names) {
        std::string spec;
        if (option.repeatable)
            spec = "*";
        else if (option.names.size() > 1)
            spec = "(" + all + ")";
        spec += name;
        if (!option.value.empty()) spec += name.starts_with("--") ? "=" : "+";
        spec += "[" + escaped(option.help, "[]\\") + "]";
        if (!option.value.empty()) spec += value_of(option);
        specs.push_back(spec);
    }
    return specs;
}

std::string arguments_call(const std::vector<DescribedOption>& options, const std::string& indent) {
    std::string text = indent + "_arguments -s -S";
    for (const DescribedOption& option : options)
        for (const std::string& spec : specs_of(option))
            text += " \\\n" + indent + "    " + single_quoted(spec);
    return text + '\n';
}

constexpr const char* kHead = R"script(
# Words that the program lists: first a key, then what it may be.
_orrery_words() {
    local -a found
    found=(${(f)"$(_call_program orrery-words ${(q)_orrery_program} completion --words $1)"})
    if [[ $PREFIX == *=* ]]; then
        compadd -- ${(M)found:#*=?*}
    else
        compadd -S '' -- ${(M)found:#*=}
        compadd -- ${found:#*=*}
    fi
}

_orrery() {
    local curcontext=$curcontext state line ret=1 _orrery_program=$words[1]
    local -a commands
    commands=(
)script";

}  // namespace

std::string zsh_completion(const CommandLine& commands) {
    std::string text = fmt::format(
        "#compdef orrery\n# {} completion for zsh, written by: orrery completion zsh\n{}",
        tool_name(), kHead);
    for (const DescribedCommand& command : commands.commands)
        text +=
            "        " + single_quoted(escaped(command.name, ":\\") + ':' + command.summary) + '\n';
    text += "    )\n    _arguments -C";
    for (const DescribedOption& option : commands.options)
        for (const std::string& spec : specs_of(option))
            text += " \\\n        " + single_quoted(spec);
    text +=
        " \\\n        '1: :->command' '*:: :->argument' && ret=0\n"
        "    case $state in\n"
        "        command) _describe -t commands command commands && ret=0 ;;\n"
        "        argument)\n"
        "            case $words[1] in\n";
    for (const DescribedCommand& command : commands.commands) {
        text += fmt::format("                {})\n", command.name);
        text += command.known ? arguments_call(command.options, "                    ")
                              : "                    _files\n";
        text += "                    ret=$? ;;\n";
    }
    return text +
           "            esac ;;\n    esac\n    return ret\n}\n\n"
           "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
           "    _orrery \"$@\"\nelse\n    compdef _orrery orrery\nfi\n";
}

}  // namespace orrery::cli
