// A row in the making of a schedule whose chunks 0 and 1 lie on the ranks in a V: counts the
// micro-batches of each chunk, so that a rule names only what comes next.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

class ChunkRow {
  public:
    ChunkRow(const ScheduleShape& shape, std::int32_t rank)
        : stages_{rank, 2 * shape.pipeline - 1 - rank} {
        row_.reserve(6 * static_cast<std::size_t>(shape.micro_batches));
    }

    void forward(std::size_t chunk) { add(chunk, ActionKind::forward, forwards_[chunk]++); }
    void backward(std::size_t chunk) { add(chunk, ActionKind::backward, backwards_[chunk]++); }
    // The first half of a backward; its weight gradient is owed.
    void input(std::size_t chunk) {
        owed_.push_back({stages_[chunk], ActionKind::backward_weight, backwards_[chunk]});
        add(chunk, ActionKind::backward_input, backwards_[chunk]++);
    }
    // The weight gradient that has been owed for longest, of either chunk or of this one, if any.
    void weight();
    void weight(std::size_t chunk);

    std::int32_t forwards(std::size_t chunk) const { return forwards_[chunk]; }
    std::vector<Action> take() { return std::move(row_); }

  private:
    void add(std::size_t chunk, ActionKind kind, std::int32_t micro_batch) {
        row_.push_back({stages_[chunk], kind, micro_batch});
    }

    std::array<std::int32_t, 2> stages_;
    std::array<std::int32_t, 2> forwards_{};
    std::array<std::int32_t, 2> backwards_{};
    std::vector<Action> owed_;
    std::vector<Action> row_;
};

}  // namespace orrery::plan
