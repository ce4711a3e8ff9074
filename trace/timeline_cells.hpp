// From a track to the cells of a row of the text timeline: what filled most of each slice of time.
// Of the timelines as text and on a page; the desktop application draws the same work_pieces.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::trace {

// What a cell of a row can show. Work carries its micro-batch; waiting has a character of its own.
// A backward may run in halves: input gradient, and weight gradient later.
enum class Paint : std::uint8_t {
    forward,
    recompute,
    backward,
    input,
    weight,
    optimizer,
    exposed,
    bubble,
    idle
};
inline constexpr std::size_t kPaints = 9;

inline bool is_gradient(Paint paint) {
    return paint == Paint::backward || paint == Paint::input || paint == Paint::weight;
}

// A stretch of time of one kind; `step` is the action's index in the program, −1 for waiting.
struct Piece {
    Paint paint = Paint::idle;
    std::int32_t step = -1;
    Picoseconds from = 0;
    Picoseconds to = 0;
    Paint within = Paint::idle;  // of recomputation: the gradient that it is made for
};

// Time of one action, or of one way of waiting, within a cell. A backward has its recomputation
// with it: they alternate layer by layer, faster than cells can show.
struct Share {
    Paint paint = Paint::idle;
    std::int32_t step = -1;
    Picoseconds time = 0;
    Picoseconds recompute = 0;  // of it
};

// [from, to) in `cells` slices.
struct Window {
    Picoseconds from = 0;
    Picoseconds to = 0;
    int cells = 0;

    // Start of a cell; edge(cells) is the end. Whole picoseconds, without overflow.
    Picoseconds edge(int cell) const {
        const Picoseconds span = to - from;
        return from + span / cells * cell + span % cells * cell / cells;
    }
};

// What an action's backward ops are.
Paint gradient_of(const StepActions& actions);

// The track's compute ops, in the order of the program.
std::vector<Piece> work_pieces(const Trace& trace, const Track& track);

// The first track of each program, in order of programs: a timeline's rows.
std::vector<const Track*> rows_of(const Trace& trace);

// What the track does in the trace's window: its compute ops, and what it waits for between them.
std::vector<Piece> pieces_of(const Trace& trace, const Track& track);

// One share per cell.
std::vector<Share> cells_of(const std::vector<Piece>& pieces, const Window& window);

}  // namespace orrery::trace
