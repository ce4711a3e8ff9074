// orrery completion: the script that a shell completes words by, or the words of one kind.
#include "cli/command_line/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/completed_values.hpp"
#include "plan/exit_code.hpp"

namespace orrery::cli {
namespace {

struct Shell {
    const char* name;
    std::string (*script)(const CommandLine&);
};

constexpr Shell kShells[] = {
    {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

std::vector<std::string> shell_names() {
    std::vector<std::string> names;
    for (const Shell& shell : kShells)
        names.emplace_back(shell.name);
    return names;
}

std::vector<std::string> source_names() {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kWordSources; ++i)
        names.emplace_back(cli::name(static_cast<WordSource>(i)));
    return names;
}

class Completion : public Subcommand {
  public:
    std::string name() const override { return "completion"; }
    std::string summary() const override {
        return "Print what bash, zsh or fish completes the words of orrery by";
    }
    std::vector<std::string> examples() const override {
        return {"completion bash > ~/.local/share/bash-completion/completions/orrery",
                "completion zsh > ~/.zfunc/_orrery",
                "completion fish > ~/.config/fish/completions/orrery.fish",
                "completion --words models"};
    }

    void declare(CLI::App& app) override {
        CLI::Option* shell = app.add_option("SHELL", shell_, "bash, zsh or fish")
                                 ->option_text("WORD")
                                 ->check(CLI::IsMember(shell_names()));
        app.add_option("--words", source_,
                       fmt::format("Print such words instead, one a line: {}",
                                   fmt::join(source_names(), ", ")))
            ->type_name("WORD")
            ->check(CLI::IsMember(source_names()))
            ->excludes(shell);
    }

    int run(Console& console) override {
        if (!source_.empty()) {
            for (std::size_t i = 0; i < kWordSources; ++i)
                if (const auto source = static_cast<WordSource>(i); cli::name(source) == source_)
                    for (const std::string& word : words_of(source))
                        console.out << word << '\n';
            return kExitOk;
        }
        for (const Shell& shell : kShells) {
            if (shell_ != shell.name) continue;
            console.out << shell.script(whole_command_line(console));
            return kExitOk;
        }
        throw UsageError(fmt::format("SHELL is required: {}", fmt::join(shell_names(), ", ")));
    }

  private:
    std::string shell_, source_;
};

}  // namespace

std::string single_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text)
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + '\'';
}

std::unique_ptr<Subcommand> completion_command() {
    return std::make_unique<Completion>();
}

}  // namespace orrery::cli
