#include "gui/timeline/selection.hpp"

#include <algorithm>

namespace orrery::gui {

Aggregate aggregate_of(const Timeline& timeline, const Area& area) {
    Aggregate aggregate;
    const Stretch window = timeline.window();
    aggregate.stretch.from = std::clamp(area.stretch.from, window.from, window.to);
    aggregate.stretch.to = std::clamp(area.stretch.to, aggregate.stretch.from, window.to);
    KindSums sums{};
    for (const std::size_t rank : area.ranks) {
        const KindSums of_rank =
            timeline.ranks()[rank].work.within(aggregate.stretch.from, aggregate.stretch.to);
        for (std::size_t kind = 0; kind < kKinds; ++kind)
            sums[kind] += of_rank[kind];
    }
    aggregate.selected = aggregate.stretch.length() * static_cast<Picoseconds>(area.ranks.size());
    for (std::size_t kind = 0; kind < kKinds; ++kind)
        if (sums[kind] > 0) aggregate.kinds.push_back({static_cast<Kind>(kind), sums[kind]});
    std::stable_sort(aggregate.kinds.begin(), aggregate.kinds.end(),
                     [](const KindTime& a, const KindTime& b) { return a.time > b.time; });
    return aggregate;
}

}  // namespace orrery::gui
