// The part that every subcommand about a scenario shares: FILE and --set, read, or reported.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_files.hpp"
#include "cli/console.hpp"
#include "plan/scenario/plan_facts.hpp"
#include "plan/scenario/reader.hpp"
#include "plan/text/plan_file.hpp"

namespace CLI {
class App;
}

namespace orrery::cli {

// What to do where a scenario names the profile `this-machine`, and it is not there yet: to time
// the computer takes seconds, and is announced on standard error.
enum class OwnProfile : std::uint8_t { make, find };

struct ScenarioInput {
    std::string file;
    std::vector<std::string> sets;
    std::string option = "--set";
    std::optional<std::string> given;  // FILE's text, where it is no file yet
    // FILE may be "-", whose text is read once from there. Not of a run, whose ranks read FILE too.
    bool reads_standard_input = false;
    // `find`: whoever reads, no profile is made, and nothing printed on standard error.
    OwnProfile own_profile = OwnProfile::make;

    // `files` learns what the scenario reads. Standard input is read.
    void declare(CLI::App& app, CommandFiles& files);
    // One of several scenarios: `positional` instead of FILE, `set_option` instead of --set.
    void declare(CLI::App& app, CommandFiles& files, const std::string& positional,
                 const std::string& set_option);
    // Adds --plan: FILE then says what the plan leaves open, and nothing else.
    void declare_plan(CLI::App& app, CommandFiles& files, plan::LeftOpen open);
    // Adds --routing: how often experts were chosen.
    void declare_routing(CLI::App& app, CommandFiles& files);
    // The plan of --plan; nullptr: FILE is to be planned.
    const plan::Plan* plan() const;
    // What FILE and --set say, read once; the profile this-machine only where there is one. Throws
    // UsageError for a --set without '='.
    const plan::ReadResult& content() const;
    // Throws UsageError for a --set without '='. If the result has errors they have been printed:
    // as text on console.err and, with `json`, as an object on console.out.
    plan::ReadResult read(Console& console, bool json, OwnProfile own = OwnProfile::make) const;
    // What FILE and --set say as one text; FILE must be sound.
    std::string assembled() const { return assembled({}); }
    // The same with these after what was set.
    std::string assembled(const std::vector<std::string>& changes) const;
    // As the user would repeat it on a command line: "FILE --set a=b". With `set`, "key=value",
    // that comes last, instead of what was set for its key.
    std::string arguments(const std::string& set = "") const;
    // The same with several.
    std::string arguments(const std::vector<std::string>& changes) const;
    // Reads FILE again with these after what was set; nothing where that is no valid scenario.
    std::optional<plan::Scenario> read_with(const std::vector<std::string>& changes,
                                            OwnProfile own = OwnProfile::make) const;

    // The same with what is wrong.
    plan::ReadResult read_all_with(const std::vector<std::string>& changes,
                                   OwnProfile own = OwnProfile::make) const;
    // Reads FILE with these after what was set, each value for itself: rules across them are not
    // asked, and keys of the layout may be "auto".
    plan::UnsettledScenario read_unsettled(const std::vector<std::string>& changes) const;

  private:
    // What was set, then what --routing says, then the changes.
    std::vector<std::string> with(const std::vector<std::string>& changes) const;
    const std::optional<std::string>& text() const;
    plan::ReadResult read_file(const std::vector<std::string>& all, const plan::Files& files) const;
    plan::ReadResult read_own(const plan::Files& files) const;
    const plan::PlanFile& plan_file() const;
    void check_plan(const plan::ReadResult& result) const;

    std::string plan_path_, routing_path_;
    plan::LeftOpen open_ = plan::LeftOpen::cluster_and_run;
    mutable std::optional<std::vector<std::string>> routing_;
    mutable std::optional<std::string> standard_input_;
    mutable std::optional<plan::PlanFile> plan_file_;
    mutable std::optional<plan::ReadResult> content_;
};

// Throws UsageError for one without '='.
void require_overrides(const std::string& option, const std::vector<std::string>& sets);

// Where models, clusters, profiles and frameworks lie that a scenario does not bring itself.
// Beside the program, or the shared library, that this code is part of where that is installed
// (<prefix>/share/orrery/scenarios), else in the source tree that it was built from.
std::string library_folder();
std::string library_folder(const std::filesystem::path& binary);  // of one of this name

// What of a path names the file.
inline std::string file_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);  // the whole where there is no folder
}

// Of a result with errors.
int exit_code_of(const plan::ReadResult& result);

}  // namespace orrery::cli
