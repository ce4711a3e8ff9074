#include "plan/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace orrery::plan {

void check_failed(std::string_view condition, std::string_view detail, const char* file, int line) {
    std::fprintf(stderr, "orrery: internal error: %.*s (%.*s) at %s:%d\n",
                 static_cast<int>(condition.size()), condition.data(),
                 static_cast<int>(detail.size()), detail.data(), file, line);
    std::abort();
}

}  // namespace orrery::plan
