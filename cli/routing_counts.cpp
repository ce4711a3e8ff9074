#include "cli/routing_counts.hpp"

#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "plan/scenario/files.hpp"

namespace orrery::cli {
namespace {

nlohmann::json parsed(const std::string& text) {
    return nlohmann::json::parse(text, nullptr, false);
}

// Of the events that have counts; lines that are cut off, or no events, are not asked.
nlohmann::json rows_of_lines(const std::string& text) {
    nlohmann::json rows = nlohmann::json::array();
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json event = parsed(line);
        if (!event.is_object()) continue;
        const auto counts = event.find("expert_counts");
        if (counts == event.end() || !counts->is_array()) continue;
        rows.insert(rows.end(), counts->begin(), counts->end());
    }
    return rows;
}

}  // namespace

std::vector<std::string> routing_settings(const std::string& path) {
    std::string why;
    const std::optional<std::string> text = plan::disk().read(path, why);
    if (!text) throw RoutingCountsError(fmt::format("--routing {}: {}", path, why));
    nlohmann::json rows = parsed(*text);
    if (!rows.is_array()) rows = rows_of_lines(*text);
    if (rows.empty())
        throw RoutingCountsError(fmt::format(
            "--routing {}: there are no counts of experts; what orrery train --json prints of a "
            "model with experts has them, and so has an array of rows, a count for each expert",
            path));
    return {"training.routing.distribution=counts", "training.routing.counts=" + rows.dump()};
}

}  // namespace orrery::cli
