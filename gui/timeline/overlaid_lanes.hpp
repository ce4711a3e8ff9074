// Another step laid over the rows of this one, op by op: each op's counterpart lies in the op's own
// row, wherever it ran there, at the time at which it ran, both counted from the start of their
// steps. So what lies below a box is the same work, and by how much it is shifted is seen. What the
// other step has alone lies in the row of the op that it follows there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/timeline/counterparts.hpp"
#include "gui/timeline/rows.hpp"

namespace orrery::gui {

struct LaidOp {
    OpPlace there;          // of the other step
    std::int32_t own = -1;  // op id of its counterpart; −1: it has none
    bool operator==(const LaidOp&) const = default;
};

// An op or an action of the other step beside the same here, on this step's axis.
struct Laid {
    OpPlace there;
    bool action = false;
    Stretch times;
    std::optional<Stretch> here;  // nothing: it is in the other step alone
};

// Where spans of different ranks of the other step would overlap, the later one begins where the
// earlier one ends.
struct OverlaidLane {
    Lane lane;                // times are of this step's axis; Span::index: into …
    std::vector<LaidOp> ops;  // on a rank's own row: of each action the first
};

class OverlaidLanes {
  public:
    // `timeline` must outlive this; the counterparts are of its ops. Kinds are what an op does, or
    // `by_difference` how it stands to its counterpart here, as where the other step is shown
    // alone.
    OverlaidLanes(const Timeline& timeline, std::shared_ptr<const Counterparts> counterparts,
                  bool by_difference);

    // What lies over a row: on a rank's own the actions of its compute stream, on a stream ops.
    // Null: it is not made yet, which takes a moment for each million of ops.
    const OverlaidLane* made(const Row& row) const;
    void make(const Row& row);

    // What lies over an op, and over a box of a rank's outline: the ops of that box there. Nothing
    // where the other step has none of them.
    std::optional<Laid> over(const OpPlace& op) const;
    std::optional<Laid> over_box(std::size_t rank, const Span& box) const;
    // A span of what lies over a row, by its number.
    Laid at(const Row& row, std::size_t span) const;
    // "2F5 fc2 on pp 0 · rank 0, takes 12.3 ms, begins 1.20 ms later".
    std::string told(const Laid& laid) const;

  private:
    std::vector<LaidOp> laid_over(std::size_t rank) const;
    Span span_of(std::size_t rank, const LaidOp& op, std::size_t index) const;
    OverlaidLane actions_of(std::size_t rank) const;
    std::vector<OverlaidLane> streams_of(std::size_t rank) const;
    Stretch times_there(const OpPlace& there) const;  // on this step's axis

    const Timeline& timeline_;
    std::shared_ptr<const Counterparts> counterparts_;
    const Timeline& others_;
    bool by_difference_;
    std::vector<std::int32_t> begins_;  // by rank of the other step: the first op of its last step
    std::vector<std::optional<OverlaidLane>> actions_;               // by rank
    std::vector<std::optional<std::vector<OverlaidLane>>> streams_;  // likewise
};

}  // namespace orrery::gui
