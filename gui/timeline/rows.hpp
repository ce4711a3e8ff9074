// Where the rows of a timeline lie: a row per rank, and below one that is open a row per stream; of
// a pipeline rank that is closed its first rank stands for the others. Pixels, from the top of the
// first row.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "gui/timeline/timeline.hpp"

namespace orrery::gui {

struct Row {
    std::size_t rank = 0;
    std::optional<std::size_t> stream;  // of Timeline::streams(rank); nothing: the rank's own
    int top = 0;
    int height = 0;
    int below = 0;  // what lies over it of another step, below its own boxes
    bool operator==(const Row&) const = default;

    int bottom() const { return top + height + below; }
};

class Rows {
  public:
    // Which must outlive this. Streams are closed; pipeline ranks as well, where there are more
    // rows than a person looks at one by one.
    explicit Rows(const Timeline& timeline);

    const std::vector<Row>& all() const { return rows_; }
    int height() const { return rows_.empty() ? 0 : rows_.back().bottom() + kGap; }
    // Those of which something lies between two heights.
    std::pair<std::size_t, std::size_t> between(int top, int bottom) const;
    std::optional<std::size_t> at(int y) const;
    // The rank's own, or that of the rank that stands for it.
    std::size_t row_of(std::size_t rank) const;
    // The row that shows an op, where its rank is open.
    std::optional<std::size_t> row_of_event(std::size_t rank, std::int32_t event) const;

    bool is_open(std::size_t rank) const { return open_.contains(rank); }
    void open(std::size_t rank, bool wanted);
    const Lane& lane(const Row& row) const;

    // The ranks of a rank's pipeline rank, itself among them: rows of their own while it is open.
    std::size_t ranks_beside(std::size_t rank) const;
    bool shows_ranks(std::size_t rank) const;
    void show_ranks(std::size_t rank, bool wanted);
    // Each row with room for what another step has there.
    void lay_over(bool wanted);

    // Ranks that have no row, since others stand for them.
    std::size_t hidden() const { return hidden_; }

    static constexpr int kRankHeight = 26;
    static constexpr int kStreamHeight = 18;
    static constexpr int kGap = 3;     // between rows
    static constexpr int kBelow = 10;  // of another step, with a pixel between
    static constexpr std::size_t kMostOpened = 64;

  private:
    void lay_out();

    const Timeline& timeline_;
    std::set<std::size_t> open_;
    std::set<std::int32_t> closed_;  // pipeline ranks
    std::size_t hidden_ = 0;
    bool laid_over_ = false;
    std::vector<Row> rows_;
};

}  // namespace orrery::gui
