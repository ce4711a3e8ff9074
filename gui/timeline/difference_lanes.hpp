// The lanes of a timeline once more, of the same boxes, where the kind of each says how much longer
// or shorter it is than its counterpart in another step. Waiting is a gap.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gui/timeline/counterparts.hpp"

namespace orrery::gui {

class DifferenceLanes {
  public:
    // `timeline` must outlive this; the counterparts are of its ops.
    DifferenceLanes(const Timeline& timeline, std::shared_ptr<const Counterparts> counterparts);

    // Made when first asked for, and kept.
    const Lane& work(std::size_t rank) const { return of(rank).work; }
    const Lane& outline(std::size_t rank) const { return of(rank).outline; }
    const std::vector<Lane>& streams(std::size_t rank) const;

  private:
    struct Lanes {
        Lane work, outline;
    };
    const Lanes& of(std::size_t rank) const;

    const Timeline& timeline_;
    std::shared_ptr<const Counterparts> counterparts_;
    mutable std::vector<std::optional<Lanes>> lanes_;
    mutable std::vector<std::optional<std::vector<Lane>>> streams_;
};

}  // namespace orrery::gui
