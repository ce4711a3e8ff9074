#include "trace/timeline_cells.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "plan/ir/action.hpp"
#include "trace/accounts.hpp"

namespace orrery::trace {
namespace {

Paint paint_of(plan::Phase phase, Paint gradient) {
    switch (phase) {
        case plan::Phase::forward:
            return Paint::forward;
        case plan::Phase::backward:
            return gradient;
        case plan::Phase::recompute:
            return Paint::recompute;
        case plan::Phase::optimizer:
            break;
    }
    return Paint::optimizer;
}

// nullopt: work, which the events tell in more detail.
std::optional<Paint> paint_of(Account account) {
    switch (account) {
        case Account::compute:
        case Account::recompute:
        case Account::optimizer:
            return std::nullopt;
        case Account::exposed_tensor:
        case Account::exposed_context:
        case Account::exposed_expert:
        case Account::exposed_data:
        case Account::exposed_pipeline:
            return Paint::exposed;
        case Account::bubble:
            return Paint::bubble;
        case Account::imbalance:
        case Account::launch:
        case Account::other:
            break;
    }
    return Paint::idle;
}

using Cell = std::vector<Share>;

void add(Cell& cell, const Piece& piece, Picoseconds time) {
    const bool again = piece.paint == Paint::recompute;
    const Paint paint = again ? piece.within : piece.paint;
    auto share = std::find_if(cell.begin(), cell.end(), [&](const Share& other) {
        return other.paint == paint && other.step == piece.step;
    });
    if (share == cell.end()) share = cell.insert(cell.end(), {paint, piece.step, 0, 0});
    share->time += time;
    if (again) share->recompute += time;
}

// The paint with the most time in the cell, and of it the action with the most.
Share dominant(const Cell& cell) {
    std::array<Picoseconds, kPaints> sums{};
    for (const Share& share : cell)
        sums[static_cast<std::size_t>(share.paint)] += share.time;
    const auto most = std::max_element(sums.begin(), sums.end());
    Share best;
    best.paint = static_cast<Paint>(most - sums.begin());
    for (const Share& share : cell)
        if (share.paint == best.paint && share.time > best.time) best = share;
    return best;
}

// Makes as many of the backward cells recomputation as its share of them: each cell takes what is
// owed most.
void spread_recompute(std::vector<Share>& cells) {
    Picoseconds owed = 0;
    for (Share& cell : cells) {
        if (!is_gradient(cell.paint) || cell.recompute == 0) continue;
        owed += cell.recompute;
        if (2 * owed <= cell.time) continue;
        cell.paint = Paint::recompute;
        owed -= cell.time;
    }
}

}  // namespace

Paint gradient_of(const StepActions& actions) {
    if (actions.front().kind == plan::ActionKind::backward_input) return Paint::input;
    if (actions.front().kind == plan::ActionKind::backward_weight) return Paint::weight;
    return Paint::backward;
}

std::vector<const Track*> rows_of(const Trace& trace) {
    std::vector<const Track*> rows(trace.programs.size(), nullptr);
    for (const Track& track : trace.tracks) {
        const Track*& row = rows[static_cast<std::size_t>(track.program)];
        if (row == nullptr) row = &track;
    }
    rows.erase(std::remove(rows.begin(), rows.end(), nullptr), rows.end());
    return rows;
}

std::vector<Piece> work_pieces(const Trace& trace, const Track& track) {
    const ProgramOps& program = trace.programs[static_cast<std::size_t>(track.program)];
    std::vector<Paint> gradients;  // by step
    gradients.reserve(program.actions.size());
    for (const StepActions& actions : program.actions)
        gradients.push_back(gradient_of(actions));
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < track.events.size(); ++i) {
        const OpName& op = trace.op_of(track, i);
        if (op.stream != plan::Stream::compute) continue;
        const Paint gradient = gradients[program.step[i]];
        const Event event = track.events[i];
        pieces.push_back({paint_of(op.phase, gradient), static_cast<std::int32_t>(program.step[i]),
                          event.start, event.end, gradient});
    }
    return pieces;
}

std::vector<Piece> pieces_of(const Trace& trace, const Track& track) {
    std::vector<Piece> pieces = work_pieces(trace, track);
    for (const AccountSpan& span : account_spans(trace, track))
        if (const std::optional<Paint> paint = paint_of(span.account))
            pieces.push_back({*paint, -1, span.from, span.to, Paint::idle});
    return pieces;
}

std::vector<Share> cells_of(const std::vector<Piece>& pieces, const Window& window) {
    std::vector<Cell> cells(static_cast<std::size_t>(window.cells));
    for (const Piece& piece : pieces) {
        const Picoseconds from = std::max(piece.from, window.from);
        const Picoseconds to = std::min(piece.to, window.to);
        if (to <= from) continue;
        const double place =
            static_cast<double>(from - window.from) / static_cast<double>(window.to - window.from);
        int cell = std::clamp(static_cast<int>(place * window.cells), 0, window.cells - 1);
        while (cell > 0 && window.edge(cell) > from)
            --cell;
        for (; cell < window.cells && window.edge(cell) < to; ++cell) {
            const Picoseconds overlap =
                std::min(to, window.edge(cell + 1)) - std::max(from, window.edge(cell));
            if (overlap > 0) add(cells[static_cast<std::size_t>(cell)], piece, overlap);
        }
    }
    std::vector<Share> shown;
    shown.reserve(cells.size());
    for (const Cell& cell : cells)
        shown.push_back(dominant(cell));
    spread_recompute(shown);
    return shown;
}

}  // namespace orrery::trace
