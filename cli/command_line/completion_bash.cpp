// For bash 4 and later, without the package bash-completion. A value is told as a list of tokens:
// "file", "folder", "source:models", "word:cpu", "text".
#include <fmt/format.h>

#include <map>

#include "cli/command_line/completion.hpp"
#include "trace/program_version.hpp"

namespace orrery::cli {
namespace {

std::string tokens_of(const DescribedOption& option) {
    std::string tokens;
    const auto add = [&](const std::string& token) {
        tokens += (tokens.empty() ? "" : " ") + token;
    };
    if (!option.source.empty()) add("source:" + option.source);
    for (const std::string& word : option.words)
        add("word:" + word);
    if (option.folder) add("folder");
    if (option.file) add("file");
    return tokens.empty() ? "text" : tokens;
}

std::string option_names_of(const DescribedCommand& command) {
    std::string names;
    for (const DescribedOption& option : command.options)
        for (const std::string& name : option.names)
            names += (names.empty() ? "" : " ") + name;
    return names;
}

// A word for each argument without a name, its tokens joined by commas; "+" before one that may be
// given again.
std::string arguments_of(const DescribedCommand& command) {
    std::string all;
    for (const DescribedOption& option : command.options) {
        if (!option.is_positional()) continue;
        std::string tokens = tokens_of(option);
        for (char& c : tokens)
            if (c == ' ') c = ',';
        all += (all.empty() ? "" : " ") + std::string(option.repeatable ? "+" : "") + tokens;
    }
    return command.known ? all : "+file";
}

constexpr const char* kFunctions = R"script(
# The tokens of $1 that fit $2, into COMPREPLY.
_orrery_fill() {
    local token current=$2 before='' word
    local -a found=()
    for token in $1; do
        case $token in
            file)
                compopt -o filenames 2>/dev/null
                while IFS= read -r word; do found+=("$word"); done < <(compgen -f -- "$current")
                ;;
            folder)
                compopt -o filenames 2>/dev/null
                while IFS= read -r word; do found+=("$word"); done < <(compgen -d -- "$current")
                ;;
            word:*)
                if [[ ${token#word:} == "$current"* ]]; then found+=("${token#word:}"); fi
                ;;
            source:*)
                while IFS= read -r word; do
                    if [[ $word != "$current"* ]]; then continue; fi
                    # First the key, then what it may be.
                    if [[ $word == *=?* && $current != *=* ]]; then continue; fi
                    if [[ $word == *= ]]; then compopt -o nospace 2>/dev/null; fi
                    found+=("$word")
                done < <("$_orrery_program" completion --words "${token#source:}" 2>/dev/null)
                ;;
        esac
    done
    # bash puts in what stands behind the last '=' of the word.
    if [[ $current == *=* && $COMP_WORDBREAKS == *=* ]]; then before=${current%"${current##*=}"}; fi
    for word in "${found[@]}"; do COMPREPLY+=("${word#"$before"}"); done
}

_orrery() {
    local _orrery_program=${COMP_WORDS[0]} REPLY word current command='' previous='' i count=0
    local -a line=() arguments=()
    COMPREPLY=()
    # bash parts words at '=': together again.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((${#line[@]} > 0)) && [[ $word == = || (i -gt 1 && ${COMP_WORDS[i - 1]} == =) ]]; then
            line[${#line[@]} - 1]+=$word
        else
            line+=("$word")
        fi
    done
    current=${line[${#line[@]} - 1]}
    unset "line[${#line[@]} - 1]"
    for word in "${line[@]}"; do
        if [[ -z $command ]]; then
            if [[ $word != -* ]]; then command=$word; fi
        elif [[ -n $previous ]]; then
            previous=''  # the value of an option
        elif [[ $word == -* ]]; then
            _orrery_value "$command $word"
            if [[ -n $REPLY ]]; then previous=$word; fi
        else
            count=$((count + 1))
        fi
    done
    if [[ -z $command ]]; then
        _orrery_fill "$(printf 'word:%s ' $_orrery_commands)" "$current"
        return
    fi
    if [[ -n $previous ]]; then
        _orrery_value "$command $previous"
        _orrery_fill "$REPLY" "$current"
    elif [[ $current == --*=* ]]; then
        _orrery_value "$command ${current%%=*}"
        _orrery_fill "$REPLY" "${current#*=}"
    elif [[ $current == -* ]]; then
        _orrery_options "$command"
        _orrery_fill "$(printf 'word:%s ' $REPLY)" "$current"
    else
        _orrery_arguments "$command"
        read -r -a arguments <<<"$REPLY"
        word=${arguments[count]-}
        if [[ -z $word && ${#arguments[@]} -gt 0 && ${arguments[${#arguments[@]} - 1]} == +* ]]; then
            word=${arguments[${#arguments[@]} - 1]}
        fi
        word=${word#+}
        _orrery_fill "${word//,/ }" "$current"
    fi
}

complete -F _orrery orrery
)script";

// A function that sets REPLY by its first argument; rows that give the same stand together.
std::string lookup(const std::string& comment, const std::string& name,
                   const std::vector<std::pair<std::string, std::string>>& rows) {
    std::map<std::string, std::string> patterns;  // by what they give
    for (const auto& [key, value] : rows) {
        std::string& pattern = patterns[value];
        pattern += (pattern.empty() ? "" : " | ") + single_quoted(key);
    }
    std::string text = fmt::format("\n# {}\n{}() {{\n    case $1 in\n", comment, name);
    for (const auto& [value, pattern] : patterns)
        text += fmt::format("        {}) REPLY={} ;;\n", pattern, single_quoted(value));
    return text + "        *) REPLY='' ;;\n    esac\n}\n";
}

}  // namespace

std::string bash_completion(const CommandLine& commands) {
    std::string names;
    std::vector<std::pair<std::string, std::string>> options, values, arguments;
    for (const DescribedCommand& command : commands.commands) {
        names += (names.empty() ? "" : " ") + command.name;
        options.emplace_back(command.name, option_names_of(command));
        arguments.emplace_back(command.name, arguments_of(command));
        for (const DescribedOption& option : command.options)
            for (const std::string& name : option.names)
                if (!option.value.empty())
                    values.emplace_back(command.name + ' ' + name, tokens_of(option));
    }
    for (const DescribedOption& option : commands.options)
        for (const std::string& name : option.names)
            names += ' ' + name;
    return fmt::format("# {} completion for bash, written by: orrery completion bash\n\n",
                       tool_name()) +
           "_orrery_commands=" + single_quoted(names) + '\n' +
           lookup("The options of a command.", "_orrery_options", options) +
           lookup("What stands behind an option; nothing: it is a flag.", "_orrery_value", values) +
           lookup("What a command's arguments without a name are, in order.", "_orrery_arguments",
                  arguments) +
           kFunctions;
}

}  // namespace orrery::cli
