// What a picture of the timeline shows, and where its parts lie: the same on the screen, in a PNG
// and in an SVG.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <QRect>
#include <QString>

#include "gui/timeline/arrivals.hpp"
#include "gui/timeline/difference_lanes.hpp"
#include "gui/timeline/overlaid_lanes.hpp"
#include "gui/timeline/path_strokes.hpp"
#include "gui/timeline/rows.hpp"
#include "gui/timeline/selection.hpp"
#include "gui/timeline/strips.hpp"

namespace orrery::gui {

// A box: a span of a stream, or of a rank's outline.
struct BoxPlace {
    std::size_t rank = 0;
    std::optional<std::size_t> stream;
    std::size_t span = 0;
    bool operator==(const BoxPlace&) const = default;
};

// A box, and when what lies over it of another step ran there.
struct LaidOver {
    BoxPlace box;
    Stretch there;
};

struct Scene {
    const Timeline* timeline = nullptr;
    const Rows* rows = nullptr;
    QString title;  // of the whole, beside its overview
    Viewport view;
    int scrolled = 0;  // pixels that the rows have been scrolled down
    std::optional<BoxPlace> hovered, selected;
    std::optional<Area> area;
    std::optional<Picoseconds> cursor;
    std::vector<Picoseconds> markers;
    std::size_t memory_rank = 0;    // whose memory is drawn
    std::vector<Arrival> arrivals;  // of the selected action, or the selected op
    // What the step hangs on; null: not known, or not to be shown.
    std::shared_ptr<const std::vector<cli::PathStay>> path;
    // What is selected in another step that this one is held against.
    std::optional<OpPlace> pointed_at;
    // Colours rows by the difference to that step; null: by what they do.
    std::shared_ptr<const DifferenceLanes> difference;
    // That step, over each row; null: it is not laid over this one.
    std::shared_ptr<OverlaidLanes> overlaid;
    QString overlaid_title;
    std::vector<LaidOver> laid_over;  // what is selected, and what the mouse is on

    const Lane& work(std::size_t rank) const {
        return difference ? difference->work(rank) : timeline->ranks()[rank].work;
    }
    const Lane& outline(std::size_t rank) const {
        return difference ? difference->outline(rank) : timeline->ranks()[rank].outline;
    }
    const Lane& lane(const Row& row) const {
        if (!row.stream) return outline(row.rank);
        return difference ? difference->streams(row.rank)[*row.stream] : rows->lane(row);
    }
};

// Rectangles of the parts, from the whole: the names at the left; overview of the whole trace,
// axis, rows, memory and legend from top to bottom.
struct SceneLayout {
    explicit SceneLayout(const QRect& whole);

    QRect minimap, axis, names, rows, memory, legend;

    static constexpr int kNames = 164;
    static constexpr int kMinimap = 30;
    static constexpr int kAxis = 24;
    static constexpr int kMemory = 84;
    static constexpr int kLegend = 38;
};

}  // namespace orrery::gui
