// What each tool's file says of a scenario beyond the settings that are its keys as they are (the
// importer's Direct rows: they are asked for and answered in export.cpp), and how the file is
// written. Internal to plan/scenario/export.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/scenario/export/wanted.hpp"

namespace orrery::plan::exports {

Settings megatron_settings(const Wanted& wanted);
Settings deepspeed_settings(const Wanted& wanted);
Settings torchtitan_settings(const Wanted& wanted);
Settings nemo_settings(const Wanted& wanted);

// What stands above the settings.
struct Heading {
    std::vector<std::string> lines;            // comments
    std::map<std::string, std::string> parts;  // which part of a scenario a setting is of
};

std::string megatron_text(const Settings& settings, const Wanted& wanted, const Heading& heading);
std::string deepspeed_text(const Settings& settings, const Wanted& wanted, const Heading& heading);
std::string torchtitan_text(const Settings& settings, const Wanted& wanted, const Heading& heading);
std::string nemo_text(const Settings& settings, const Wanted& wanted, const Heading& heading);

// The command that starts a run by such a file.
std::string deepspeed_start(const Wanted& wanted);
std::string torchtitan_start(const Wanted& wanted);
std::string nemo_start(const Wanted& wanted);

// "# " before each line.
std::string as_comments(const std::vector<std::string>& lines);

}  // namespace orrery::plan::exports
