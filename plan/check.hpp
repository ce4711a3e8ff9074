// Faults of our own: a broken invariant stops the program with the place and what was violated.
// User errors never come through here (they are diagnostics), nor does the environment
// (exceptions).
#pragma once

#include <string_view>

namespace orrery::plan {

[[noreturn]] void check_failed(std::string_view condition, std::string_view detail,
                               const char* file, int line);

}  // namespace orrery::plan

#define ORRERY_CHECK(condition, detail)                                                           \
    do {                                                                                          \
        if (!(condition)) ::orrery::plan::check_failed(#condition, (detail), __FILE__, __LINE__); \
    } while (false)
