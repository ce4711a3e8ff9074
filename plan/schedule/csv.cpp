#include "plan/schedule/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "plan/schedule/written_grid.hpp"

namespace orrery::plan {
namespace {

std::vector<std::string> notes_on(const WrittenGrid& grid) {
    std::vector<std::string> notes;
    std::size_t transfers = 0;
    for (const auto& row : grid.actions)
        for (const WrittenAction& written : row)
            transfers += is_transfer(written.action.kind) ? 1 : 0;
    if (transfers > 0)
        notes.push_back(fmt::format(
            "{} sends and receives were checked and left out: lowering makes its own", transfers));
    if (grid.sharding > 0)
        notes.push_back(fmt::format(
            "{} of UNSHARD, RESHARD and REDUCE_GRAD were left out: layout.zero_stage and the "
            "framework's overlap decide when parameters are gathered and gradients reduced",
            grid.sharding));
    if (grid.overlapped > 0)
        notes.push_back(
            fmt::format("{} of OVERLAP_F_B run as a forward and then a backward", grid.overlapped));
    return notes;
}

void append(std::string& line, const Action& action) {
    if (!line.empty()) line += ',';
    line += to_text(action);
}

}  // namespace

ImportedGrid read_grid(const std::vector<std::string>& rows) {
    ImportedGrid imported;
    const WrittenGrid written = read_cells(rows, imported.faults);
    const std::vector<GridFault> faults = grid_faults(
        written, imported.faults.empty(), imported.schedule.placement, imported.micro_batches);
    imported.faults.insert(imported.faults.end(), faults.begin(), faults.end());
    std::stable_sort(imported.faults.begin(), imported.faults.end(),
                     [](const GridFault& a, const GridFault& b) {
                         return std::tie(a.rank, a.cell) < std::tie(b.rank, b.cell);
                     });
    if (imported.faults.size() > kMostGridFaults) imported.faults.resize(kMostGridFaults);
    for (GridFault& fault : imported.faults)
        if (fault.rank >= 0) fault.drawing = written.drawing(fault.rank, fault.cell);
    if (!imported.faults.empty()) return imported;
    imported.notes = notes_on(written);
    for (const auto& row : written.actions) {
        imported.schedule.grid.emplace_back();
        for (const WrittenAction& action : row)
            if (is_compute(action.action.kind))
                imported.schedule.grid.back().push_back(action.action);
    }
    return imported;
}

std::vector<std::string> csv_rows(std::string_view text) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark)
        text.remove_prefix(kByteOrderMark.size());
    std::vector<std::string> rows;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string row(text.substr(0, end));
        if (!row.empty() && row.back() == '\r') row.pop_back();
        rows.push_back(std::move(row));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    while (!rows.empty() && rows.back().empty())
        rows.pop_back();
    return rows;
}

std::string to_csv(const ActionGrid& grid) {
    std::string text;
    for (const auto& row : grid) {
        std::string line;
        for (const Action& action : row)
            append(line, action);
        text += line + '\n';
    }
    return text;
}

std::string to_csv(const std::vector<std::vector<LoweredStep>>& rows) {
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (const LoweredStep& step : row) {
            append(line, step.action);
            if (step.with) append(line, *step.with);
        }
        text += line + '\n';
    }
    return text;
}

}  // namespace orrery::plan
