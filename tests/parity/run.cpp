#include "tests/parity/run.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>

#include "plan/assemble/batch_plan.hpp"
#include "plan/scenario/reader.hpp"
#include "plan/scenario/training_facts.hpp"
#include "runtime/random.hpp"

namespace orrery::parity {
namespace {

constexpr std::uint64_t kSeed = 42;

// Rows of the vocabulary beyond the true one are padding, whose number depends on the layout.
std::int64_t kept_elements(const plan::Parameter& parameter) {
    return parameter.elements() / parameter.dims[0] * parameter.unpadded()[0];
}

class Collector {
  public:
    void add(const runtime::Device& device, const runtime::BoundProgram& program,
             const plan::Program& planned, runtime::StateKind kind,
             const std::string& before = "") {
        const std::lock_guard lock(mutex_);
        for (const runtime::StateRun& run : runtime::state_runs(program, planned, kind)) {
            const std::vector<double> values = runtime::read_run(device, run);
            std::vector<double>& whole = whole_[before + run.name];
            const std::int64_t kept = kept_elements(*run.parameter);
            whole.resize(static_cast<std::size_t>(kept), std::numeric_limits<double>::quiet_NaN());
            for (std::int64_t i = 0; i < run.elements && run.whole + i < kept; ++i) {
                double& element = whole[static_cast<std::size_t>(run.whole + i)];
                const double value = values[static_cast<std::size_t>(i)];
                if (!std::isnan(element) && element != value && disagreement_.empty())
                    disagreement_ = fmt::format("{}[{}] is {} on one rank and {} on another",
                                                run.name, run.whole + i, element, value);
                element = value;
            }
        }
    }

    Whole take() { return std::move(whole_); }
    const std::string& disagreement() const { return disagreement_; }

  private:
    std::mutex mutex_;
    Whole whole_;
    std::string disagreement_;
};

double norm_of(const std::vector<double>& values) {
    double sum = 0;
    for (double value : values)
        sum += value * value;
    return std::sqrt(sum);
}

}  // namespace

plan::Scenario scenario(const char* text, const Sets& sets) {
    const plan::ReadResult read = plan::read_scenario_text(
        text, "parity.json", "", sets, std::string(ORRERY_SOURCE_DIR) + "/scenarios");
    EXPECT_TRUE(read.scenario.has_value()) << plan::format_text(read.errors);
    return read.scenario.value_or(plan::Scenario{});
}

Trained train(const plan::Scenario& scenario, const RunOptions& options) {
    Trained run;
    Collector gradients, parameters, moments;
    runtime::TrainOptions train;
    train.steps = options.steps;
    train.offload_path = scenario.run.offload_path;
    train.verify_replicas_every_steps = scenario.run.verify_replicas_every_steps;
    runtime::CpuBackend cpu(options.cpu, std::chrono::seconds(60));
    train.checkpoint = options.checkpoint;
    train.change_plan = options.change_plan;
    train.change_inputs = options.change_inputs;
    if (options.first_weights)
        train.first_weights = [&](const plan::Parameter& parameter, const std::string& name,
                                  std::int64_t first, std::span<double> values) {
            for (std::size_t i = 0; i < values.size(); ++i)
                values[i] =
                    options.first_weights(parameter, name, first + static_cast<std::int64_t>(i));
        };
    train.after_step = [&](plan::Rank rank, runtime::Device& device,
                           const runtime::BoundProgram& program, const plan::Program& planned,
                           std::int64_t step) {
        if (options.after_step) options.after_step(rank, device, program, planned, step);
        if (step == 1) gradients.add(device, program, planned, runtime::StateKind::gradients);
        if (step == options.steps)
            parameters.add(device, program, planned, runtime::StateKind::parameters);
        if (step == options.steps && options.checkpoint) {
            moments.add(device, program, planned, runtime::StateKind::first_moments, "m/");
            moments.add(device, program, planned, runtime::StateKind::second_moments, "v/");
        }
    };
    const auto vocabulary = static_cast<std::uint64_t>(scenario.model.vocabulary);
    const auto samples = [&](std::int64_t sample, std::span<std::int32_t> tokens,
                             std::span<std::int32_t> targets) {
        if (options.samples) return options.samples(sample, tokens, targets);
        // The next token follows from the one before, so that there is something to learn.
        const runtime::RandomKey key{kSeed, 0, static_cast<std::uint32_t>(sample)};
        std::uint64_t token = runtime::random_word(key, 0) % vocabulary;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            tokens[i] = static_cast<std::int32_t>(token);
            token = (token * 5 + 3 + runtime::random_word(key, i + 1) % 3) % vocabulary;
            targets[i] = static_cast<std::int32_t>(token);
        }
    };
    run.result = runtime::train(
        plan::training_facts(scenario),
        [&](std::int64_t batch) { return plan::build_batch_plan(scenario, batch); }, train,
        options.backend != nullptr ? *options.backend : cpu, samples,
        [&](const runtime::StepReport& step) {
            if (options.stepped) options.stepped(step);
            run.losses.push_back(step.loss);
            if (step.mtp_loss) run.further_losses.push_back(*step.mtp_loss);
            run.norms.push_back(step.grad_norm.value_or(0));
            run.skipped.push_back(step.skipped);
            if (run.losses.size() == 1) {
                run.expert_counts = step.expert_counts;
                run.dropped_rows = step.dropped_rows;
            }
            return true;
        });
    run.disagreement =
        gradients.disagreement() + parameters.disagreement() + moments.disagreement();
    run.moments = moments.take();
    run.gradients = gradients.take();
    run.parameters = parameters.take();
    return run;
}

