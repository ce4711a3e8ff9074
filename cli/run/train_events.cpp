// orrery train --json: a run as lines of JSON.
#include <nlohmann/json.hpp>

#include "cli/run/train_run.hpp"
#include "cli/unix_seconds.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

Json binding_json(const runtime::Binding& binding) {
    Json ranks = Json::array();
    for (const runtime::RankBinding& rank : binding.ranks)
        ranks.push_back({{"local_rank", rank.local_rank},
                         {"numa_nodes", rank.nodes},
                         {"cores", runtime::cpu_list_text(rank.cpus)},
                         {"why_not", rank.why_not.empty() ? Json(nullptr) : Json(rank.why_not)}});
    return {{"ranks", std::move(ranks)},
            {"why_none", binding.why_none.empty() ? Json(nullptr) : Json(binding.why_none)}};
}

class TrainEvents : public TrainOutput {
  public:
    TrainEvents(const Console& console, std::string mark)
        : out_(console.out), mark_(std::move(mark)) {}

    void started(const TrainRun& run) override {
        Json event{{"event", "start"},
                   {"steps", run.steps},
                   {"backend", run.placement.backend},
                   {"ranks", run.scenario.layout.ranks()},
                   {"ranks_per_gpu", run.placement.ranks_per_gpu},
                   {"correctness_only", run.placement.ranks_per_gpu > 1},
                   {"threads_per_rank", run.threads_per_rank},
                   {"cores", run.cores},
                   {"binding", binding_json(run.binding)},
                   {"parameters", run.conserved.parameters},
                   {"tokens_per_step", run.conserved.tokens_per_step},
                   {"model_flops_per_step", run.conserved.model_flops_per_step},
                   {"peak_tflops", nullptr},
                   {"data", run.scenario.run.data_path},
                   {"data_tokens", run.data_tokens},
                   {"samples_per_epoch", run.samples_per_epoch},
                   {"arena_bytes_by_rank", run.arenas},
                   {"scenario", Json::parse(run.resolved_json)}};
        if (run.peak_flops_per_s) event["peak_tflops"] = *run.peak_flops_per_s / 1e12;
        print(event);
    }

    void stepped(const TrainRun& run, const runtime::StepReport& step) override {
        const bool skipped = step.skipped != runtime::Skipped::no;
        Json event{{"event", skipped ? "skip" : "step"}, {"step", step.step}};
        if (skipped)
            event["reason"] =
                step.skipped == runtime::Skipped::overflow ? "overflow" : "loss spike";
        event["loss"] = step.loss;
        if (step.mtp_loss) event["mtp_loss"] = *step.mtp_loss;
        event["grad_norm"] = optional(step.grad_norm);
        event["learning_rate"] = step.learning_rate;
        event["time_s"] = step.time_s;
        event["tokens_per_s"] = tokens_per_s(step);
        event["mfu"] = optional(run.mfu(step.samples, step.time_s));
        event["data_wait_s"] = step.data_wait_s;
        event["samples"] = step.samples;
        event["consumed_samples"] = step.consumed_samples;
        if (step.loss_scale) event["loss_scale"] = *step.loss_scale;
        if (!step.expert_counts.empty()) event["expert_counts"] = step.expert_counts;
        if (run.scenario.training.routing.drops()) event["dropped_rows"] = step.dropped_rows;
        print(event);
    }

    void resumed(const TrainRun&, const runtime::CheckpointReader& checkpoint,
                 const runtime::ResumptionReport& report) override {
        const runtime::Progress& progress = checkpoint.manifest().progress;
        print({{"event", "resume"},
               {"step", progress.step},
               {"path", checkpoint.path()},
               {"consumed_samples", progress.consumed_samples},
               {"bytes", report.bytes},
               {"load_s", report.load_s}});
    }

