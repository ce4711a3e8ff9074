#include "cli/scenario_input.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <iostream>
#include <system_error>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/completed_values.hpp"
#include "cli/machine_files.hpp"
#include "cli/routing_counts.hpp"
#include "cli/subcommand.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/exit_code.hpp"

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

// As if a text stood in a file.
class WithText : public MachineFiles {
  public:
    WithText(std::ostream* told, std::string path, const std::optional<std::string>& text)
        : MachineFiles(told), path_(std::move(path)), text_(text) {}

    bool is_file(const std::string& path) const override {
        return (text_ && path == path_) || MachineFiles::is_file(path);
    }
    std::optional<std::string> read(const std::string& path, std::string& why) const override {
        return text_ && path == path_ ? text_ : MachineFiles::read(path, why);
    }

  private:
    std::string path_;
    const std::optional<std::string>& text_;
};

// The program, or the shared library that it has been loaded with or from.
std::filesystem::path binary_of_this_code() {
    static const char place = 0;
    Dl_info found{};
    link_map* loaded = nullptr;
    void** const extra = reinterpret_cast<void**>(&loaded);
    std::error_code failed;
    if (dladdr1(&place, &found, extra, RTLD_DL_LINKMAP) != 0 && *loaded->l_name != '\0')
        return std::filesystem::canonical(loaded->l_name, failed);
    return std::filesystem::read_symlink("/proc/self/exe", failed);  // a program has no name there
}

}  // namespace

void ScenarioInput::declare(CLI::App& app, CommandFiles& files) {
    declare(app, files, "FILE", "--set");
    app.get_option("--set")->description(
        "Override a key, e.g. layout.tensor_parallel=4; repeatable");
}

void ScenarioInput::declare(CLI::App& app, CommandFiles& files, const std::string& positional,
                            const std::string& set_option) {
    option = set_option;
    reads_standard_input = true;
    CLI::Option* scenario =
        app.add_option(positional, file, "Scenario, a JSON file; - is standard input")
            ->required()
            ->option_text(" ");
    files.reads(scenario, [this] { return content().files; });
    app.add_option(option, sets, fmt::format("Override a key of {}; repeatable", positional))
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->take_all()
        ->allow_extra_args(false)
        ->check(completed_by(WordSource::settings));
}

void require_overrides(const std::string& option, const std::vector<std::string>& sets) {
    for (const std::string& set : sets)
        if (!plan::valid_override(set))
            throw UsageError(
                fmt::format("{} {}: KEY=VALUE is expected, e.g. {} layout.tensor_parallel=4",
                            option, set, option));
}

void ScenarioInput::declare_plan(CLI::App& app, CommandFiles& files, plan::LeftOpen open) {
    open_ = open;
    const bool run = open == plan::LeftOpen::run;
    files.reads(app.add_option("--plan", plan_path_,
                               fmt::format("A plan of orrery plan --output: FILE says the {} alone",
                                           run ? "run" : "cluster"))
                    ->type_name("PLAN"));
}

void ScenarioInput::declare_routing(CLI::App& app, CommandFiles& files) {
    files.reads(app.add_option("--routing", routing_path_,
                               "How often experts were chosen: lines of train --json, or rows of "
                               "counts")
                    ->type_name("COUNTS"));
}

std::vector<std::string> ScenarioInput::with(const std::vector<std::string>& changes) const {
    if (!routing_ && !routing_path_.empty()) routing_ = routing_settings(routing_path_);
    std::vector<std::string> all = sets;
    if (routing_) all.insert(all.end(), routing_->begin(), routing_->end());
    all.insert(all.end(), changes.begin(), changes.end());
    return all;
}

const plan::Plan* ScenarioInput::plan() const {
    return plan_path_.empty() ? nullptr : &plan_file().plan;
}

const plan::PlanFile& ScenarioInput::plan_file() const {
    if (plan_file_) return *plan_file_;
    std::string why;
    const std::optional<std::string> text = plan::disk().read(plan_path_, why);
    if (!text) throw plan::PlanFileError(plan_path_, "the plan cannot be read: " + why);
    plan::ParsedPlanFile parsed = plan::parse_plan_file(*text);
    if (!parsed.file) throw plan::PlanFileError(plan_path_, parsed.error);
    plan_file_ = std::move(parsed.file);
    return *plan_file_;
}

// FILE's, where it is no file.
const std::optional<std::string>& ScenarioInput::text() const {
    if (given || !reads_standard_input || file != "-") return given;
    std::string why;
    if (!standard_input_) standard_input_ = plan::read_whole(std::cin, why);
    if (!standard_input_) throw UsageError("standard input: " + why);
    return standard_input_;
}

