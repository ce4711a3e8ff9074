#include "plan/schedule/vocabulary.hpp"

#include <algorithm>
#include <tuple>

namespace orrery::plan {
namespace {

// When an action would run where nothing had to wait; of those at one time the lower place first.
struct Placed {
    std::int64_t time = 0;
    int place = 0;
    Action action;

    bool operator<(const Placed& other) const {
        return std::tie(time, place) < std::tie(other.time, other.place);
    }
};
using PlacedRows = std::vector<std::vector<Placed>>;

// Of those that begin together, what others wait for first: passes of the head's pieces before what
// follows from them, those of the embedding's behind them.
enum Place : int { kForward, kHeadForward, kHeadBackward, kBackward, kEmbedding };

// What all ranks run at the same times: of each micro-batch the passes of their pieces.
class Pieces {
  public:
    Pieces(PlacedRows& rows, const StagePlacement& placement)
        : rows_(rows), placement_(placement) {}

    void head(std::int64_t time, ActionKind kind, std::int32_t micro_batch) {
        const int place = kind == ActionKind::forward ? kHeadForward : kHeadBackward;
        for (std::size_t r = 0; r < rows_.size(); ++r)
            rows_[r].push_back(
                {time,
                 place,
                 {placement_.head_of(static_cast<std::int32_t>(r)), kind, micro_batch}});
    }
    void embedding(std::int64_t time, ActionKind kind, std::int32_t micro_batch) {
        for (std::size_t r = 0; r < rows_.size(); ++r)
            rows_[r].push_back(
                {time,
                 kEmbedding,
                 {placement_.embedding_of(static_cast<std::int32_t>(r)), kind, micro_batch}});
    }

  private:
    PlacedRows& rows_;
    const StagePlacement& placement_;
};

ActionGrid in_order(PlacedRows rows) {
    ActionGrid grid;
    for (auto& row : rows) {
        std::stable_sort(row.begin(), row.end());
        auto& actions = grid.emplace_back();
        for (const Placed& placed : row)
            actions.push_back(placed.action);
    }
    return grid;
}

// The gradient of what the first stage begins with has two micro-batches' time to reach all ranks.
constexpr std::int32_t kEmbeddingLater = 2;

// Backward passes come so many micro-batches' time later than they could.
Timeline later(const ScheduleKind& kind, const ScheduleShape& shape, std::int64_t period,
               std::int32_t micro_batches) {
    if (kind.later != nullptr) return kind.later(shape, micro_batches);
    Timeline timeline = unit_timeline(kind.schedule(shape));
    for (auto& row : timeline)
        for (TimedAction& timed : row)
            if (timed.action.kind != ActionKind::forward) {
                timed.begin += micro_batches * period;
                timed.end += micro_batches * period;
            }
    return timeline;
}

ActionGrid spread_out(const ScheduleKind& kind, const StagePlacement& placement,
                      const ScheduleShape& shape, LossBarriers barriers) {
    const std::int64_t period = 3 * shape.virtual_stages;  // F and B, or F, I and W, of each chunk
    // A barrier has a micro-batch's time. Between the two halves of one is what makes the sum of
    // gradients of the sums of parts.
    const std::int32_t waits = barriers == LossBarriers::two ? 2 : 1;
    const std::int64_t until_sums = waits * period / 2;
    const Timeline timeline = later(kind, shape, period, waits);
    PlacedRows rows(timeline.size());
    Pieces pieces(rows, placement);
    const std::int32_t last = placement.stages() - 1;
    for (std::size_t r = 0; r < timeline.size(); ++r)
        for (const TimedAction& timed : timeline[r]) {
            const Action& action = timed.action;
            const bool forward = action.kind == ActionKind::forward;
            rows[r].push_back({timed.begin, forward ? kForward : kBackward, action});
            if (forward && action.stage == last) {
                pieces.head(timed.end, ActionKind::forward, action.micro_batch);
                pieces.head(timed.end + until_sums, ActionKind::backward, action.micro_batch);
            }
            if (forward && action.stage == 0)
                pieces.embedding(timed.begin - period, ActionKind::forward, action.micro_batch);
            if (makes_input_gradient(action.kind) && action.stage == 0)
                pieces.embedding(timed.end + kEmbeddingLater * period, ActionKind::backward,
                                 action.micro_batch);
        }
    return in_order(std::move(rows));
}

// Time goes in windows: of each micro-batch the head's passes of all ranks, then on each rank a
// forward and a backward pass of layers. A forward pass, a third of a window, reaches the next rank
// in the same window where it comes first on its own rank and last on the next one; a backward pass
// never does.
ActionGrid interlaced_grid(const StagePlacement& placement, const ScheduleShape& shape) {
    constexpr std::int64_t kWindow = 4;
    const std::int32_t p = shape.pipeline;
    PlacedRows rows(static_cast<std::size_t>(p));
    Pieces pieces(rows, placement);
    for (std::int32_t k = 0; k < shape.micro_batches; ++k) {
        const std::int64_t loss = kWindow * (k + (p - 1) / 2 + 1);
        pieces.embedding(kWindow * (k - 1), ActionKind::forward, k);
        pieces.head(loss, ActionKind::forward, k);
        pieces.head(loss + 1, ActionKind::backward, k);
        pieces.embedding(loss + kWindow * p, ActionKind::backward, k);
        for (std::int32_t r = 0; r < p; ++r) {
            const bool second = r % 2 == 1;
            rows[static_cast<std::size_t>(r)].push_back(
                {kWindow * (k + r / 2) + (second ? 3 : 2), kForward, {r, ActionKind::forward, k}});
            rows[static_cast<std::size_t>(r)].push_back(
                {loss + kWindow * (p - 1 - r) + 2, kBackward, {r, ActionKind::backward, k}});
        }
    }
    return in_order(std::move(rows));
}

}  // namespace

Schedule with_vocabulary_between(const ScheduleKind& kind, const ScheduleShape& shape,
                                 LossBarriers barriers) {
    const StagePlacement placement =
        place(kind.placement, shape.pipeline, shape.virtual_stages).with_pieces(shape.pipeline);
    return {spread_out(kind, placement, shape, barriers), placement};
}

Schedule interlaced_with_vocabulary(const ScheduleShape& shape) {
    const StagePlacement placement =
        place(Placement::wrap, shape.pipeline, 1).with_pieces(shape.pipeline);
    return {interlaced_grid(placement, shape), placement};
}

Schedule without_pieces(Schedule schedule) {
    if (schedule.placement.pieces() == 0) return schedule;
    Schedule layers{{}, schedule.placement.with_pieces(0)};
    for (const auto& row : schedule.grid) {
        auto& passes = layers.grid.emplace_back();
        for (const Action& action : row)
            if (action.stage < schedule.placement.stages()) passes.push_back(action);
    }
    return layers;
}

}  // namespace orrery::plan
