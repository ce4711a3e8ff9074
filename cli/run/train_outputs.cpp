// Several outputs of orrery train as one.
#include <mutex>

#include "cli/run/train_run.hpp"

namespace orrery::cli {
namespace {

class TrainOutputs : public TrainOutput {
  public:
    explicit TrainOutputs(std::vector<std::unique_ptr<TrainOutput>> outputs)
        : outputs_(std::move(outputs)) {}

    void started(const TrainRun& run) override { each(&TrainOutput::started, run); }
    void stepped(const TrainRun& run, const runtime::StepReport& step) override {
        each(&TrainOutput::stepped, run, step);
    }
    void resumed(const TrainRun& run, const runtime::CheckpointReader& checkpoint,
                 const runtime::ResumptionReport& report) override {
        each(&TrainOutput::resumed, run, checkpoint, report);
    }
    void checkpointed(const TrainRun& run, const runtime::CheckpointReport& report) override {
        each(&TrainOutput::checkpointed, run, report);
    }
    void interval_chosen(const TrainRun& run, const runtime::IntervalChoice& choice) override {
        each(&TrainOutput::interval_chosen, run, choice);
    }
    void noticed(const TrainRun& run, const runtime::HealthNotice& notice) override {
        each(&TrainOutput::noticed, run, notice);
    }
    void ended(const TrainRun& run, const TrainEnd& end) override {
        each(&TrainOutput::ended, run, end);
    }
    void ended_before(const TrainRun& run) override { each(&TrainOutput::ended_before, run); }
    void failed(const TrainFailure& failure) override { each(&TrainOutput::failed, failure); }
    void refused(const std::vector<plan::Diagnostic>& reasons) override {
        each(&TrainOutput::refused, reasons);
    }

  private:
    template <typename Call, typename... Arguments>
    void each(Call call, const Arguments&... arguments) {
        const std::lock_guard lock(mutex_);
        for (const auto& output : outputs_)
            (*output.*call)(arguments...);
    }

    std::mutex mutex_;
    std::vector<std::unique_ptr<TrainOutput>> outputs_;
};

}  // namespace

std::unique_ptr<TrainOutput> train_outputs(std::vector<std::unique_ptr<TrainOutput>> outputs) {
    return std::make_unique<TrainOutputs>(std::move(outputs));
}

}  // namespace orrery::cli