Difference difference(const Whole& a, const Whole& b) {
    double all = 0;
    for (const auto& [name, values] : b)
        all += std::pow(norm_of(values), 2);
    const double floor = 1e-3 * std::sqrt(all / static_cast<double>(b.size()));
    Difference worst;
    for (const auto& [name, values] : b) {
        const auto found = a.find(name);
        if (found == a.end() || found->second.size() != values.size())
            return {std::numeric_limits<double>::infinity(), name + " is missing"};
        std::vector<double> apart(values.size());
        for (std::size_t i = 0; i < values.size(); ++i)
            apart[i] = found->second[i] - values[i];
        const double relative = norm_of(apart) / std::max(norm_of(values), floor);
        if (!(relative <= worst.relative)) worst = {relative, name};  // NaN is worst of all
    }
    return worst;
}

void expect_same_bits(const Trained& run, const Trained& other) {
    EXPECT_EQ(run.losses, other.losses);
    EXPECT_EQ(run.norms, other.norms);
    EXPECT_EQ(run.skipped, other.skipped);
    EXPECT_EQ(run.expert_counts, other.expert_counts);
    EXPECT_EQ(run.gradients, other.gradients);
    EXPECT_EQ(run.parameters, other.parameters);
    EXPECT_EQ(run.disagreement, "");
}

void expect_same_training(const Trained& run, const Trained& alone, const Tolerances& within) {
    for (const auto of : {&Trained::losses, &Trained::further_losses}) {
        const std::vector<double>&found = run.*of, &expected = alone.*of;
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i)
            EXPECT_LE(std::abs(found[i] / expected[i] - 1), within.loss)
                << "step " << i + 1 << ": " << found[i] << " and " << expected[i];
    }
    // Both are 0 where nothing is clipped.
    EXPECT_NEAR(run.norms[0], alone.norms[0], within.gradient * alone.norms[0]);
    EXPECT_EQ(run.expert_counts, alone.expert_counts);
    const Difference worst = difference(run.gradients, alone.gradients);
    EXPECT_LE(worst.relative, within.gradient) << worst.name;
    EXPECT_EQ(run.disagreement, "");
    EXPECT_LT(run.losses.back(), run.losses.front()) << "nothing is learned";
}

}  // namespace orrery::parity
