// The kinds of files that subcommands write, each known by its content.
#pragma once

#include <string_view>

#include "cli/command_files.hpp"

namespace orrery::cli {

// In the format that its name ends in.
OutputKind trace_output();
// Of PyTorch's allocator: *.pickle.
OutputKind snapshot_output();
// Of a device: what fit and calibrate write. A datasheet, which people write, is none.
OutputKind profile_output();
OutputKind plan_output();
OutputKind scenario_output();
// What launch writes: by the name in its first lines, or as a script for Slurm begins.
OutputKind launch_output();
OutputKind svg_output();
// A table that nccl-tests printed, or calibrate as they do.
OutputKind nccl_table_output();
// What watch keeps for Prometheus, known by how it begins.
inline constexpr std::string_view kMetricsBegin = "# HELP orrery_run_";
OutputKind metrics_output();
// What report writes, known by how it begins.
inline constexpr std::string_view kPageBegins = "<!doctype html>\n<!-- orrery report 1 -->\n";
OutputKind page_output();

}  // namespace orrery::cli
