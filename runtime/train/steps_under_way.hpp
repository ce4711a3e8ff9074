// Steps that run on into one another (layout.staleness): a rank computes later ones while servers
// sum and step those before. Each is told of when it has ended on all ranks, on the thread that
// communicates, which is the only one to use the control plane while steps are under way.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/train/checkpointing.hpp"
#include "runtime/train/trainer.hpp"

namespace orrery::runtime {

// A rank that computes such steps.
class RunningRank {
  public:
    virtual ~RunningRank() = default;

    // To be called when a step has ended on this rank, on the thread that communicates, with what
    // this rank knows of it. Set before the first step.
    virtual void when_ended(std::function<void(StepReport&)> tell) = 0;
    // Computes a step, once all but the newest of those before have ended; returns the samples that
    // are consumed then.
    virtual std::int64_t begin_step(std::int64_t number, std::int64_t global_batch) = 0;
    // Returns once at most `steps` of those that were begun have not ended.
    virtual void await_all_but(std::int64_t steps) = 0;
    // Both when all have ended.
    virtual void verify_replicas(std::int64_t step) = 0;
    virtual void save(Checkpointing& checkpoints, std::int64_t step) = 0;
};

class StepsUnderWay {
  public:
    // All must outlive the object, and it whoever calls back: the rank. `checkpoints`: may come to
    // be before perform(). `tell`: on every rank, what each has found of a step that has ended,
    // with its time; whether the run goes on, the same on all.
    // `turns`: steps that are under way at a time.
    StepsUnderWay(const plan::BatchSizes& batch, std::int64_t turns, const TrainOptions& options,
                  std::optional<Checkpointing>& checkpoints, std::function<bool(StepReport&)> tell);

    // From step `first` on, before which so many samples were consumed, to the last, or until
    // `tell` has said so; then those that have begun are the last. Returns when all have ended.
    void perform(RunningRank& rank, std::int64_t first, std::int64_t consumed);

  private:
    void step_ended(StepReport& step);
    char& goes_on(std::int64_t step) {
        return goes_on_[static_cast<std::size_t>(step) % goes_on_.size()];
    }

    const plan::BatchSizes& batch_;
    const TrainOptions& options_;
    std::optional<Checkpointing>& checkpoints_;
    std::function<bool(StepReport&)> tell_;
    std::chrono::steady_clock::time_point start_;  // of the step that ends next
    std::vector<char> goes_on_;                    // by turn: whether the run does after that step
};

}  // namespace orrery::runtime
