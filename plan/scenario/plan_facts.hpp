// What a plan file says besides the plan: the scenario that was planned, without the run. Whoever
// prices or performs the plan needs it for what no plan says: the constants of a software stack,
// learning rates, the tokens of a run, what a person gave.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/reader.hpp"

namespace orrery::plan {

// Of a scenario that was read without errors, and its assembled_scenario: one JSON object, pretty
// printed. Values stay as they were given, so that what-ifs begin where the scenario's own do.
std::string facts_text(const ReadResult& read, const std::string& assembled);

// What of a scenario a plan leaves open: a simulator takes the cluster that it prices the plan on
// and the run from elsewhere, a trainer the run alone.
enum class LeftOpen : std::uint8_t { cluster_and_run, run };

// The facts with what they leave open from the scenario at `path`, of which nothing else is read;
// the same as read_scenario of the scenario that the facts are of, where that has these parts.
// `sets` change these parts alone.
ReadResult read_with_facts(std::string_view facts, const std::string& facts_name, LeftOpen open,
                           const std::string& path, const std::vector<std::string>& sets,
                           const std::string& library_dir, const Files& files = disk());

// Whether a --set argument changes what the facts leave open.
bool is_left_open(LeftOpen open, std::string_view set);

}  // namespace orrery::plan
