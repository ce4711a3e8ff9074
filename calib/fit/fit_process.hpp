// What a process holds beside the arenas of its ranks: something that they share (the program, its
// libraries), something of each rank (stacks, scratch of kernels), something of each op of a rank's
// program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace orrery::fit {

// One process, as it was at its largest.
struct ProcessRow {
    std::int64_t ranks = 0;
    std::int64_t ops = 0;    // of all ranks' programs
    std::int64_t bytes = 0;  // beside the arenas
};

// A profile's section `process`: bytes = shared + ranks · rank + ops · op, by relative error.
// Throws FitError for fewer than three rows.
nlohmann::ordered_json process_json(const std::vector<ProcessRow>& rows, const std::string& source);

}  // namespace orrery::fit
