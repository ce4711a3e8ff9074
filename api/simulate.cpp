#include "api/content.hpp"
#include "cli/output_kinds.hpp"
#include "cli/report.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery {
inline namespace v1 {
namespace {

static_assert(static_cast<int>(Verdict::fits) == static_cast<int>(sim::Verdict::fits) &&
              static_cast<int>(Verdict::tight) == static_cast<int>(sim::Verdict::tight) &&
              static_cast<int>(Verdict::exceeds) == static_cast<int>(sim::Verdict::exceeds));
// A category more is a member more, which is another major version: until then it has no place.
static_assert(plan::kMemoryCategories == 6);

StageMemory typed_stage(const sim::StageMemory& stage) {
    const auto bytes = [&](plan::MemoryCategory category) {
        return stage.bytes[static_cast<std::size_t>(category)];
    };
    return {bytes(plan::MemoryCategory::parameters),
            bytes(plan::MemoryCategory::gradients),
            bytes(plan::MemoryCategory::optimizer),
            bytes(plan::MemoryCategory::activations),
            bytes(plan::MemoryCategory::workspace),
            bytes(plan::MemoryCategory::communication),
            stage.other_bytes,
            stage.peak_bytes,
            stage.capacity_bytes,
            stage.peak_at};
}

void require_no_deadlock(const sim::Prediction& prediction) {
    if (!prediction.stuck.empty())
        throw Error(Fault::internal, "the plan deadlocks\n" + prediction.stuck);
}

}  // namespace

std::string_view name(Verdict verdict) {
    return sim::name(static_cast<sim::Verdict>(verdict));
}

Prediction simulate(const Scenario& scenario, const SimulateOptions& options) {
    return with_our_errors([&] {
        const cli::ScenarioInput& input = Access::of(scenario).input;
        const plan::ReadResult& read = input.content();
        if (!read.scenario) throw_invalid(read.unreadable, read.errors);
        cli::SimulationQuestion question;
        question.unfolded = options.unfolded;
        question.draws = options.draws;
        question.costs_file = options.costs;
        question.scenario_file = input.file;
        question.stop = options.stop;
        cli::Simulation simulation = cli::simulated(read, question);
        require_no_deadlock(simulation.prediction);
        question.stop = nullptr;  // the caller's, who may be gone when more is asked
        return Access::value<Prediction>(std::make_shared<Access::OfPrediction>(
            scenario, std::move(question), std::move(simulation)));
    });
}

Prediction::Prediction(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

double Prediction::step_time_s() const {
    return content_->simulation.prediction.step.time_s;
}

std::pair<double, double> Prediction::interval_s() const {
    const sim::StepPrediction& step = content_->simulation.prediction.step;
    return {step.low_s, step.high_s};
}

std::vector<std::pair<std::string, double>> Prediction::breakdown_s() const {
    std::vector<std::pair<std::string, double>> accounts;
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        accounts.emplace_back(trace::name(static_cast<trace::Account>(a)),
                              content_->simulation.prediction.step.breakdown_s[a]);
    return accounts;
}

double Prediction::bubble_fraction() const {
    return content_->simulation.prediction.step.bubble_fraction;
}

Verdict Prediction::verdict() const {
    return static_cast<Verdict>(content_->simulation.prediction.memory.verdict);
}

double Prediction::fit_probability() const {
    return content_->simulation.prediction.memory.fit_probability;
}

std::int64_t Prediction::peak_bytes() const {
    return content_->simulation.prediction.memory.worst().peak_bytes;
}

std::int64_t Prediction::capacity_bytes() const {
    return content_->simulation.prediction.memory.capacity_bytes;
}

std::vector<StageMemory> Prediction::stages() const {
    std::vector<StageMemory> stages;
    for (const sim::StageMemory& stage : content_->simulation.prediction.memory.stages)
        stages.push_back(typed_stage(stage));
    return stages;
}

double Prediction::tokens_per_s() const {
    return content_->simulation.prediction.throughput.tokens_per_s;
}

double Prediction::tokens_per_s_per_gpu() const {
    return content_->simulation.prediction.throughput.tokens_per_s_per_gpu;
}

double Prediction::model_tflops_per_gpu() const {
    return content_->simulation.prediction.throughput.model_tflops_per_gpu;
}

double Prediction::mfu() const {
    return content_->simulation.prediction.throughput.mfu;
}

double Prediction::mfu_causal() const {
    return content_->simulation.prediction.throughput.mfu_causal;
}

double Prediction::hfu() const {
    return content_->simulation.prediction.throughput.hfu;
}

std::int64_t Prediction::gpus() const {
    return content_->simulation.prediction.run.gpus;
}

std::optional<double> Prediction::days() const {
    return content_->simulation.prediction.run.days;
}

std::optional<double> Prediction::gpu_hours() const {
    return content_->simulation.prediction.run.gpu_hours;
}

std::optional<double> Prediction::cost_usd() const {
    return content_->simulation.prediction.run.cost_usd;
}

std::optional<double> Prediction::energy_mwh() const {
    return content_->simulation.prediction.run.energy_mwh;
}

const Scenario& Prediction::scenario() const {
    return content_->scenario;
}

const std::vector<std::string>& Prediction::warnings() const {
    return content_->simulation.warnings;
}

const std::string& Prediction::json(const std::atomic<bool>* stop) const {
    return *with_our_errors([&] {
        const std::lock_guard<std::mutex> held(content_->one_at_a_time);
        if (content_->json.empty()) {
            cli::ReportInput report =
                content_->simulation.report(Access::of(content_->scenario).input);
            report.ask_further(content_->simulation.read, [&] {
                if (stop != nullptr && stop->load()) throw sim::Stopped();
            });
            content_->json = cli::report_json(report);
        }
        return &content_->json;
    });
}

void Prediction::write_trace(const std::string& path, bool overwrite,
                             const std::atomic<bool>* stop) const {
    with_our_errors([&] {
        std::vector<std::string> read = content_->simulation.read.files;
        if (!content_->question.costs_file.empty()) read.push_back(content_->question.costs_file);
        const std::string target =
            cli::cleared_path({"trace", path, cli::trace_output()}, read, overwrite);
        cli::SimulationQuestion question = content_->question;
        question.keep_trace = true;
        question.draws = 0;  // of which a trace says nothing
        question.stop = stop;
        const cli::Simulation simulation = cli::simulated(content_->simulation.read, question);
        trace::write_trace(simulation.prediction.trace, target);
    });
}

}  // namespace v1
}  // namespace orrery
