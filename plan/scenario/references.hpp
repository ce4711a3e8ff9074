// Strings that stand for files: finds them, reads them, and puts their content where the string
// was. Internal to plan/scenario.
#pragma once

#include <optional>
#include <string>

#include "plan/scenario/files.hpp"
#include "plan/scenario/json_text.hpp"
#include "plan/scenario/reading.hpp"

namespace orrery::plan {

// Where files are looked for; see read_scenario.
struct Folders {
    std::string base;     // of the scenario file
    std::string library;  // shipped models, clusters, …
    const Files& files;
};

// What a folder of Hugging Face calls the model in it.
inline constexpr const char* kModelConfig = "config.json";

// Absolute path of the file that `reference` means to a value that came from `source`; empty if
// none.
std::string find_file(const std::string& reference, const Source& source, const Folders& folders);

// Reports at `pointer` that `reference` was not found, with what the library has of its kind
// ("models", "clusters", …), and that the scenario is unreadable.
void report_missing_file(Reading& reading, const std::string& pointer, const std::string& reference,
                         const std::string& kind, const Folders& folders);

// The JSON of the file at `path`, which the value at `pointer` calls `reference`; reports all that
// is wrong with it. Nothing where the file cannot be read.
std::optional<ParsedJson> parse_file(Reading& reading, const std::string& pointer,
                                     const std::string& reference, const std::string& path,
                                     const Files& files);

// The config of a model that `reference` names as Hugging Face does: a folder with a config.json,
// or "org/name" in the cache of what was downloaded. Nothing is downloaded. Empty if none.
std::string find_model_config(const std::string& reference, const Source& source,
                              const Folders& folders);

// Replaces the string at `pointer`, if it is one, by the content of the file that it names. For
// presets the string may be a bare name: "orrery" is "frameworks/orrery.json".
void follow_reference(Reading& reading, const std::string& pointer, const std::string& kind,
                      Source::Kind becomes, const Folders& folders);

}  // namespace orrery::plan
