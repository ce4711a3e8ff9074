// For fish: a line for each command and each of its options.
#include <fmt/format.h>

#include "cli/command_line/completion.hpp"
#include "trace/program_version.hpp"

namespace orrery::cli {
namespace {

// In single quotes fish takes \ and ' behind a backslash.
std::string fish_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') quoted += '\\';
        quoted += c;
    }
    return quoted + '\'';
}

// What may stand there: words and lists, as one text for --arguments.
std::string words_of_value(const DescribedOption& option) {
    std::string words;
    for (const std::string& word : option.words)
        words += (words.empty() ? "" : " ") + word;
    if (!option.source.empty())
        words += (words.empty() ? "" : " ") + ("(__orrery_words " + option.source + ")");
    return words;
}

std::string line_of(const std::string& command, const DescribedOption& option) {
    std::string text =
        fmt::format("complete -c orrery -n '__fish_seen_subcommand_from {}'", command);
    const std::string words = words_of_value(option);
    const bool paths = option.file || option.folder;
    if (option.is_positional()) {
        if (paths) text += " -F";
        if (!words.empty()) text += " -a " + fish_quoted(words);
        return paths || !words.empty() ? text + '\n' : "";
    }
    for (const std::string& name : option.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (option.folder)
        text += " -x -a '(__fish_complete_directories)'";
    else if (option.file)
        text += " -r -F";
    else if (!option.value.empty())
        text += " -x";
    if (!words.empty()) text += " -a " + fish_quoted(words);
    return text + " -d " + fish_quoted(option.help) + '\n';
}

constexpr const char* kWords = R"script(
# Words that the program lists: first a key, then what it may be.
function __orrery_words
    set -l line (commandline -opc)
    set -l found ($line[1] completion --words $argv[1] 2>/dev/null)
    if string match -q '*=*' -- (commandline -ct)
        string match -- '*=?*' $found
    else
        string match -v -- '*=?*' $found
    end
end

complete -c orrery -f
)script";

}  // namespace

std::string fish_completion(const CommandLine& commands) {
    std::string text = fmt::format(
        "# {} completion for fish, written by: orrery completion fish\n{}", tool_name(), kWords);
    for (const DescribedCommand& command : commands.commands)
        text += fmt::format("complete -c orrery -n __fish_use_subcommand -a {} -d {}\n",
                            command.name, fish_quoted(command.summary));
    for (const DescribedOption& option : commands.options) {
        text += "complete -c orrery -n __fish_use_subcommand";
        for (const std::string& name : option.names)
            text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        text += " -d " + fish_quoted(option.help) + '\n';
    }
    for (const DescribedCommand& command : commands.commands) {
        if (!command.known)
            text += fmt::format("complete -c orrery -n '__fish_seen_subcommand_from {}' -F\n",
                                command.name);
        for (const DescribedOption& option : command.options)
            text += line_of(command.name, option);
    }
    return text;
}

}  // namespace orrery::cli
