#include "gui/timeline/rows.hpp"

#include <algorithm>

namespace orrery::gui {

Rows::Rows(const Timeline& timeline) : timeline_(timeline) {
    if (timeline_.recorded() == nullptr && timeline_.ranks().size() > kMostOpened)
        for (std::size_t rank = 0; rank < timeline_.ranks().size(); ++rank)
            if (ranks_beside(rank) > 1) closed_.insert(timeline_.ranks()[rank].pipeline_rank);
    lay_out();
}

void Rows::open(std::size_t rank, bool wanted) {
    if (wanted && timeline_.recorded() == nullptr && !shows_ranks(rank) &&
        rows_[row_of(rank)].rank != rank)
        show_ranks(rank, true);  // else it has no row that could be opened
    if (wanted)
        open_.insert(rank);
    else
        open_.erase(rank);
    lay_out();
}

void Rows::lay_out() {
    rows_.clear();
    hidden_ = 0;
    int top = kGap;
    const auto add = [&](std::size_t rank, std::optional<std::size_t> stream, int height) {
        rows_.push_back({rank, stream, top, height, laid_over_ ? kBelow : 0});
        top = rows_.back().bottom() + kGap;
    };
    for (std::size_t rank = 0; rank < timeline_.ranks().size(); ++rank) {
        if (rank > 0 && !shows_ranks(rank) &&
            timeline_.ranks()[rank - 1].pipeline_rank == timeline_.ranks()[rank].pipeline_rank) {
            ++hidden_;
            continue;
        }
        add(rank, std::nullopt, kRankHeight);
        if (!is_open(rank)) continue;
        for (std::size_t lane = 0; lane < timeline_.streams(rank).size(); ++lane)
            add(rank, lane, kStreamHeight);
    }
}

std::pair<std::size_t, std::size_t> Rows::between(int top, int bottom) const {
    const auto first = std::partition_point(rows_.begin(), rows_.end(),
                                            [&](const Row& row) { return row.bottom() <= top; });
    const auto last =
        std::partition_point(first, rows_.end(), [&](const Row& row) { return row.top < bottom; });
    return {static_cast<std::size_t>(first - rows_.begin()),
            static_cast<std::size_t>(last - rows_.begin())};
}

std::optional<std::size_t> Rows::at(int y) const {
    const auto [first, last] = between(y, y + 1);
    if (first == last) return std::nullopt;
    return first;
}

std::size_t Rows::row_of(std::size_t rank) const {
    // Rows are in the order of ranks: the last that is not behind it.
    auto found = std::partition_point(rows_.begin(), rows_.end(),
                                      [&](const Row& row) { return row.rank <= rank; });
    if (found == rows_.begin()) return 0;
    --found;
    while (found->stream)
        --found;
    return static_cast<std::size_t>(found - rows_.begin());
}

std::optional<std::size_t> Rows::row_of_event(std::size_t rank, std::int32_t event) const {
    for (std::size_t r = row_of(rank); r < rows_.size() && rows_[r].rank == rank; ++r) {
        if (!rows_[r].stream) continue;
        const std::vector<Span>& spans = lane(rows_[r]).spans();
        if (std::any_of(spans.begin(), spans.end(),
                        [&](const Span& span) { return span.index == event; }))
            return r;
    }
    return std::nullopt;
}

std::size_t Rows::ranks_beside(std::size_t rank) const {
    const std::vector<RankLanes>& ranks = timeline_.ranks();
    const auto [first, last] = std::equal_range(
        ranks.begin(), ranks.end(), ranks[rank],
        [](const RankLanes& a, const RankLanes& b) { return a.pipeline_rank < b.pipeline_rank; });
    return static_cast<std::size_t>(last - first);
}

bool Rows::shows_ranks(std::size_t rank) const {
    return !closed_.contains(timeline_.ranks()[rank].pipeline_rank);
}

void Rows::show_ranks(std::size_t rank, bool wanted) {
    if (wanted)
        closed_.erase(timeline_.ranks()[rank].pipeline_rank);
    else
        closed_.insert(timeline_.ranks()[rank].pipeline_rank);
    lay_out();
}

void Rows::lay_over(bool wanted) {
    laid_over_ = wanted;
    lay_out();
}

const Lane& Rows::lane(const Row& row) const {
    if (!row.stream) return timeline_.ranks()[row.rank].outline;
    return timeline_.streams(row.rank)[*row.stream];
}

}  // namespace orrery::gui