    void checkpointed(const TrainRun&, const runtime::CheckpointReport& report) override {
        print({{"event", "checkpoint"},
               {"step", report.step},
               {"path", report.path},
               {"bytes", report.bytes},
               {"stall_s", report.stall_s},
               {"write_s", report.write_s}});
    }

    void interval_chosen(const TrainRun&, const runtime::IntervalChoice& choice) override {
        print({{"event", "interval"},
               {"every_steps", choice.steps},
               {"step_time_s", choice.measures.step_s},
               {"stall_s", choice.measures.stall_s},
               {"write_s", choice.measures.write_s},
               {"stall_share", choice.stall_share()},
               {"mean_time_between_failures_h", choice.measures.mean_time_to_failure_s / 3600}});
    }

    void noticed(const TrainRun&, const runtime::HealthNotice& notice) override {
        Json event{{"event", "health"},
                   {"ailment", name(notice.ailment)},
                   {"begins", notice.begins},
                   {"step", notice.step}};
        if (notice.rank) {
            event["rank"] = *notice.rank;
            event["host"] = notice.host;
        }
        for (const auto& [key, value] : notice.figures)
            event[key] = value;
        event["message"] = notice.message;
        print(event);
    }

    void ended_before(const TrainRun& run) override {
        print({{"event", "end"}, {"interrupted", false}, {"step", run.steps}});
    }

    void ended(const TrainRun& run, const TrainEnd& end) override {
        const runtime::StepReport& last = end.steps.last();
        const double time_s = end.steps.time_s();
        Json arenas = Json::array();
        Json high_water = Json::array();
        for (const runtime::RankMemory& rank : end.memory) {
            arenas.push_back(rank.arena_bytes);
            high_water.push_back(rank.high_water_bytes);
        }
        Json predicted = nullptr;
        if (end.forecast && end.forecast->why_none.empty())
            predicted = {{"step_time_s", end.forecast->time_s},
                         {"interval_s", {end.forecast->low_s, end.forecast->high_s}},
                         {"error_pct", 100 * (end.forecast->time_s / time_s - 1)},
                         {"profile", end.forecast->profile}};
        print({{"event", "end"},
               {"interrupted", end.interrupted},
               {"step", last.step},
               {"first_loss", end.steps.first_loss()},
               {"last_loss", last.loss},
               {"step_time_s", time_s},
               {"tokens_per_s", time_s > 0 ? static_cast<double>(last.tokens) / time_s : 0.0},
               {"mfu", optional(run.mfu(last.samples, time_s))},
               {"predicted", std::move(predicted)},
               {"data_wait_share", end.steps.data_wait_share()},
               {"arena_bytes_by_rank", std::move(arenas)},
               {"high_water_bytes_by_rank", std::move(high_water)},
               {"other_bytes_by_rank", end.other_bytes}});
    }

    void failed(const TrainFailure& failure) override {
        Json event{{"event", "error"}, {"message", failure.message}};
        if (failure.exit_code) event["exit_code"] = *failure.exit_code;
        if (failure.rank) event["rank"] = *failure.rank;
        if (failure.damaged_checkpoint) event["damaged_checkpoint"] = *failure.damaged_checkpoint;
        print(event);
    }

    void refused(const std::vector<plan::Diagnostic>& reasons) override {
        Json event{{"event", "error"}, {"message", "the scenario cannot be trained"}};
        event["errors"] = Json::parse(plan::format_json(reasons))["errors"];
        print(event);
    }

  private:
    static Json optional(const std::optional<double>& value) {
        return value ? Json(*value) : Json(nullptr);
    }

    // What is not finite is null.
    void print(Json event) {
        event["unix_s"] = unix_seconds();
        out_ << mark_ << event.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n'
             << std::flush;
    }

    std::ostream& out_;
    std::string mark_;
};

}  // namespace

std::unique_ptr<TrainOutput> train_events(const Console& console, std::string mark) {
    return std::make_unique<TrainEvents>(console, std::move(mark));
}

}  // namespace orrery::cli
