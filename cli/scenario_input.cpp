#include "cli/scenario_input.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/exit_code.hpp"
#include "cli/subcommand.hpp"

namespace orrery::cli {
namespace {

// For a POSIX shell: quoted where a character may mean something to it.
std::string quoted(const std::string& word) {
    constexpr const char* kPlain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=,:+@%";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
    std::string text = "'";
    for (const char c : word) {
        if (c == '\'')
            text += "'\\''";
        else
            text += c;
    }
    return text + "'";
}

}  // namespace

void ScenarioInput::declare(CLI::App& app) {
    app.add_option("FILE", file, "Scenario, a JSON file")->required()->option_text(" ");
    app.add_option("--set", sets, "Override a key, e.g. layout.tensor_parallel=4; repeatable")
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->take_all()
        ->allow_extra_args(false);
}

plan::ReadResult ScenarioInput::read(Console& console, bool json) const {
    for (const std::string& set : sets)
        if (!plan::valid_override(set))
            throw UsageError(fmt::format(
                "--set {}: KEY=VALUE is expected, e.g. --set layout.tensor_parallel=4", set));
    plan::ReadResult result = plan::read_scenario(file, sets, ORRERY_SCENARIO_DIR);
    if (!result.errors.empty()) {
        console.err << plan::format_text(result.errors);
        if (json) console.out << plan::format_json(result.errors);
    }
    return result;
}

std::string ScenarioInput::arguments(const std::string& set) const {
    const std::string key = set.substr(0, set.find('=') + 1);
    std::string text = quoted(file);
    for (const std::string& other : sets)
        if (key.empty() || other.rfind(key, 0) != 0) text += " --set " + quoted(other);
    return set.empty() ? text : text + " --set " + quoted(set);
}

int exit_code_of(const plan::ReadResult& result) {
    return result.unreadable ? kExitUnreadable : kExitInvalidScenario;
}

}  // namespace orrery::cli
