// Schedules as text, in the form in which PyTorch's pipelining package writes and reads them: a row
// for each pipeline rank, its actions in order, with commas between them ("0F0,0F1,,0I0"). Empty
// cells are time steps in which the rank idles; they say nothing about the order.
//
// Read: F, I, W and B; (0F3;7B2)OVERLAP_F_B, which is its two actions one after the other; and what
// lowering makes itself: SEND_F, RECV_F, SEND_B and RECV_B, which must belong to the actions around
// them, UNSHARD, RESHARD and REDUCE_GRAD. Which rank holds a stage follows from where its actions
// are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

// What is wrong with a grid, at one of its cells. Counted from 0.
struct GridFault {
    std::int32_t rank = -1;  // −1: of no single place
    std::int32_t cell = 0;
    std::int32_t column = 0;  // characters of the row before the cell
    std::string action;       // what the cell says
    std::string message;      // one sentence, without a full stop
    std::string drawing;      // the grid around the cell, with a marker; lines
    std::string help;         // what to do; may be empty

    bool operator==(const GridFault&) const = default;
};

struct ImportedGrid {
    Schedule schedule;  // where there are no faults
    std::int32_t micro_batches = 0;
    std::vector<GridFault> faults;   // in the order of the text, at most kMostGridFaults
    std::vector<std::string> notes;  // what was read and left out

    bool operator==(const ImportedGrid&) const = default;
};

constexpr std::size_t kMostGridFaults = 20;

// A string for each rank. Whatever is wrong with them is a fault; a grid without faults runs to its
// end, whatever its actions take.
ImportedGrid read_grid(const std::vector<std::string>& rows);

// The rows of a text, without line ends; empty lines at its end are none.
std::vector<std::string> csv_rows(std::string_view text);

// One line for each rank. What read_grid reads back.
std::string to_csv(const ActionGrid& grid);
std::string to_csv(const std::vector<std::vector<LoweredStep>>& rows);

}  // namespace orrery::plan
