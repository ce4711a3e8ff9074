#include "cli/run/for_backends.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace orrery::cli {

std::string for_backends(const std::string& option,
                         const std::function<bool(const runtime::BackendRow&)>& has_it) {
    std::vector<std::string_view> names;
    for (const runtime::BackendRow& row : runtime::backends())
        if (has_it(row)) names.push_back(row.name);
    return fmt::format("{} is for --backend {}", option, fmt::join(names, " and "));
}

}  // namespace orrery::cli
