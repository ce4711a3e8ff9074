// orrery train: performs a scenario's plan, step after step, on the ranks of this machine, or as
// one rank of those that a launcher has started.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/output_kinds.hpp"
#include "cli/quantity.hpp"
#include "cli/run/expected_step.hpp"
#include "cli/run/first_weights.hpp"
#include "cli/run/interrupt.hpp"
#include "cli/run/run_statement.hpp"
#include "cli/run/supervisor/supervise.hpp"
#include "cli/run/train_backend.hpp"
#include "cli/run/train_forecast.hpp"
#include "cli/run/train_ranks.hpp"
#include "cli/run/train_run.hpp"
#include "cli/run_subcommands.hpp"
#include "cli/scenario_input.hpp"
#include "plan/assemble/batch_plan.hpp"
#include "plan/exit_code.hpp"
#include "plan/scenario/training_facts.hpp"
#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "runtime/comm/communication_error.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/data/token_source.hpp"
#include "runtime/executor/measured_trace.hpp"
#include "runtime/launch/spawn_ranks.hpp"
#include "runtime/physical_memory.hpp"
#include "runtime/supervisor/attempt_events.hpp"
#include "runtime/train/run_health.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace {

class Train : public Subcommand {
  public:
    std::string name() const override { return kTrain.name; }
    std::string summary() const override { return kTrain.summary; }
    std::vector<std::string> examples() const override {
        return {kTrain.example,
                "train run.json --steps 100 --set layout.tensor_parallel=2 --json",
                "train run.json --set run.checkpoint='{\"path\": \"saved\", \"every_steps\": 100}' "
                "--resume",
                "train run.json --trace measured.orrery",
                "train run.json --plan run.plan",
                "train run.json --set run.data=book.txt --set run.steps=500",
                "train run.json --timeout 60 --flight-record records"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        input_.reads_standard_input = false;
        app.get_option("FILE")->description("Scenario, a JSON file");
        input_.declare_plan(app, files(), plan::LeftOpen::run);
        CLI::Range positive(std::int64_t{1}, kMostSteps);
        app.add_option("--steps", steps_,
                       "Number of the last step; the learning rate knows only run.steps")
            ->type_name("N")
            ->check(positive.description(""));
        app.add_flag(
            "--resume", resumption_.asked,
            "Go on from the newest checkpoint in run.checkpoint.path; from the start where "
            "there is none");
        app.add_option("--resume-step", resumption_.step,
                       "Go on from the checkpoint of this step, not from the newest; newer ones "
                       "are moved aside")
            ->type_name("N")
            ->check(positive.description(""));
        app.add_flag("--supervise", supervision_.asked,
                     "Start the run as a process, and again from its newest checkpoint when it "
                     "fails or stalls");
        app.add_option("--launch", supervision_.launch,
                       "With --supervise: what starts the ranks, as 'mpirun -n {ranks}'")
            ->type_name("COMMAND");
        app.add_option("--ranks-left", supervision_.ranks_left,
                       "With --supervise: prints how many ranks can be started, for "
                       "run.elastic_layouts")
            ->type_name("COMMAND");
        // Of a process that a supervisor started: events come beside what people read.
        app.add_flag("--supervised", supervised_)->group("");
        files()
            .writes(app, "--trace", trace_file_, trace_output(),
                    "Also write the last step: *.orrery, *.pftrace (Perfetto), *.json (Chrome)")
            ->type_name("FILE");
        app.add_flag("--json", json_,
                     "Print one JSON object per line: start, step, skip, checkpoint, error, end");
        app.add_option(
               "--backend", backend_.backend,
               fmt::format("What performs the run: {}", fmt::join(runtime::backend_names(), ", ")))
            ->type_name("NAME")
            ->check(CLI::IsMember(runtime::backend_names()));
        declare_ranks(app, backend_);
        files().reads(
            app.add_option("--expect", backend_.expect_file,
                           "A predicted trace: a call that takes much longer than there ends the "
                           "run; --timeout is for calls that it does not have")
                ->type_name("TRACE"));
        files()
            .writes(app, "--flight-record", flight_record_, flight_record_output(),
                    "Folder for the last ops of each rank of a run that ends badly (default: "
                    "flight-record beside run.checkpoint.path)")
            ->type_name("DIR");
        files().writes([this] { return outputs_of_scenario(); });
        app.add_flag("--check-memory", backend_.check_memory,
                     "Fill memory with NaN before it changes hands; on the CPU, hold every op to "
                     "its tensors: slow");
    }

    int run(Console& console) override {
        backend_.time_ops = !trace_file_.empty();
        backend_.flight_record = flight_record_.path();
        require_shared_devices(backend_);
        if (!supervision_.asked && !(supervision_.launch + supervision_.ranks_left).empty())
            throw UsageError("--launch and --ranks-left are for --supervise");
        const auto launch = launched_rank(backend_);
        if (supervision_.asked && launch)
            throw UsageError(
                "--supervise starts a launcher, and is not started by one: --launch "
                "'mpirun -n {ranks}'");
        resumption_.asked = resumption_.asked || resumption_.step > 0;
        const auto output = output_of(launch && launch->rank > 0, console);
        try {
            return run(console, *output);
        } catch (const UsageError&) {
            throw;
        } catch (const runtime::CommunicationError& error) {
            output->failed(failure_of(error));
            if (!launch || !row().processes_speak) throw;
            return kExitDevice;  // a rank that is a process has said so itself
        } catch (const std::exception& error) {
            output->failed(failure_of(error));
            throw;
        }
    }

  private:
    const runtime::BackendRow& row() const { return runtime::backend_named(backend_.backend); }

    // Each rank that is a process looks at what it would replace itself.
    OutputKind flight_record_output() const {
        return {true, [this](const std::string& folder) -> std::string {
                    const auto launch = launched_rank(backend_);
                    const std::string foreign =
                        runtime::foreign_record_in(folder, launch ? launch->rank : -1);
                    return foreign.empty() ? ""
                                           : "holds " + foreign + ", which is no flight record";
                }};
    }

    static std::string foreign_to_checkpoints(const std::string& folder) {
        const std::string foreign = runtime::foreign_checkpoint_in(folder);
        return foreign.empty() ? "" : "holds " + foreign + ", which is no checkpoint of orrery";
    }

    std::vector<NamedOutput> outputs_of_scenario() const {
        const auto& scenario = input_.content().scenario;
        if (!scenario) return {};
        std::vector<NamedOutput> outputs;
        if (!scenario->run.checkpoint_path.empty())
            outputs.push_back({"run.checkpoint.path",
                               scenario->run.checkpoint_path,
                               {true, foreign_to_checkpoints}});
        if (flight_record_.empty())
            outputs.push_back({"the default of --flight-record", flight_folder(backend_, *scenario),
                               flight_record_output()});
        return outputs;
    }

    std::unique_ptr<TrainOutput> output_of(bool silent, const Console& console) const {
        std::vector<std::unique_ptr<TrainOutput>> outputs;
        if (!silent && !json_) outputs.push_back(train_progress(console));
        if (!silent && (json_ || supervised_))
            outputs.push_back(train_events(console, supervised_ ? runtime::kEventMark : ""));
        return train_outputs(std::move(outputs));
    }

    static constexpr std::int64_t kMostSteps = 1'000'000'000;

    int run(Console& console, TrainOutput& output) const {
        const auto launch = launched_rank(backend_);
        const plan::ReadResult read =  // ranks beside this one would be in the timings
            input_.read(console, false, launch ? OwnProfile::find : OwnProfile::make);
        if (!read.scenario) {
            output.refused(read.errors);
            return exit_code_of(read);
        }
        const plan::Scenario& scenario = *read.scenario;
        const auto reasons = reasons_not_to_perform(scenario);
        if (!reasons.empty()) {
            console.err << plan::format_text(reasons);
            output.refused(reasons);
            return kExitInvalidScenario;
        }
        if (resumption_.asked && scenario.run.checkpoint_path.empty())
            throw UsageError("--resume: the scenario has no run.checkpoint.path");
        if (supervision_.asked) return run_supervised(scenario, console);
        if (launch) require_a_process_per_rank(*launch, scenario, input_);
        if (const std::string lacks = row().lacks(); !lacks.empty()) {
            console.err << "orrery train: " << lacks << '\n';
            output.failed(std::string(lacks));
            return kExitDevice;
        }
        if (starts_ranks(backend_, scenario)) return start_ranks(backend_, scenario);
        const runtime::TokenSource source(
            scenario.run.data_path.empty() ? scenario.run.data : scenario.run.data_path,
            scenario.run.format, scenario.model.vocabulary);
        const runtime::Sampler sampler(static_cast<std::uint64_t>(scenario.training.seed), source,
                                       scenario.training.sequence_length);
        TrainRun run = train_run_of(scenario, steps_, launch ? launch->local_size : 0);
        run.placement = {backend_.backend, std::max(1, backend_.ranks_per_gpu)};
        run.resolved_json = read.resolved_json;
        run.data_tokens = source.tokens();
        run.data_content = source.content_sample();
        run.samples_per_epoch = sampler.windows();
        const std::string complaint = row().on_host ? too_large(run) : "";
        if (!complaint.empty()) {
            console.err << "orrery train: " << complaint << '\n';
            output.failed(complaint);
            return kExitInfeasible;
        }
        std::optional<trace::Trace> expected;
        if (!backend_.expect_file.empty()) expected = expected_step(backend_.expect_file, run);
        const auto records = flight_records(backend_, scenario);
        const auto backend = make_backend(backend_, run, console, records.get());
        output.started(run);
        const trace::Trace* expected_or_none = expected ? &*expected : nullptr;
        if (!launch || launch->rank == 0)
            return perform(run, source, sampler, *backend, *records, expected_or_none, output,
                           console);
        std::ostream nobody(nullptr);  // what rank 0 says, the others need not
        Console silent{console.out, nobody};
        return perform(run, source, sampler, *backend, *records, expected_or_none, output, silent);
    }

    // Here and now, or after the loss of ranks.
    std::vector<plan::Diagnostic> reasons_not_to_perform(const plan::Scenario& scenario) const {
        auto reasons = reasons_not_to_train(scenario, input_.file, steps_);
        const auto add = [&](const plan::Scenario& performed, const std::string& where) {
            for (plan::Diagnostic& more :
                 reasons_not_on_backend(backend_, performed, input_.file)) {
                more.message = where + more.message;
                reasons.push_back(std::move(more));
            }
        };
        add(scenario, "");
        for (std::size_t i = 0; i < scenario.run.elastic_layouts.size(); ++i) {
            std::vector<std::string> sets = scenario.run.elastic_layouts[i].sets;
            sets.emplace_back("run.elastic_layouts=[]");
            if (const auto elastic = input_.read_with(sets))
                add(*elastic, fmt::format("with run.elastic_layouts[{}]: ", i));
        }
        return reasons;
    }

    int run_supervised(const plan::Scenario& scenario, Console& console) const {
        if (scenario.run.checkpoint_path.empty())
            throw UsageError("--supervise: the scenario has no run.checkpoint.path");
        SupervisionOptions options = supervision_;
        options.json = json_;
        return supervise(scenario, options, runtime::own_arguments(), console);
    }

    // Empty where the arenas fit into this machine.
    static std::string too_large(const TrainRun& run) {
        // Which ranks this node has, nobody says: no fewer bytes than the smallest of them all.
        std::vector<std::int64_t> smallest = run.arenas;
        std::sort(smallest.begin(), smallest.end());
        smallest.resize(static_cast<std::size_t>(run.ranks_here));
        std::int64_t arenas = 0;
        for (const std::int64_t bytes : smallest)
            arenas += bytes;
        const auto memory = runtime::physical_memory_bytes();
        if (!memory || arenas <= *memory) return "";
        return fmt::format("the arenas of {} ranks take {}, this machine has {} of memory",
                           smallest.size(), bytes_text(static_cast<double>(arenas)),
                           bytes_text(static_cast<double>(*memory)));
    }

    int perform(const TrainRun& run, const runtime::TokenSource& source,
                const runtime::Sampler& sampler, runtime::Backend& backend,
                runtime::FlightRecords& records, const trace::Trace* expected, TrainOutput& output,
                Console& console) const {
        InterruptOptions signals;
        signals.tells = console.err.rdbuf() != nullptr;  // rank 0 says what all do
        signals.terminated = [&records] { records.write_on_request("it was asked to end"); };
        signals.before_meeting = row().processes_speak && launched_rank(backend_).has_value();
        const InterruptWatch interrupt(signals);
        runtime::TrainOptions options;
        options.steps = run.steps;
        options.offload_path = run.scenario.run.offload_path;
        options.verify_replicas_every_steps = run.scenario.run.verify_replicas_every_steps;
        options.record = !trace_file_.empty();
        options.checkpoint = checkpoint_options(run, resumption_, output, console);
        if (launched_rank(backend_)) options.statement = run_statement(run, resumption_);
        runtime::RunHealth health(
            run.scenario, {run.ranks_take_turns(), expected},
            [&](const runtime::HealthNotice& notice) { output.noticed(run, notice); });
        std::vector<runtime::CheckpointReport> checkpoints;
        std::optional<runtime::ResumptionReport> resumption;
        options.ends_where_not_finite = true;
        options.met = [&](const std::vector<std::string>& hosts) { health.met(hosts); };
        if (options.checkpoint) {
            options.checkpoint->supervised = supervised_;
            options.checkpoint->require_data_unchanged = [&source] { source.require_unchanged(); };
            options.checkpoint->published =
                [&, tell = options.checkpoint->published](const runtime::CheckpointReport& report) {
                    health.saved(report);
                    checkpoints.push_back(report);
                    tell(report);
                };
            options.checkpoint->resumed = [&, tell = options.checkpoint->resumed](
                                              const runtime::CheckpointReader& from,
                                              const runtime::ResumptionReport& report) {
                resumption = report;
                tell(from, report);
            };
        }
        options.first_weights = first_weights(run);
        StepSummary steps;
        const auto plan_of = [&](std::int64_t batch) {
            const bool whole = batch == run.scenario.layout.global_batch_size;
            return whole && input_.plan() != nullptr ? *input_.plan()
                                                     : plan::build_batch_plan(run.scenario, batch);
        };
        const runtime::TrainResult result = runtime::train(
            plan::training_facts(run.scenario), plan_of, options, backend,
            [&](std::int64_t sample, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets) { sampler.sample(sample, tokens, targets); },
            [&](const runtime::StepReport& step) {
                steps.add(step);
                output.stepped(run, step);
                health.stepped(step);
                return !interrupt.asked();
            });
        source.require_unchanged();
        if (result.memory.empty()) return kExitOk;  // rank 0 is another process
        if (steps.empty()) {
            output.ended_before(run);
            return kExitOk;
        }
        const bool interrupted = interrupt.asked() && steps.last().step < run.steps;
        TrainEnd end{steps,
                     result.memory,
                     other_bytes_by_rank(result.memory),
                     interrupted,
                     std::nullopt,
                     resumption,
                     std::move(checkpoints)};
        if (steps.last().samples == run.scenario.layout.global_batch_size)
            end.forecast = forecast_of(run, input_);
        if (!trace_file_.empty()) {
            trace::Trace trace =
                runtime::measured_trace(result.plan, result.times, run.resolved_json);
            trace.facts = facts_of(run, end);
            trace::write_trace(trace, trace_file_.path());
        }
        output.ended(run, end);
        return interrupted ? kExitInterrupted : kExitOk;
    }

    ScenarioInput input_;
    OutputPath trace_file_, flight_record_;
    std::int64_t steps_ = 0;
    Resumption resumption_;
    bool json_ = false;
    bool supervised_ = false;
    SupervisionOptions supervision_;
    BackendOptions backend_;
};

}  // namespace

std::unique_ptr<Subcommand> train_command() {
    return std::make_unique<Train>();
}

}  // namespace orrery::cli
