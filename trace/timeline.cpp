#include "trace/timeline.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "plan/ir/action.hpp"
#include "trace/timeline_axis.hpp"
#include "trace/timeline_cells.hpp"

namespace orrery::trace {
namespace {

constexpr int kLeastColumns = 40;

struct Look {
    char first;  // of a run of cells of one action; micro-batch follows
    char further;
    const char* colour;  // background, "r;g;b"; null: none
    const char* meaning;
};
constexpr std::array<Look, kPaints> kLooks = {{
    {'F', 'f', "86;180;233", "forward"},
    {'R', 'r', "240;228;66", "recompute"},
    {'B', 'b', "230;159;0", "backward"},
    {'I', 'i', "230;159;0", "input gradient"},
    {'W', 'w', "0;114;178", "weight gradient"},
    {'O', 'o', "0;158;115", "optimizer"},
    {'~', '~', "213;94;0", "exposed communication"},
    {'.', '.', nullptr, "pipeline bubble"},
    {'-', '-', "204;121;167", "other waiting"},
}};

const Look& look(Paint paint) {
    return kLooks[static_cast<std::size_t>(paint)];
}

bool is_backward(Paint paint) {
    return is_gradient(paint) || paint == Paint::recompute;
}

bool same_run(const Share& a, const Share& b) {
    return a.step == b.step &&
           (a.paint == b.paint || (is_backward(a.paint) && is_backward(b.paint)));
}

// Characters of a row, cell by cell: "F12ff~ff", the kind of work, its micro-batch where there is
// room, and how long it goes on; an action that waiting interrupts begins once.
class RowWriter {
  public:
    RowWriter(const std::vector<Share>& cells, const ProgramOps& program)
        : cells_(cells), program_(program) {}

    std::string text() {
        while (text_.size() < cells_.size()) {
            std::size_t end = text_.size() + 1;
            while (end < cells_.size() && same_run(cells_[text_.size()], cells_[end]))
                ++end;
            add_run(end);
        }
        return std::move(text_);
    }

  private:
    void add_run(std::size_t end) {
        const std::size_t begin = text_.size();
        const Share& share = cells_[begin];
        const bool begun = share.step >= 0 && share.step == step_;
        if (share.step >= 0 && !begun) {
            step_ = share.step;
            number_ = number_of(share.step);
        }
        const bool numbered = share.step >= 0 && !number_.empty() && number_.size() < end - begin;
        for (std::size_t i = begin; i < end; ++i) {
            const Look& cell = look(cells_[i].paint);
            text_ += i == begin && (numbered || !begun) ? cell.first : cell.further;
        }
        if (!numbered) return;
        text_.replace(begin + 1, number_.size(), number_);
        number_.clear();
    }

    // Empty if the action has no micro-batch.
    std::string number_of(std::int32_t step) const {
        const plan::Action& action = program_.actions[static_cast<std::size_t>(step)].front();
        return action.micro_batch >= 0 ? std::to_string(action.micro_batch) : "";
    }