plan::ReadResult ScenarioInput::read_file(const std::vector<std::string>& all,
                                          const plan::Files& files) const {
    if (plan_path_.empty()) return plan::read_scenario(file, all, library_folder(), files);
    return plan::read_with_facts(plan_file().facts, plan_path_, open_, file, all, library_folder(),
                                 files);
}

// On another cluster "auto" may come to another number than the plan has.
plan::ReadResult ScenarioInput::read_own(const plan::Files& files) const {
    plan::ReadResult result = read_file(with({}), files);
    if (plan_path_.empty()) return result;
    const std::int64_t planned = plan_file().plan.mesh.data;
    if (result.scenario && result.scenario->layout.data_parallel == planned) return result;
    return read_file(with({fmt::format("layout.data_parallel={}", planned)}), files);
}

// A file that someone has changed may say a plan that nobody would build.
void ScenarioInput::check_plan(const plan::ReadResult& result) const {
    if (plan_path_.empty() || !result.scenario) return;
    const std::vector<std::string> faults = plan::plan_faults(plan_file().plan, *result.scenario);
    if (faults.empty()) return;
    std::string more;
    if (faults.size() > 1) more = fmt::format(" (and {} faults more)", faults.size() - 1);
    throw plan::PlanFileError(plan_path_, "a plan that breaks its rules: " + faults.front() + more);
}

// Asked before the command runs: nothing is measured for it.
const plan::ReadResult& ScenarioInput::content() const {
    require_overrides(option, sets);
    for (const std::string& set : sets)
        if (!plan_path_.empty() && !plan::is_left_open(open_, set))
            throw UsageError(fmt::format(
                "{} {}: {} says it; beside --plan only keys of {} can be set", option, set,
                plan_path_, open_ == plan::LeftOpen::run ? "run" : "cluster and run"));
    if (!plan_path_.empty() && !routing_path_.empty())
        throw UsageError(
            "--plan and --routing exclude each other: the plan says how often experts "
            "are chosen");
    if (!content_) content_ = read_own(WithText(nullptr, file, text()));
    return *content_;
}

plan::ReadResult ScenarioInput::read(Console& console, bool json, OwnProfile own) const {
    plan::ReadResult result = content();
    if (!result.scenario && own == OwnProfile::make && own_profile == OwnProfile::make)
        result = read_own(WithText(&console.err, file, text()));
    check_plan(result);
    if (!result.errors.empty()) {
        console.err << plan::format_text(result.errors);
        if (json) console.out << plan::format_json(result.errors);
    }
    return result;
}

std::string ScenarioInput::assembled(const std::vector<std::string>& changes) const {
    return plan::assembled_scenario(file, with(changes), library_folder(),
                                    WithText(nullptr, file, text()));
}

std::string ScenarioInput::arguments(const std::string& set) const {
    return arguments(set.empty() ? std::vector<std::string>{} : std::vector<std::string>{set});
}

std::string ScenarioInput::arguments(const std::vector<std::string>& changes) const {
    std::string text = quoted(file);
    for (const std::string& set : sets) {
        const bool replaced =
            std::any_of(changes.begin(), changes.end(), [&](const std::string& change) {
                return set.rfind(change.substr(0, change.find('=') + 1), 0) == 0;
            });
        if (!replaced) text += " --set " + quoted(set);
    }
    if (!routing_path_.empty()) text += " --routing " + quoted(routing_path_);
    for (const std::string& change : changes)
        text += " --set " + quoted(change);
    return text;
}

std::optional<plan::Scenario> ScenarioInput::read_with(const std::vector<std::string>& changes,
                                                       OwnProfile own) const {
    return read_all_with(changes, own).scenario;
}

plan::ReadResult ScenarioInput::read_all_with(const std::vector<std::string>& changes,
                                              OwnProfile own) const {
    const bool make = own == OwnProfile::make && own_profile == OwnProfile::make;
    return read_file(with(changes), WithText(make ? &std::cerr : nullptr, file, text()));
}

plan::UnsettledScenario ScenarioInput::read_unsettled(
    const std::vector<std::string>& changes) const {
    require_overrides(option, sets);
    std::ostream* const told = own_profile == OwnProfile::make ? &std::cerr : nullptr;
    return plan::read_unsettled(file, with(changes), library_folder(),
                                WithText(told, file, text()));
}

std::string library_folder(const std::filesystem::path& binary) {
    const auto installed = binary.parent_path().parent_path() / "share/orrery/scenarios";
    std::error_code ignored;
    return std::filesystem::is_directory(installed, ignored) ? installed.string()
                                                             : ORRERY_SCENARIO_DIR;
}

std::string library_folder() {
    // Looked up once: a path that a library was loaded by may be relative to another folder later.
    static const std::filesystem::path binary = binary_of_this_code();
    return library_folder(binary);
}

int exit_code_of(const plan::ReadResult& result) {
    return result.unreadable ? kExitUnreadable : kExitInvalidScenario;
}

}  // namespace orrery::cli
