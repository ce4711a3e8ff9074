// Degrees of parallelism against the ranks of a run, for every format that has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

// Reads a degree and writes it to the scenario; 1 where it is not given.
std::int64_t copied_degree(Sheet& sheet, const char* key, const char* to);

struct Ranks {
    std::optional<std::int64_t> count;
    std::string from;  // the options that say so
    std::string why;   // where the count is not known: because of what
};

// Data-parallel ranks: what tensor × pipeline × context leave of the ranks. An error where they do
// not divide them. Not known without a count; then it is missing, and "auto" until it is given.
std::optional<std::int64_t> settle_data_parallel(Sheet& sheet, const Ranks& ranks,
                                                 std::int64_t tensor, std::int64_t pipeline,
                                                 std::int64_t context);

// Whether data-parallel ranks × micro-batch divide the global batch; an error at `key` where not.
bool check_batch(Sheet& sheet, const std::string& key, std::int64_t global, std::int64_t micro,
                 std::int64_t data);

}  // namespace orrery::plan::imports
