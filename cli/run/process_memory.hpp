// What a process that trains holds beside the arenas of its ranks: stacks, the program and its
// libraries, plans, scratch of kernels. Seen from outside, by training small models in processes of
// their own.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace orrery::cli {

// One process, as it was at its largest.
struct ProcessRow {
    std::int64_t ranks = 0;
    std::int64_t ops = 0;    // of all ranks' programs
    std::int64_t bytes = 0;  // beside the arenas
};

// Runs this program's `train` on the library's smallest scenario in several layouts. Throws
// fit::FitError where one of them fails.
std::vector<ProcessRow> measure_processes();

// The profile's section `process`: bytes of all ranks, of each, of each op.
nlohmann::ordered_json process_json(const std::vector<ProcessRow>& rows, const std::string& source);

}  // namespace orrery::cli
