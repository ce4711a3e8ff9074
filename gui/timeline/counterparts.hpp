// What each op of a timeline is in another step that it is held against, by the alignment that
// `orrery diff` tells of.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gui/timeline/timeline.hpp"
#include "trace/alignment.hpp"

namespace orrery::gui {

// "1.20 ms later", "1.20 ms earlier", "at the same time".
std::string later_text(Picoseconds later);

class Counterparts {
  public:
    // `own` is the timeline of `side`. Both are of traces of ours, those of the alignment.
    Counterparts(std::shared_ptr<const Timeline> own, std::shared_ptr<const Timeline> others,
                 std::shared_ptr<const trace::Alignment> alignment, trace::Side side);

    const Timeline& others() const { return *others_; }
    // Nothing: the op is in this step alone.
    std::optional<OpPlace> of(const OpPlace& op) const;
    // Whether an op of the other step is in that alone.
    bool alone(const OpPlace& others) const;
    // How an op's time stands to that of its counterpart.
    Kind difference_kind(const OpPlace& op) const;

    using Lines = std::vector<std::pair<std::string, std::string>>;  // as those of Details
    Lines lines_of_op(const OpPlace& op) const;
    // Of an action, by its step: all of its ops on the compute stream together.
    Lines lines_of_action(std::size_t rank, std::size_t step) const;

  private:
    std::shared_ptr<const Timeline> own_, others_;
    std::shared_ptr<const trace::Alignment> alignment_;
    trace::Side side_;
    std::vector<std::optional<std::size_t>> ranks_;  // of the other step, by track
};

}  // namespace orrery::gui
