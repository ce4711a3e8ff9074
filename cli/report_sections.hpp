// Sections of the text report, each ending in a newline. Internal to the report.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/report.hpp"

namespace orrery::cli {

inline constexpr std::size_t kReportColumns = 100;

std::string heading(const std::string& text, const Console& console);
// "  label       text", broken to further lines below the text.
std::string labelled(const std::string& label, const std::string& text);

// "exposed tensor communication": an account's name in words.
std::string account_text(trace::Account account);

// "device 12 takes 1.3 x as long; kernels vary by 2 % (normal, seed 1), so each rank is simulated";
// nothing where all devices and links are alike.
std::string uneven_line(const plan::Cluster& cluster);
// What that costs a step, and how steps of other draws compare:
//
//   stragglers  435 ms of the step (7.0 %): 6.22 s without; imbalance +412 ms, bubble +23 ms
//               1 slow device; worst is device 1234 (rank 1234), whose … alone +435 ms
//   draws       of 32: median 6.5 s, 5 % to 95 % 6.2 s to 6.9 s, mean 6.6 s, longest 6.9 s
std::string stragglers_text(const ReportInput& input);
nlohmann::ordered_json stragglers_json(const sim::StragglerCost& cost);
nlohmann::ordered_json draws_json(const sim::StepDraws& draws);

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
nlohmann::ordered_json prices_json(const sim::PriceSources& prices);
std::string sources_text(const ReportInput& input, const Console& console);
// "from Megatron-LM command line run.sh; not simulated: --deterministic-mode (…)"; nothing where
// nothing was left out.
std::string imported_text(const std::string& resolved_json);
// "keys that change nothing here": grouped by the reason; words for people are left out.
std::string unused_text(const ReportInput& input, const Console& console);

}  // namespace orrery::cli
