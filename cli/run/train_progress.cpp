// orrery train for people: what is trained, a line per step, what came of it.
#include <algorithm>

#include <fmt/format.h>

#include "cli/quantity.hpp"
#include "cli/run/train_run.hpp"
#include "cli/scenario_input.hpp"
#include "cli/scenario_lines.hpp"

namespace orrery::cli {
namespace {

std::string line(const char* label, const std::string& text) {
    return fmt::format("  {:<12}{}\n", label, text);
}

// "1.25 MB", "1.25 MB to 2.50 MB".
std::string range_text(const std::vector<std::int64_t>& bytes) {
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    const std::string largest = bytes_text(static_cast<double>(*most));
    if (*least == *most) return largest;
    return bytes_text(static_cast<double>(*least)) + " to " + largest;
}

constexpr double kWorthTelling = 0.01;  // the share of a step's time from which a wait is told

std::string plural(std::int64_t count, const char* what) {
    return fmt::format("{} {}{}", whole_text(count), what, count == 1 ? "" : "s");
}

std::string forecast_text(const TrainEnd& end) {
    if (!end.forecast) return "";
    const StepForecast& step = *end.forecast;
    if (!step.why_none.empty()) return line("predicted", step.why_none);
    return line("predicted",
                fmt::format("{}, {:+.1f} %; 90 % interval {} to {}; profile {}",
                            seconds_text(step.time_s), 100 * (step.time_s / end.steps.time_s() - 1),
                            seconds_text(step.low_s), seconds_text(step.high_s), step.profile));
}

class TrainProgress : public TrainOutput {
  public:
    explicit TrainProgress(const Console& console) : console_(console) {}

    void started(const TrainRun& run) override {
        const plan::Scenario& scenario = run.scenario;
        const std::int64_t ranks = scenario.layout.ranks();
        const std::int64_t threads = run.ranks_here * run.threads_per_rank;
        std::string shared = plural(run.cores, "core");
        if (threads > run.cores) shared += ", fewer than threads: ranks will take turns";
        console_.out
            << console_.bold(
                   fmt::format("training {} on {}",
                               scenario.model.name.empty() ? "a model" : scenario.model.name,
                               plural(ranks, run.placement.rank_name().c_str())))
            << '\n'
            << line("layout", layout_line(scenario.layout))
            << line("batch", fmt::format("{}; {} tokens per step", batch_line(scenario),
                                         whole_text(run.conserved.tokens_per_step)))
            << line("precision", precision_text(scenario.training))
            << line("data", fmt::format("{}: {} tokens, {} per epoch", scenario.run.data_path,
                                        whole_text(run.data_tokens),
                                        plural(run.samples_per_epoch, "sample")))
            << line("threads", fmt::format("{} per rank on {}", run.threads_per_rank, shared))
            << (run.binding.worth_telling ? line("bound", runtime::binding_text(run.binding)) : "")
            << line("memory",
                    fmt::format("arena {} per rank; {} parameters", range_text(run.arenas),
                                whole_text(run.conserved.parameters)))
            << line("steps", whole_text(run.steps));
        if (run.placement.ranks_per_gpu > 1)
            console_.out << line("", fmt::format("{} ranks share a GPU: right or wrong is all that "
                                                 "this run shows, its times say nothing",
                                                 run.placement.ranks_per_gpu));
        console_.out << '\n' << std::flush;
    }

    void stepped(const TrainRun& run, const runtime::StepReport& step) override {
        std::string text = fmt::format("step {}/{}   loss {:.4f}", step.step, run.steps, step.loss);
        if (step.mtp_loss) text += fmt::format("   MTP loss {:.4f}", *step.mtp_loss);
        if (step.grad_norm) text += fmt::format("   norm {:.3g}", *step.grad_norm);
        text += fmt::format("   rate {:.3g}   {} tokens/s", step.learning_rate,
                            digits_text(tokens_per_s(step)));
        if (const auto mfu = run.mfu(step.samples, step.time_s))
            text += "   MFU " + percent_text(*mfu);
        spent_s_ += step.time_s;
        ++taken_;
        if (step.step < run.steps)
            text += "   left " + seconds_text(spent_s_ / static_cast<double>(taken_) *
                                              static_cast<double>(run.steps - step.step));
        if (step.data_wait_s > kWorthTelling * step.time_s)
            text += fmt::format("   waited {} for data", seconds_text(step.data_wait_s));
        if (step.skipped == runtime::Skipped::overflow)
            text += fmt::format("   not taken: overflow at loss scale {}",
                                digits_text(step.loss_scale.value_or(1)));
        if (step.skipped == runtime::Skipped::loss_spike) text += "   not taken: the loss spiked";
        if (!console_.live) {
            console_.err << text << '\n';
            return;
        }
        console_.err << "\r\x1b[K" << text << std::flush;
        rewritten_ = true;
        if (step.skipped != runtime::Skipped::no) keep_line();  // worth more than a moment
    }

