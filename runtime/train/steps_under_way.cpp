#include "runtime/train/steps_under_way.hpp"

#include <utility>

namespace orrery::runtime {

StepsUnderWay::StepsUnderWay(const plan::BatchSizes& batch, std::int64_t turns,
                             const TrainOptions& options, std::optional<Checkpointing>& checkpoints,
                             std::function<bool(StepReport&)> tell)
    : batch_(batch),
      options_(options),
      checkpoints_(checkpoints),
      tell_(std::move(tell)),
      goes_on_(static_cast<std::size_t>(turns), 1) {}

void StepsUnderWay::perform(RunningRank& rank, std::int64_t first, std::int64_t consumed) {
    rank.when_ended([this](StepReport& step) { step_ended(step); });
    start_ = std::chrono::steady_clock::now();
    const std::int64_t verify_every = options_.verify_replicas_every_steps;
    for (std::int64_t number = first; number <= options_.steps; ++number) {
        consumed = rank.begin_step(number, batch_.at(consumed));
        // The same on all ranks: what was said of the step that the next one waits for.
        rank.await_all_but(std::ssize(goes_on_) - 1);
        const bool last = number == options_.steps || goes_on(number + 1) == 0;
        const bool saves = checkpoints_ && (checkpoints_->due(number) || last);
        const bool verifies = verify_every > 0 && (saves || number % verify_every == 0);
        if (saves || verifies) rank.await_all_but(0);
        if (verifies) rank.verify_replicas(number);
        if (saves) rank.save(*checkpoints_, number);
        if (last) break;
    }
    rank.await_all_but(0);
}

void StepsUnderWay::step_ended(StepReport& step) {
    const auto now = std::chrono::steady_clock::now();
    step.time_s = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    goes_on(step.step) = tell_(step) ? 1 : 0;
    if (checkpoints_) checkpoints_->poll();
}

}  // namespace orrery::runtime
