// Sections of the text report, each ending in a newline. Internal to the report.
#pragma once

#include <string>

#include "cli/report.hpp"

namespace orrery::cli {

inline constexpr std::size_t kReportColumns = 100;

std::string heading(const std::string& text, const Console& console);
// "  label       text", broken to further lines below the text.
std::string labelled(const std::string& label, const std::string& text);

// "exposed tensor communication": an account's name in words.
std::string account_text(trace::Account account);

std::string time_text(const ReportInput& input, const Console& console);
std::string communication_text(const ReportInput& input, const Console& console);
std::string memory_text(const ReportInput& input, const Console& console);
// "framework orrery (assumed: training.framework is not set; never measured on a GPU)"
std::string framework_text(const plan::Framework& framework, const sim::Profile& profile);
// The run: days, cost, energy.
std::string run_text(const ReportInput& input, const Console& console);
// What would make it fit; nothing where it fits.
std::string fixes_text(const ReportInput& input, const Console& console);
// Which prices rest on assumptions, and how much of the compute time they make up.
// "measured in FILE: …": how many ops have which source of prices, and their share of the time.
std::string prices_text(const sim::PriceSources& prices);
std::string sources_text(const ReportInput& input, const Console& console);
// "from Megatron-LM command line run.sh; not simulated: --deterministic-mode (…)"; nothing where
// nothing was left out.
std::string imported_text(const std::string& resolved_json);
// "keys that change nothing here": grouped by the reason; words for people are left out.
std::string unused_text(const ReportInput& input, const Console& console);

}  // namespace orrery::cli
