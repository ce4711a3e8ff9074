// orrery train: performs a scenario's plan, step after step, on the ranks of this machine.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/exit_code.hpp"
#include "cli/quantity.hpp"
#include "cli/run/interrupt.hpp"
#include "cli/run/subcommands.hpp"
#include "cli/run/train_run.hpp"
#include "cli/scenario_input.hpp"
#include "runtime/cpu/cpu_backend.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/data/token_source.hpp"
#include "runtime/executor/measured_trace.hpp"
#include "trace/trace_file.hpp"

namespace orrery::cli {
namespace {

class Train : public Subcommand {
  public:
    std::string name() const override { return kTrain.name; }
    std::string summary() const override { return kTrain.summary; }
    std::vector<std::string> examples() const override {
        return {kTrain.example, "train run.json --steps 100 --set layout.tensor_parallel=2 --json",
                "train run.json --trace measured.orrery",
                "train run.json --set run.data=book.txt --set run.steps=500"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app);
        CLI::Range positive(std::int64_t{1}, kMostSteps);
        app.add_option("--steps", steps_,
                       "Number of the last step; the learning rate knows only run.steps")
            ->type_name("N")
            ->check(positive.description(""));
        app.add_option("--trace", trace_file_,
                       "Also write the last step: *.orrery, *.pftrace (Perfetto), *.json (Chrome)")
            ->type_name("FILE");
        app.add_flag("--json", json_,
                     "Print one JSON object per line: start, step, skip, error, end");
        app.add_flag("--check-memory", check_memory_,
                     "Fill memory with NaN before it changes hands, and hold every op to its "
                     "tensors: slow");
    }

    int run(Console& console) override {
        const auto output = json_ ? train_events(console) : train_progress(console);
        try {
            return run(console, *output);
        } catch (const UsageError&) {
            throw;
        } catch (const std::exception& error) {
            output->failed(error.what());
            throw;
        }
    }

  private:
    static constexpr std::int64_t kMostSteps = 1'000'000'000;

    int run(Console& console, TrainOutput& output) const {
        if (!trace_file_.empty() && !trace::format_of_name(trace_file_))
            throw UsageError(fmt::format("--trace {}: the name must end in {}", trace_file_,
                                         trace::kTraceEndings));
        const plan::ReadResult read = input_.read(console, false);
        if (!read.scenario) {
            output.refused(read.errors);
            return exit_code_of(read);
        }
        const plan::Scenario& scenario = *read.scenario;
        const auto reasons = reasons_not_to_train(scenario, input_.file, steps_);
        if (!reasons.empty()) {
            console.err << plan::format_text(reasons);
            output.refused(reasons);
            return kExitInvalidScenario;
        }
        if (!scenario.run.checkpoint_path.empty())
            console.err << "orrery train: warning: run.checkpoint: checkpoints are not written "
                           "yet\n";
        const runtime::TokenSource source(
            scenario.run.data_path.empty() ? scenario.run.data : scenario.run.data_path,
            scenario.run.format, scenario.model.vocabulary);
        const runtime::Sampler sampler(static_cast<std::uint64_t>(scenario.training.seed), source,
                                       scenario.training.sequence_length);
        TrainRun run = train_run_of(scenario, steps_);
        run.resolved_json = read.resolved_json;
        run.data_tokens = source.tokens();
        run.samples_per_epoch = sampler.windows();
        if (const std::string complaint = too_large(run); !complaint.empty()) {
            console.err << "orrery train: " << complaint << '\n';
            output.failed(complaint);
            return kExitInfeasible;
        }
        output.started(run);
        return perform(run, sampler, output);
    }

    // Empty where the arenas fit into this machine.
    static std::string too_large(const TrainRun& run) {
        std::int64_t arenas = 0;
        for (const std::int64_t bytes : run.arenas)
            arenas += bytes;
        const auto memory = physical_memory_bytes();
        if (!memory || arenas <= *memory) return "";
        return fmt::format("the arenas of {} ranks take {}, this machine has {} of memory",
                           run.arenas.size(), bytes_text(static_cast<double>(arenas)),
                           bytes_text(static_cast<double>(*memory)));
    }

    int perform(const TrainRun& run, const runtime::Sampler& sampler, TrainOutput& output) const {
        const InterruptWatch interrupt;
        runtime::TrainOptions options;
        options.steps = run.steps;
        runtime::CpuOptions cpu;
        cpu.threads = run.threads_per_rank;
        cpu.poison = check_memory_;
        cpu.guard = check_memory_;
        runtime::CpuBackend backend(cpu);
        options.record = !trace_file_.empty();
        std::vector<runtime::StepReport> steps;
        const runtime::TrainResult result = runtime::train(
            run.scenario, options, backend,
            [&](std::int64_t sample, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets) { sampler.sample(sample, tokens, targets); },
            [&](const runtime::StepReport& step) {
                steps.push_back(step);
                output.stepped(run, step);
                return !interrupt.asked();
            });
        const bool interrupted = interrupt.asked() && steps.back().step < run.steps;
        const TrainEnd end{steps, result.memory, other_bytes_per_rank(result.memory), interrupted};
        if (!trace_file_.empty())
            trace::write_trace(runtime::measured_trace(result.plan, result.times,
                                                       measured_scenario_json(run, end)),
                               trace_file_);
        output.ended(run, end);
        return interrupted ? kExitInterrupted : kExitOk;
    }

    ScenarioInput input_;
    std::string trace_file_;
    std::int64_t steps_ = 0;
    bool json_ = false;
    bool check_memory_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> train_command() {
    return std::make_unique<Train>();
}

}  // namespace orrery::cli
