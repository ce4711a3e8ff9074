// A grid as it is written, cell by cell, before anybody has looked whether it can run. Internal to
// plan/schedule.
#pragma once

#include <string>
#include <vector>

#include "plan/schedule/csv.hpp"

namespace orrery::plan {

struct WrittenAction {
    Action action;
    std::int32_t rank = 0;
    std::int32_t cell = 0;
};

// Text of a cell, without the space around it.
struct Cell {
    std::string text;
    std::int32_t column = 0;
};

struct WrittenGrid {
    std::vector<std::vector<Cell>> cells;             // by rank
    std::vector<std::vector<WrittenAction>> actions;  // by rank: compute and transfers
    std::size_t sharding = 0;                         // UNSHARD, RESHARD, REDUCE_GRAD
    std::size_t overlapped = 0;                       // pairs

    GridFault fault_at(std::int32_t rank, std::int32_t cell, std::string message) const;
    GridFault fault_at(const WrittenAction& action, std::string message) const {
        return fault_at(action.rank, action.cell, std::move(message));
    }
    // The cells around one, of the ranks around its own, with a marker below it.
    std::string drawing(std::int32_t rank, std::int32_t cell) const;
};

// Cells that are no actions become faults.
WrittenGrid read_cells(const std::vector<std::string>& rows, std::vector<GridFault>& faults);

// What breaks a rule of grids; see csv.hpp. Unless all cells could be read (`whole`), nothing is
// said of what is missing. `placement` and `micro_batches` are of the grid where nothing is wrong.
std::vector<GridFault> grid_faults(const WrittenGrid& grid, bool whole, StagePlacement& placement,
                                   std::int32_t& micro_batches);

// The cycle of waiting in which a grid of compute actions gets stuck, if it does: each action waits
// for the next one, or stands before it in its row.
std::vector<WrittenAction> waiting_cycle(const WrittenGrid& grid, std::int32_t stages);

}  // namespace orrery::plan
