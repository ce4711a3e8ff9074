// Steps that begin before the updates of those before them are made (layout.staleness). The oracle
// is a loop that knows nothing of servers: synchronous steps, after each of which a test puts the
// parameters of older ones in the place of the new. What comes of either is the same to the last
// bit, whatever the timing.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "plan/assemble/batch_plan.hpp"
#include "plan/memory/arena.hpp"
#include "plan/scenario/training_facts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

constexpr std::int64_t kSteps = 7;

Sets served(Sets sets, std::int64_t staleness) {
    for (const char* set : {"layout.data_parallel_mode=parameter_server", "layout.zero_stage=1"})
        sets.emplace_back(set);
    sets.push_back("layout.staleness=" + std::to_string(staleness));
    return sets;
}

Sets joined(Sets sets, const Sets& more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

RunOptions few_steps() {
    RunOptions options;
    options.steps = kSteps;
    return options;
}

Trained train_sets(const Sets& sets, const RunOptions& options = few_steps(),
                   const char* text = kGpt) {
    return train(scenario(text, sets), options);
}

using Bytes = std::vector<std::byte>;

std::vector<Bytes> parameters_of(const runtime::Device& device, const plan::Program& program) {
    std::vector<Bytes> all;
    for (const plan::Bucket& bucket : program.buckets) {
        if (bucket.elements == 0) continue;
        const auto id = static_cast<std::size_t>(bucket.parameters);
        all.emplace_back(static_cast<std::size_t>(program.residents[id].bytes));
        device.read(plan::address_of(program, bucket.parameters), all.back());
    }
    return all;
}

void set_parameters(runtime::Device& device, const plan::Program& program,
                    const std::vector<Bytes>& all) {
    std::size_t next = 0;
    for (const plan::Bucket& bucket : program.buckets)
        if (bucket.elements > 0)
            device.write(plan::address_of(program, bucket.parameters), all[next++]);
}

// Synchronous steps with parameters that are `staleness` updates old. Masters beside 16-bit
// parameters are always new.
Trained train_delayed(const Sets& sets, std::int64_t staleness) {
    std::mutex mutex;
    std::map<plan::Rank, std::deque<std::vector<Bytes>>> versions;  // oldest first
    RunOptions first = few_steps();
    first.steps = 1;
    first.change_inputs = [](runtime::StepInputs& inputs) { inputs.learning_rate = 0; };
    first.after_step = [&](plan::Rank rank, runtime::Device& device, const runtime::BoundProgram&,
                           const plan::Program& program, std::int64_t) {
        const std::lock_guard lock(mutex);
        versions[rank].assign(static_cast<std::size_t>(staleness), parameters_of(device, program));
    };
    train_sets(sets, first);
    RunOptions options = few_steps();
    options.after_step = [&](plan::Rank rank, runtime::Device& device, const runtime::BoundProgram&,
                             const plan::Program& program, std::int64_t step) {
        if (step == kSteps) return;  // what it has made is compared
        const std::lock_guard lock(mutex);
        auto& own = versions[rank];
        own.push_back(parameters_of(device, program));
        set_parameters(device, program, own.front());
        own.pop_front();
    };
    return train_sets(sets, options);
}

TEST(Staleness, IsADelayOfUpdates) {
    for (const Sets& sets : {Sets{}, Sets{"layout.data_parallel=2"},
                             Sets{"layout.data_parallel=4", "training.gradient_bucket_mb=0.02"},
                             Sets{"layout.data_parallel=2", "layout.pipeline_parallel=2"},
                             Sets{"layout.data_parallel=2", "layout.tensor_parallel=2",
                                  "layout.sequence_parallel=true"}})
        for (const std::int64_t staleness : {1, 3}) {
            if (sanitized() && staleness > 1) continue;
            const Sets bf16 = joined(sets, {"training.precision=bf16", "layout.zero_stage=1"});
            const Trained run = train_sets(served(bf16, staleness));
            expect_same_bits(run, train_delayed(bf16, staleness));
            EXPECT_NE(run.parameters, train_sets(bf16).parameters);
            for (const runtime::RankMemory& memory : run.result.memory)
                EXPECT_EQ(memory.high_water_bytes, memory.arena_bytes);
        }
}

TEST(Staleness, OfNoneIsTheSynchronousRun) {
    const Sets sets = {"layout.data_parallel=4", "training.precision=fp32"};
    expect_same_bits(train_sets(served(sets, 0)),
                     train_sets(joined(sets, {"layout.zero_stage=1"})));
}

std::vector<NamedLayout> served_layouts() {
    const std::string dp2 = "data_parallel=2", dp4 = "data_parallel=4", tp2 = "tensor_parallel=2",
                      pp2 = "pipeline_parallel=2", sp = "sequence_parallel=true",
                      small = "training.gradient_bucket_mb=0.02";
    return {layout("data_2", {dp2}),
            layout("data_4_small_buckets", {dp4, small}),
            layout("data_8", {"data_parallel=8"}),
            layout("late", {dp2, "training.overlap_gradient_reduce=false"}),
            layout("ahead", {dp2, "training.overlap_parameter_gather=true"}),
            layout("hybrid", {dp4, "zero_group_size=2"}),
            layout("sequence", {dp2, tp2, sp}),
            layout("tensor_alone", {tp2}),
            layout("pipeline", {dp2, pp2}),
            layout("pipeline_alone", {"pipeline_parallel=4"}),
            layout("interleaved", {dp2, pp2, "virtual_pipeline=2", "schedule=interleaved", small}),
            layout("zero_bubble", {dp2, pp2, "schedule=zb-h1"}),
            layout("zb_v", {dp2, pp2, "virtual_pipeline=2", "schedule=zb-v"}),
            layout("sequence_pipeline", {dp2, tp2, sp, pp2}),
            layout("context", {"context_parallel=2", dp2}),
            layout("recomputed", {dp2, "recompute=full"}),
            layout("every_2", {dp2, "recompute=every_k", "recompute_every=2"}),
            layout("unclipped", {dp2, pp2, "training.optimizer.clip_norm=0"})};
}

class Served : public testing::TestWithParam<NamedLayout> {};

// One worker with the whole batch and the same delay computes the same, but for rounding.
TEST_P(Served, TrainTheModelOfOneWorker) {
    static std::map<std::string, Trained> alone;
    const std::int64_t staleness = GetParam().name.size() % 2 == 0 ? 1 : 2;
    Sets one = {"training.precision=fp64"};
    for (const std::string& set : GetParam().sets)
        if (set.find("clip_norm") != std::string::npos) one.push_back(set);
    one = served(one, staleness);
    const std::string key = testing::PrintToString(one);
    RunOptions options = few_steps();
    options.steps = staleness + 3;
    if (!alone.contains(key)) alone[key] = train_sets(one, options);
    const Trained& expected = alone[key];
    const Trained run = train_sets(
        served(joined(GetParam().sets, {"training.precision=fp64"}), staleness), options);
    ASSERT_EQ(run.losses.size(), expected.losses.size());
    for (std::size_t i = 0; i < run.losses.size(); ++i)
        EXPECT_LE(std::abs(run.losses[i] / expected.losses[i] - 1), 1e-13) << "step " << i + 1;
    const Difference worst = difference(run.gradients, expected.gradients);
    EXPECT_LE(worst.relative, 1e-12) << worst.name;
    EXPECT_EQ(run.disagreement, "");
}

// Delays of ops, memory that is poisoned when it changes hands, ops one at a time.
TEST_P(Served, ComputesTheSameBitsUnderAnyTiming) {
    const Sets sets = served(joined(GetParam().sets, {"training.precision=bf16"}), 2);
    RunOptions options = few_steps();
    options.steps = 4;
    const Trained expected = train_sets(sets, options, kLlama);
    options.cpu.poison = true;
    options.cpu.delay_seed = 1;
    expect_same_bits(train_sets(sets, options, kLlama), expected);
    options.cpu.delay_seed = 0;
    options.cpu.guard = true;
    expect_same_bits(train_sets(sets, options, kLlama), expected);
}

INSTANTIATE_TEST_SUITE_P(All, Served, testing::ValuesIn(served_layouts()),
                         [](const auto& tested) { return tested.param.name; });

// Updates come later by one step: the loss of step 2 + staleness is the first that knows of any.
TEST(Staleness, ReachesTheStepAfterItFirst) {
    for (const std::int64_t staleness : {1, 2, 3}) {
        RunOptions options = few_steps();
        // The same batch in each step, so that losses differ by parameters alone.
        options.samples = [](std::int64_t sample, std::span<std::int32_t> tokens,
                             std::span<std::int32_t> targets) {
            for (std::size_t i = 0; i < tokens.size(); ++i) {
                tokens[i] = static_cast<std::int32_t>((static_cast<std::size_t>(sample) % 8 + i));
                targets[i] = tokens[i] + 1;
            }
        };
        const Trained run = train_sets(
            served({"layout.data_parallel=2", "training.precision=fp32"}, staleness), options);
        for (std::int64_t step = 2; step <= kSteps; ++step) {
            const double loss = run.losses[static_cast<std::size_t>(step - 1)];
            if (step <= staleness + 1) {
                EXPECT_EQ(loss, run.losses.front()) << step;
            } else {
                EXPECT_LT(loss, run.losses.front()) << step;
            }
        }
    }
}

// What a server leaves undone, and updates that come a step too late, show in what is trained.
TEST(StalenessMutation, ServersThatLeaveSomethingUndoneAreFound) {
    const Sets sets = served(
        {"layout.data_parallel=2", "training.precision=bf16", "training.gradient_bucket_mb=0.02"},
        1);
    const Trained sound = train_sets(sets);
    for (const std::string kind : {"adamw", "gather", "norm"}) {
        RunOptions faulty = few_steps();
        faulty.change_plan = [&](plan::Plan& plan) {
            for (plan::Procedure& procedure : plan.programs.front().procedures)
                for (std::size_t u = 0; u < procedure.uses.size(); ++u) {
                    const auto block = static_cast<std::size_t>(procedure.uses[u].block);
                    if (!plan.blocks[block].name.starts_with(kind)) continue;
                    procedure.uses.erase(procedure.uses.begin() + static_cast<std::ptrdiff_t>(u));
                    return;
                }
        };
        const Trained run = train_sets(sets, faulty);
        EXPECT_TRUE(run.parameters != sound.parameters || !run.disagreement.empty()) << kind;
    }
    Sets later = sets;
    later.push_back("layout.staleness=2");
    EXPECT_NE(train_sets(later).losses, sound.losses);
}

// A batch that grows is another plan: the steps under way end first, and nothing else changes.
TEST(Staleness, OfABatchThatGrows) {
    const Sets ramp = {
        "layout.data_parallel=2", "training.precision=bf16", "layout.zero_stage=1",
        R"(training.batch_ramp={"start_batch_size": 4, "increment": 4, "over_samples": 8})"};
    expect_same_bits(train_sets(served(ramp, 2)), train_delayed(ramp, 2));
}

// One worker does not get the samples of a step until the other, which reads those of its next step
// ahead, asks for those after the last that staleness lets it begin. It asks for no later ones.
TEST(Staleness, AWorkerRunsAheadOfOneThatIsHeldUp) {
    constexpr std::int64_t kHeldUp = 3, kBatch = 8;
    const Sets model_parallel = {"layout.tensor_parallel=2", "layout.pipeline_parallel=2"};
    for (const auto& tested : std::vector<std::pair<Sets, std::int64_t>>{
             {{}, 0}, {{}, 1}, {{}, 3}, {model_parallel, 0}, {model_parallel, 2}}) {
        const std::int64_t staleness = tested.second;
        std::mutex mutex;
        std::condition_variable asked_for;
        std::int64_t asked = 0, asked_when_let_go = 0;
        RunOptions options = few_steps();
        options.samples = [&](std::int64_t sample, std::span<std::int32_t> tokens,
                              std::span<std::int32_t> targets) {
            const std::int64_t step = sample / kBatch + 1;
            const bool first_worker = sample % 2 == 0;
            std::unique_lock lock(mutex);
            if (first_worker) {
                asked = std::max(asked, step);
                asked_for.notify_all();
            } else if (step == kHeldUp && asked_when_let_go == 0) {
                asked_for.wait_for(lock, std::chrono::seconds(30),
                                   [&] { return asked > kHeldUp + staleness; });
                asked_when_let_go = asked;
            }
            std::fill(tokens.begin(), tokens.end(), 1);
            std::fill(targets.begin(), targets.end(), 2);
        };
        train_sets(served(joined({"layout.data_parallel=2"}, tested.first), staleness), options);
        EXPECT_EQ(asked_when_let_go, kHeldUp + staleness + 1);
    }
}

// The steps that have begun when a run is ended end it, on all ranks alike.
TEST(Staleness, ARunThatIsEndedEndsItsStepsUnderWay) {
    for (const std::int64_t staleness : {1, 3}) {
        runtime::CpuBackend cpu({}, std::chrono::seconds(60));
        runtime::TrainOptions options;
        options.steps = 50;
        std::vector<std::int64_t> told;
        const plan::Scenario tested = scenario(kGpt, served({"layout.data_parallel=4"}, staleness));
        runtime::train(
            plan::training_facts(tested),
            [&](std::int64_t batch) { return plan::build_batch_plan(tested, batch); }, options, cpu,
            [](std::int64_t, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
                std::fill(tokens.begin(), tokens.end(), 1);
                std::fill(targets.begin(), targets.end(), 2);
            },
            [&](const runtime::StepReport& step) {
                told.push_back(step.step);
                return step.step < 4;
            });
        std::vector<std::int64_t> expected;
        for (std::int64_t step = 1; step <= 4 + staleness; ++step)
            expected.push_back(step);
        EXPECT_EQ(told, expected);
    }
}

// What a rank throws while others are steps ahead ends the run on all of them.
TEST(Staleness, ARankThatFailsEndsTheRun) {
    RunOptions options = few_steps();
    options.samples = [](std::int64_t sample, std::span<std::int32_t> tokens,
                         std::span<std::int32_t> targets) {
        if (sample == 29) throw std::runtime_error("sample 29 cannot be read");
        std::fill(tokens.begin(), tokens.end(), 1);
        std::fill(targets.begin(), targets.end(), 2);
    };
    EXPECT_THROW(train_sets(served({"layout.data_parallel=4"}, 2), options), std::runtime_error);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