    const std::vector<Share>& cells_;
    const ProgramOps& program_;
    std::string text_;
    std::int32_t step_ = -1;  // the action that was begun last …
    std::string number_;      // … and its micro-batch, until it is written
};

std::string painted(Paint paint, const std::string& text, bool colour) {
    if (!colour || look(paint).colour == nullptr) return text;
    return fmt::format("\x1b[30;48;2;{}m{}\x1b[0m", look(paint).colour, text);
}

std::string row_text(const std::vector<Share>& cells, const ProgramOps& program, bool colour) {
    const std::string characters = RowWriter(cells, program).text();
    std::string text;
    for (std::size_t begin = 0; begin < cells.size();) {
        std::size_t end = begin + 1;
        while (end < cells.size() && cells[end].paint == cells[begin].paint)
            ++end;
        text += painted(cells[begin].paint, characters.substr(begin, end - begin), colour);
        begin = end;
    }
    return text;
}

struct Row {
    const ProgramOps* program = nullptr;
    std::vector<Piece> pieces;
};

std::vector<Row> read_rows(const Trace& trace) {
    std::vector<Row> rows;
    for (const Track* track : rows_of(trace))
        rows.push_back(
            {&trace.programs[static_cast<std::size_t>(track->program)], pieces_of(trace, *track)});
    return rows;
}

std::string view_text(const Trace& trace, const std::vector<Row>& rows, Picoseconds from,
                      Picoseconds to, const TimelineStyle& style) {
    std::int32_t last_rank = 0;
    for (const Row& row : rows)
        last_rank = std::max(last_rank, row.program->pipeline_rank);
    const std::size_t digits = std::to_string(last_rank).size();
    const std::size_t indent = digits + 5;  // "pp 0 |"
    const int cells =
        std::max(style.columns, kLeastColumns) - static_cast<int>(indent) - 1;  // and a '|'
    const Window window{from, to, cells};
    std::string text;
    for (const Row& row : rows)
        text += fmt::format("pp {:>{}} |{}|\n", row.program->pipeline_rank, digits,
                            row_text(cells_of(row.pieces, window), *row.program, style.colour));
    return text + axis_text(window, trace.step_start, indent);
}

// End of the first backward of the rank that reaches it last; the window's start if there is none.
Picoseconds warm_up_end(const Trace& trace, const std::vector<Row>& rows) {
    Picoseconds end = trace.step_start;
    for (const Row& row : rows) {
        std::int32_t step = -1;
        for (const Piece& piece : row.pieces) {
            if (!is_gradient(piece.paint) || piece.to <= trace.step_start) continue;
            if (step < 0) step = piece.step;
            if (piece.step == step) end = std::max(end, piece.to);
        }
    }
    return end;
}

// Start of the last backward of the rank that is through first.
Picoseconds cool_down_start(const Trace& trace, const std::vector<Row>& rows) {
    Picoseconds start = trace.step_end;
    for (const Row& row : rows) {
        std::int32_t step = -1;
        Picoseconds from = trace.step_end;
        for (const Piece& piece : row.pieces) {
            if (!is_gradient(piece.paint) || piece.from >= trace.step_end) continue;
            if (piece.step != step) from = piece.from;
            step = piece.step;
        }
        start = std::min(start, from);
    }
    return start;
}

std::string legend(const std::vector<Row>& rows, const TimelineStyle& style) {
    std::array<bool, kPaints> seen{};
    for (const Row& row : rows)
        for (const Piece& piece : row.pieces)
            seen[static_cast<std::size_t>(piece.paint)] = true;
    std::string text;
    int column = 0;
    for (std::size_t i = 0; i < kPaints; ++i) {
        if (!seen[i]) continue;
        const Paint paint = static_cast<Paint>(i);
        const std::string meaning = look(paint).meaning;
        const int width = static_cast<int>(meaning.size()) + 2;
        if (column > 0) {
            const bool fits = column + 3 + width <= std::max(style.columns, kLeastColumns);
            text += fits ? "   " : "\n";
            column = fits ? column + 3 : 0;
        }
        text += painted(paint, std::string(1, look(paint).first), style.colour) + ' ' + meaning;
        column += width;
    }
    return text +
           "\nA row is a pipeline rank, a character what filled most of its slice of time,\n"
           "the number after a letter the micro-batch.\n";
}

}  // namespace

std::string timeline_view(const Trace& trace, Picoseconds from, Picoseconds to,
                          const TimelineStyle& style) {
    ORRERY_CHECK(from < to, "a view of no time");
    return view_text(trace, read_rows(trace), from, to, style);
}

std::string timeline_text(const Trace& trace, const TimelineStyle& style) {
    const Picoseconds span = trace.step_end - trace.step_start;
    if (span <= 0 || trace.tracks.empty()) return "no time passes in this trace\n";
    const std::vector<Row> rows = read_rows(trace);
    // To a thousandth of the step, as in all its titles.
    const auto time = [&](Picoseconds at) {
        return tick_label(at - trace.step_start, span,
                          round_step(std::max<Picoseconds>(1, span / 5000)));
    };
    std::string text = "the step, " + time(trace.step_end) + '\n' +
                       view_text(trace, rows, trace.step_start, trace.step_end, style);
    const Picoseconds warm = warm_up_end(trace, rows);
    if (warm > trace.step_start && warm - trace.step_start < span / 2)
        text += std::string("\nits start, until ") + time(warm) + '\n' +
                view_text(trace, rows, trace.step_start, warm, style);
    const Picoseconds cool = cool_down_start(trace, rows);
    if (cool < trace.step_end && trace.step_end - cool < span / 2)
        text += std::string("\nits end, from ") + time(cool) + '\n' +
                view_text(trace, rows, cool, trace.step_end, style);
    return text + '\n' + legend(rows, style);
}

}  // namespace orrery::trace
