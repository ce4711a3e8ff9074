// From a scenario file to a Scenario: parses, follows references, applies --set, fills defaults and
// presets, checks every rule. A reader reports all that is wrong at once and throws nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/diagnostic.hpp"
#include "plan/scenario/files.hpp"
#include "plan/scenario/rule_check.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

struct ReadResult {
    std::optional<Scenario> scenario;  // set exactly when `errors` is empty
    std::vector<Diagnostic> errors;    // in the order of the file's parts, then rules across them
    // The resolved scenario, pretty printed: itself a scenario file that reads to the same Scenario
    // (from the same folder and library: the profile stays a reference). Empty when there are
    // errors.
    std::string resolved_json;
    // Pointers of the values that the scenario's files and --set give, and of those that no reader
    // asks for; not of what a preset or a default gives. Empty when there are errors.
    std::vector<std::string> given;
    std::vector<std::string> unread;
    // A file is missing or is not JSON: exit code 5. Otherwise errors mean exit code 3.
    bool unreadable = false;
    // Where each file was found that was read or that a value names (model, cluster, profile, data,
    // …), the scenario's own among them; sorted. Also where there are errors.
    std::vector<std::string> files;
};

// Whether `text` is that of a scenario, sound or not: an object of a scenario's parts and nothing
// else, with a layout. What stands beside scenarios (configs of models, clusters, profiles, traces)
// is none.
bool is_scenario_text(std::string_view text);

// Reads `path`. Each of `sets` is "a.b.c=value"; see valid_override. The value is parsed as JSON,
// else taken as a string. Strings for model, cluster, cluster.profile and training.framework name
// files: looked for from the folder of the file that names them, then its parents up to one that is
// called "scenarios", then the current folder (for --set only), then `library_dir`. The profile
// "this-machine" is what `files` has for it.
ReadResult read_scenario(const std::string& path, const std::vector<std::string>& sets,
                         const std::string& library_dir, const Files& files = disk());

// The same from memory: `name` is what messages call the text, `base_dir` the folder it stands in.
// No file is looked at but through `files`.
ReadResult read_scenario_text(std::string_view text, const std::string& name,
                              const std::string& base_dir, const std::vector<std::string>& sets,
                              const std::string& library_dir, const Files& files = disk());

// The part "layout" of a resolved scenario, one line of JSON.
std::string layout_text(const Layout& layout);

// A scenario whose values are each sound, before the rules across them are asked: what a search
// begins with. Keys of the layout that are "auto" have their defaults and are in `automatic`.
struct UnsettledScenario {
    std::optional<Scenario> scenario;  // set exactly when `errors` is empty
    LeftToSettle left;
    std::vector<std::string> automatic;  // "layout.tensor_parallel"; data_parallel is none of them
    std::vector<std::string> given;
    std::vector<Diagnostic> errors;
    bool unreadable = false;
};
UnsettledScenario read_unsettled(const std::string& path, const std::vector<std::string>& sets,
                                 const std::string& library_dir, const Files& files = disk());

// What FILE and `sets` say, as one text: references followed, values as they were given. It reads
// to the same Scenario, and so does it with other changes; the scenario must be sound.
std::string assembled_scenario(const std::string& path, const std::vector<std::string>& sets,
                               const std::string& library_dir, const Files& files = disk());

// Whether a --set argument has the form "key=value" with a key that is not empty (else: usage
// error).
bool valid_override(std::string_view text);

}  // namespace orrery::plan
