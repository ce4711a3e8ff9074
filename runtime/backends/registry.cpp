#include "runtime/backends/registry.hpp"

#include <algorithm>
#include <array>

#include "plan/check.hpp"
#include "runtime/backends/rows.hpp"

namespace orrery::runtime {

std::span<const BackendRow> backends() {
    static const std::array rows = {cpu_row(), cuda_row()};
    return rows;
}

std::vector<std::string> backend_names() {
    std::vector<std::string> names;
    for (const BackendRow& row : backends())
        names.emplace_back(row.name);
    return names;
}

const BackendRow& backend_named(std::string_view name) {
    const auto rows = backends();
    const auto found = std::find_if(rows.begin(), rows.end(),
                                    [&](const BackendRow& row) { return row.name == name; });
    ORRERY_CHECK(found != rows.end(), "no such backend: " + std::string(name));
    return *found;
}

}  // namespace orrery::runtime
