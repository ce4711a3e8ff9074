#include "runtime/launch/slurm_lists.hpp"

#include "runtime/launch/whole_number.hpp"

namespace orrery::runtime {

std::optional<std::string> first_host(std::string_view hosts) {
    std::string host;
    while (!hosts.empty() && hosts.front() != ',') {
        if (hosts.front() != '[') {
            if (hosts.front() == ']') return std::nullopt;
            host += hosts.front();
            hosts.remove_prefix(1);
            continue;
        }
        const std::size_t end = hosts.find(']');
        if (end == std::string_view::npos) return std::nullopt;
        const std::string_view ranges = hosts.substr(1, end - 1);
        const std::string_view number = ranges.substr(0, ranges.find_first_of("-,"));
        if (!whole_number(number)) return std::nullopt;
        host += number;
        hosts.remove_prefix(end + 1);
    }
    if (host.empty()) return std::nullopt;
    return host;
}

std::optional<std::int64_t> tasks_of_node(std::string_view list, std::int64_t node) {
    while (!list.empty()) {
        const std::size_t comma = list.find(',');
        std::string_view entry = list.substr(0, comma);
        std::optional<std::int64_t> nodes = 1;
        if (const std::size_t open = entry.find("(x"); open != std::string_view::npos) {
            if (entry.back() != ')') return std::nullopt;
            nodes = whole_number(entry.substr(open + 2, entry.size() - open - 3));
            entry = entry.substr(0, open);
        }
        const std::optional<std::int64_t> tasks = whole_number(entry);
        if (!tasks || !nodes) return std::nullopt;
        if (node < *nodes) return tasks;
        node -= *nodes;
        list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    }
    return std::nullopt;
}

}  // namespace orrery::runtime
