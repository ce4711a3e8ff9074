#include "plan/schedule/written_grid.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace orrery::plan {
namespace {

constexpr std::size_t kMostCellsShown = 4;  // to each side
constexpr std::size_t kMostRanksShown = 3;
constexpr std::size_t kWidestCell = 24;

// The one place of a schedule's text where a cell is cut at its commas: none can be inside one.
std::vector<Cell> cells_of(const std::string& row) {
    std::vector<Cell> cells;
    for (std::size_t from = 0; from <= row.size();) {
        const std::size_t end = std::min(row.find(',', from), row.size());
        std::size_t first = from, last = end;
        while (first < last && row[first] == ' ')
            ++first;
        while (last > first && row[last - 1] == ' ')
            --last;
        cells.push_back({row.substr(first, last - first), static_cast<std::int32_t>(first)});
        from = end + 1;
    }
    return cells;
}

bool ends_with(std::string_view text, std::string_view end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// What sharded parameters need around actions, which passes decide: "2UNSHARD", "2REDUCE_GRAD".
bool is_sharding(std::string_view text) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string_view word = text.substr(digits);
    return digits > 0 && (word == "UNSHARD" || word == "RESHARD" || word == "REDUCE_GRAD" ||
                          word == "WAIT_REDUCE_GRAD");
}

std::optional<Action> grid_action(std::string_view text) {
    const std::optional<Action> action = parse_action(text);
    if (!action || !(is_compute(action->kind) || is_transfer(action->kind)) ||
        carries_statistic(action->kind))
        return std::nullopt;
    return action;
}

// The two of "(0F3;7B2)OVERLAP_F_B", or the one of any other cell; none where it is no action.
std::vector<Action> actions_of(std::string_view text) {
    constexpr std::string_view kOverlap = ")OVERLAP_F_B";
    std::vector<std::string_view> parts = {text};
    if (!text.empty() && text.front() == '(' && ends_with(text, kOverlap)) {
        const std::string_view pair = text.substr(1, text.size() - kOverlap.size() - 1);
        const std::size_t between = pair.find(';');
        if (between == std::string_view::npos) return {};
        parts = {pair.substr(0, between), pair.substr(between + 1)};
    }
    std::vector<Action> actions;
    for (const std::string_view part : parts) {
        const std::optional<Action> action = grid_action(part);
        if (!action || (parts.size() == 2 && !is_compute(action->kind))) return {};
        actions.push_back(*action);
    }
    return actions;
}

std::string shown(const std::string& text) {
    std::string out;
    for (const char c : text.substr(0, kWidestCell))
        out += c >= ' ' && c <= '~' ? c : '?';
    return out;
}

}  // namespace

WrittenGrid read_cells(const std::vector<std::string>& rows, std::vector<GridFault>& faults) {
    WrittenGrid grid;
    grid.cells.reserve(rows.size());
    for (const std::string& row : rows)
        grid.cells.push_back(cells_of(row));
    grid.actions.resize(rows.size());
    for (std::size_t rank = 0; rank < rows.size(); ++rank)
        for (std::size_t cell = 0; cell < grid.cells[rank].size(); ++cell) {
            const std::string& text = grid.cells[rank][cell].text;
            if (text.empty()) continue;
            if (is_sharding(text)) {
                ++grid.sharding;
                continue;
            }
            const auto r = static_cast<std::int32_t>(rank), c = static_cast<std::int32_t>(cell);
            const std::vector<Action> actions = actions_of(text);
            for (const Action& action : actions)
                grid.actions[rank].push_back({action, r, c});
            grid.overlapped += actions.size() == 2 ? 1 : 0;
            if (!actions.empty() || faults.size() > kMostGridFaults) continue;
            faults.push_back(grid.fault_at(r, c, fmt::format("\"{}\" is no action", shown(text))));
            faults.back().help =
                "stage, F, B, I or W, micro-batch: 2F0; or SEND_F, RECV_F, SEND_B, RECV_B, "
                "UNSHARD, RESHARD, REDUCE_GRAD, (2F1;5B0)OVERLAP_F_B";
        }
    return grid;
}

GridFault WrittenGrid::fault_at(std::int32_t rank, std::int32_t cell, std::string message) const {
    GridFault fault;
    fault.rank = rank;
    fault.cell = cell;
    const auto& row = cells[static_cast<std::size_t>(rank)];
    if (static_cast<std::size_t>(cell) < row.size()) {
        fault.column = row[static_cast<std::size_t>(cell)].column;
        fault.action = shown(row[static_cast<std::size_t>(cell)].text);
    }
    fault.message = std::move(message);
    return fault;
}

std::string WrittenGrid::drawing(std::int32_t rank, std::int32_t cell) const {
    const auto around = [](std::int32_t at, std::size_t most) {
        const auto place = static_cast<std::size_t>(at);
        return std::pair(place - std::min(place, most), place + most + 1);
    };
    const auto [first_rank, past_rank] = around(rank, kMostRanksShown);
    const auto [first_cell, past_cell] = around(cell, kMostCellsShown);
    const std::size_t end_rank = std::min(past_rank, cells.size());
    const auto text_of = [&](std::size_t r, std::size_t c) {
        return c < cells[r].size() ? shown(cells[r][c].text) : std::string();
    };
    std::vector<std::size_t> widths;
    for (std::size_t c = first_cell; c < past_cell; ++c) {
        std::size_t width = 0;
        for (std::size_t r = first_rank; r < end_rank; ++r)
            width = std::max(width, text_of(r, c).size());
        widths.push_back(width);
    }
    const std::size_t label = fmt::format("rank {}", end_rank - 1).size();
    std::string out;
    for (std::size_t r = first_rank; r < end_rank; ++r) {
        std::string line = fmt::format("{:<{}}", fmt::format("rank {}", r), label);
        std::size_t marker = 0;
        if (first_cell > 0) line += "  …";
        for (std::size_t c = first_cell; c < past_cell; ++c) {
            line += "  ";
            if (static_cast<std::int32_t>(c) == cell) marker = line.size();
            line += fmt::format("{:<{}}", text_of(r, c), widths[c - first_cell]);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += (out.empty() ? "" : "\n") + line;
        if (static_cast<std::int32_t>(r) != rank) continue;
        if (first_cell > 0) marker -= 2;  // the dots are one character of three bytes
        const std::size_t width =
            std::max<std::size_t>(1, text_of(r, static_cast<std::size_t>(cell)).size());
        out += '\n' + std::string(marker, ' ') + std::string(width, '^');
    }
    return out;
}

}  // namespace orrery::plan
