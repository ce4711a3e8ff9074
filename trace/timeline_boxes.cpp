#include "trace/timeline_boxes.hpp"

#include <algorithm>
#include <optional>

namespace orrery::trace {
namespace {

// In order of time, cut to the window.
std::vector<Piece> ordered_pieces(const Trace& trace, const Track& track) {
    std::vector<Piece> pieces;
    for (Piece piece : pieces_of(trace, track)) {
        piece.from = std::max(piece.from, trace.step_start);
        piece.to = std::min(piece.to, trace.step_end);
        if (piece.from < piece.to) pieces.push_back(piece);
    }
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const Piece& a, const Piece& b) { return a.from < b.from; });
    return pieces;
}

bool is_of_one_kind(const TimelineBox& box, const Piece& piece) {
    return box.step == piece.step &&
           box.time[static_cast<std::size_t>(piece.paint)] == box.to - box.from;
}

bool joins(const TimelineBox& box, const Piece& piece, Picoseconds resolution) {
    if (is_of_one_kind(box, piece)) return true;
    if (box.step >= 0 && piece.step >= 0 && box.step != piece.step) return false;
    const bool box_is_short = box.to - box.from < resolution;
    const bool piece_is_short = piece.to - piece.from < resolution;
    // Beside work only short waiting disappears.
    if (box.step < 0 && piece.step >= 0) return box_is_short;
    if (piece.step < 0 && box.step >= 0) return piece_is_short;
    return box_is_short || piece_is_short;
}

// Nothing where there are more than `most`.
std::optional<std::vector<TimelineBox>> boxes_of(const std::vector<Piece>& pieces,
                                                 Picoseconds resolution, std::size_t most) {
    std::vector<TimelineBox> boxes;
    for (const Piece& piece : pieces) {
        if (boxes.empty() || !joins(boxes.back(), piece, resolution)) {
            if (boxes.size() == most) return std::nullopt;
            boxes.push_back({piece.from, piece.from, piece.step, {}});
        }
        TimelineBox& box = boxes.back();
        box.step = std::max(box.step, piece.step);
        box.time[static_cast<std::size_t>(piece.paint)] += piece.to - piece.from;
        box.to = piece.to;
    }
    return boxes;
}

}  // namespace

TimelineBoxes timeline_boxes(const Trace& trace, std::size_t most) {
    std::vector<const Track*> tracks = rows_of(trace);
    std::vector<std::vector<Piece>> pieces;
    pieces.reserve(tracks.size());
    for (const Track* track : tracks)
        pieces.push_back(ordered_pieces(trace, *track));
    const Picoseconds span = trace.step_end - trace.step_start;
    const Picoseconds finest = std::max<Picoseconds>(1, span >> 20);
    TimelineBoxes all;
    for (;; all.resolution = std::max(finest, 2 * all.resolution)) {
        const bool coarsest = all.resolution >= span;
        std::size_t left = most;
        all.rows.clear();
        for (std::size_t i = 0; i < tracks.size(); ++i) {
            auto boxes = boxes_of(pieces[i], all.resolution, coarsest ? SIZE_MAX : left);
            if (!boxes) break;
            left -= std::min(left, boxes->size());
            all.rows.push_back({tracks[i], std::move(*boxes)});
        }
        if (all.rows.size() == tracks.size()) return all;
    }
}

}  // namespace orrery::trace