    void resumed(const TrainRun&, const runtime::CheckpointReader& checkpoint,
                 const runtime::ResumptionReport&) override {
        console_.out << line("resumed", fmt::format("after step {}, from {}",
                                                    whole_text(checkpoint.manifest().progress.step),
                                                    checkpoint.path()))
                     << '\n'
                     << std::flush;
    }

    void checkpointed(const TrainRun&, const runtime::CheckpointReport& report) override {
        keep_line();
        console_.err << fmt::format("saved {}: {}, training waited {}, written after {}\n",
                                    report.path, bytes_text(static_cast<double>(report.bytes)),
                                    seconds_text(report.stall_s), seconds_text(report.write_s));
    }

    void interval_chosen(const TrainRun&, const runtime::IntervalChoice& choice) override {
        keep_line();
        console_.err << fmt::format(
            "checkpoints every {} from here on: a save stops training for {}, {} of the time, and "
            "takes {} to write; a failure is expected every {}\n",
            plural(choice.steps, "step"), seconds_text(choice.measures.stall_s),
            percent_text(choice.stall_share()), seconds_text(choice.measures.write_s),
            seconds_text(choice.measures.mean_time_to_failure_s));
    }

    void noticed(const TrainRun&, const runtime::HealthNotice& notice) override {
        keep_line();
        console_.err << fmt::format("orrery train: {}at step {}: {}\n",
                                    notice.begins ? "warning: " : "", notice.step, notice.message);
        std::erase_if(ailing_, [&](const runtime::HealthNotice& before) {
            return before.ailment == notice.ailment && before.rank == notice.rank;
        });
        if (notice.begins) ailing_.push_back(notice);
    }

    void ended_before(const TrainRun& run) override {
        console_.out << fmt::format("done: the checkpoint has all {}\n", plural(run.steps, "step"));
    }

    void ended(const TrainRun& run, const TrainEnd& end) override {
        keep_line();
        const runtime::StepReport& last = end.steps.last();
        const double time_s = end.steps.time_s();
        std::string speed =
            fmt::format("{}, {} tokens/s", seconds_text(time_s),
                        digits_text(time_s > 0 ? static_cast<double>(last.tokens) / time_s : 0));
        if (const auto mfu = run.mfu(last.samples, time_s))
            speed += ", MFU " + percent_text(*mfu);
        else if (run.peak_flops_per_s && time_s > 0)
            speed += ", no MFU: above the peak of " + file_name(run.scenario.cluster.profile_path);
        std::vector<std::int64_t> high_water;
        for (const runtime::RankMemory& rank : end.memory)
            high_water.push_back(rank.high_water_bytes);
        console_.out << console_.bold(fmt::format("{} {} of {}",
                                                  end.interrupted ? "interrupted after" : "done:",
                                                  plural(last.step, "step"), run.steps))
                     << '\n'
                     << line("loss",
                             fmt::format("{:.4f} to {:.4f}", end.steps.first_loss(), last.loss))
                     << line("step time", speed) << forecast_text(end)
                     << (end.steps.data_wait_share() > kWorthTelling
                             ? line("data", fmt::format("training waited for it {} of the time",
                                                        percent_text(end.steps.data_wait_share())))
                             : "")
                     << line("memory", fmt::format("arena {} per rank, {} of it used; {} beside it",
                                                   range_text(run.arenas), range_text(high_water),
                                                   range_text(end.other_bytes)));
        for (const runtime::HealthNotice& notice : ailing_)
            console_.out << line("health",
                                 fmt::format("since step {}: {}", notice.step, notice.message));
    }

    void failed(const TrainFailure&) override { keep_line(); }
    void refused(const std::vector<plan::Diagnostic>&) override {}

  private:
    // What comes next on console.err begins a line of its own.
    void keep_line() {
        if (rewritten_) console_.err << '\n';
        rewritten_ = false;
    }

    Console console_;
    std::vector<runtime::HealthNotice> ailing_;
    double spent_s_ = 0;
    std::int64_t taken_ = 0;
    bool rewritten_ = false;
};

}  // namespace

std::unique_ptr<TrainOutput> train_progress(const Console& console) {
    return std::make_unique<TrainProgress>(console);
}

}  // namespace orrery::cli
