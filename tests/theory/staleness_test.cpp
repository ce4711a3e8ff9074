// Bounded staleness (Ho et al. 2013): a worker begins step c once the updates of the steps up to
// c − 1 − s are made, by servers that sum and step beside compute. With compute C of a step, and
// M = R + A + G for the reduction, the server's step and the gather of what it made, one after
// another, the circles of waiting are compute alone, C per step, servers alone, M per step, and
// both in turn, (C + M) per s + 1 steps: the period is the largest, C + M for s = 0 and
// max(C, M) from s = 1 on.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "plan/blocks/dims.hpp"
#include "plan/memory/arena.hpp"
#include "sim/cost/profile.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/uneven.hpp"
#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using sim::Picoseconds;

constexpr std::int64_t kMicroBatches = 4;

Sets sets_of(std::int64_t workers, std::int64_t staleness) {
    return {"model.n_embd=16",
            "model.n_head=2",
            "model.vocab_size=16",
            "model.n_layer=2",
            "training.sequence_length=4",
            "training.precision=bf16",
            "layout.zero_stage=1",
            "layout.data_parallel_mode=parameter_server",
            set("layout.staleness", staleness),
            set("layout.data_parallel", workers),
            set("layout.global_batch_size", workers * kMicroBatches)};
}

struct Costs {
    Picoseconds compute = 0;  // of a step of a worker
    Picoseconds reduce = 0, step = 0, gather = 0;
};

// Steps in a row of workers that share a server each; times by worker, step and op.
class Workers {
  public:
    Workers(std::int64_t workers, std::int64_t staleness, int steps, const Costs& costs)
        : plan_(plan_of(sets_of(workers, staleness))), steps_(steps) {
        EXPECT_EQ(plan_.programs.front().buckets.size(), 1U);
        input_.plan = &plan_;
        input_.launch_queue = 1'000'000;
        input_.linked.push_back(plan::link(plan_, plan_.programs.front(), steps));
        durations_.assign(plan_.first_ops().back(), 0);
        times_.assign(static_cast<std::size_t>(workers), of_one_step(costs));
        for (auto& times : times_) {
            const auto one = times;
            for (int step = 1; step < steps; ++step)
                times.insert(times.end(), one.begin(), one.end());
        }
        std::vector<sim::TrackId> all(static_cast<std::size_t>(workers));
        std::iota(all.begin(), all.end(), 0);
        input_.groups = {all};
        for (std::size_t w = 0; w < times_.size(); ++w) {
            sim::EngineTrack track;
            track.durations = &durations_;
            track.times = &times_[w];
            track.groups.fill(workers > 1 ? 0 : -1);
            track.pipeline_peers = {static_cast<sim::TrackId>(w)};
            track.transfer_to_peer = {0};
            input_.tracks.push_back(std::move(track));
        }
    }

    // Worker w takes so many times as long for all that it computes.
    void slow(std::size_t w, Picoseconds factor) {
        for (std::size_t op = 0; op < times_[w].size(); ++op)
            if (is_compute(op)) times_[w][op].duration *= factor;
    }
    // Its first kernel of a step takes longer.
    void stall(std::size_t w, int step, Picoseconds time) {
        for (std::size_t op = 0; op < times_[w].size(); ++op)
            if (step_of(op) == step && is_compute(op)) {
                times_[w][op].duration += time;
                return;
            }
    }
    void jitter(const plan::Cluster& cluster) {
        for (std::size_t w = 0; w < times_.size(); ++w) {
            const sim::Uneven uneven(cluster, static_cast<plan::Rank>(w));
            for (std::size_t op = 0; op < times_[w].size(); ++op)
                if (is_compute(op))
                    times_[w][op].duration =
                        uneven.of(static_cast<std::uint32_t>(op), times_[w][op].duration);
        }
    }

    void run() {
        const sim::EngineResult result = run_engine(input_);
        EXPECT_TRUE(result.stuck.empty());
        const auto none = std::vector<Picoseconds>(static_cast<std::size_t>(steps_), 0);
        ends_ = none;
        computed_.assign(times_.size(), none);
        worked_.assign(times_.size(), 0);
        for (std::size_t w = 0; w < times_.size(); ++w)
            for (std::size_t op = 0; op < times_[w].size(); ++op) {
                const auto step = static_cast<std::size_t>(step_of(op));
                const trace::Event& event = result.events[w][op];
                ends_[step] = std::max(ends_[step], event.end);
                if (!is_compute(op)) continue;
                computed_[w][step] = std::max(computed_[w][step], event.end);
                worked_[w] += times_[w][op].duration;
            }
    }

    // When a step has ended on all workers; when one has computed it; what one computes in all.
    Picoseconds end(int step) const { return ends_[static_cast<std::size_t>(step)]; }
    Picoseconds computed(std::size_t w, int step) const {
        return computed_[w][static_cast<std::size_t>(step)];
    }
    Picoseconds worked(std::size_t w) const { return worked_[w]; }
    Picoseconds last_period() const { return end(steps_ - 1) - end(steps_ - 2); }

  private:
    int step_of(std::size_t op) const {
        return static_cast<int>(op * static_cast<std::size_t>(steps_) / times_.front().size());
    }
    const plan::Op& op_of(std::size_t op) const {
        return *all_ops(plan_)[input_.linked.front().op[op]];
    }
    bool is_compute(std::size_t op) const { return op_of(op).stream == plan::Stream::compute; }

    // A layer's forward and backward pass each begin with what they take; a step has two layers.
    std::vector<sim::OpTime> of_one_step(const Costs& costs) const {
        const auto one = plan::link(plan_, plan_.programs.front());
        std::vector<const plan::Op*> first;
        for (const char* name : {"layer.forward", "layer.backward"})
            first.push_back(&block_named(plan_, name).ops.front());
        const auto ops = all_ops(plan_);
        std::vector<sim::OpTime> times;
        for (const std::uint32_t number : one.op) {
            const plan::Op& op = *ops[number];
            Picoseconds time = 0;
            if (std::find(first.begin(), first.end(), &op) != first.end())
                time = costs.compute / (4 * kMicroBatches);
            if (op.kind() == plan::OpKind::reduce_scatter) time = costs.reduce;
            if (op.kind() == plan::OpKind::adamw) time = costs.step;
            if (op.kind() == plan::OpKind::all_gather) time = costs.gather;
            times.push_back({0, time});
        }
        return times;
    }

    plan::Plan plan_;
    int steps_;
    sim::EngineInput input_;
    std::vector<Picoseconds> durations_;
    std::vector<std::vector<sim::OpTime>> times_;  // by worker
    std::vector<Picoseconds> ends_;
    std::vector<std::vector<Picoseconds>> computed_;
    std::vector<Picoseconds> worked_;
};

constexpr Picoseconds kCompute = 16'000;

TEST(Staleness, TheSlowerOfComputeAndServersIsThePeriod) {
    for (const Costs& costs : {Costs{kCompute, 0, 0, 0}, Costs{kCompute, 1000, 500, 1500},
                               Costs{kCompute, 9000, 0, 6999}, Costs{kCompute, 9000, 2000, 9000},
                               Costs{kCompute, 30'000, 5000, 20'000}})
        for (const std::int64_t staleness : {0, 1, 2, 4}) {
            Workers workers(3, staleness, 16, costs);
            workers.run();
            const Picoseconds server = costs.reduce + costs.step + costs.gather;
            EXPECT_EQ(workers.last_period(),
                      staleness == 0 ? costs.compute + server : std::max(costs.compute, server))
                << staleness << ": " << server;
        }
}

// Others need its updates s steps later, and by then it has had s·C of time to spare: what a stall
// takes beyond that they lose, and no more.
TEST(Staleness, AStallIsAbsorbedUpToTheBound) {
    constexpr int kSteps = 12, kStalled = 3;
    for (const std::int64_t staleness : {0, 1, 3})
        for (const Picoseconds stall : {1000, 16'000, 16'001, 40'000, 48'000, 70'000}) {
            Workers workers(3, staleness, kSteps, {kCompute, 0, 0, 0});
            workers.stall(1, kStalled, stall);
            workers.run();
            const Picoseconds lost = std::max<Picoseconds>(0, stall - staleness * kCompute);
            for (const std::size_t other : {0U, 2U})
                EXPECT_EQ(workers.computed(other, kSteps - 1), kSteps * kCompute + lost)
                    << staleness << ", " << stall;
            EXPECT_EQ(workers.computed(1, kSteps - 1), kSteps * kCompute + stall);
        }
}

// Stalls of two workers in turn: each waits for the other where steps wait for all, else they
// overlap.
TEST(Staleness, StallsOfSeveralWorkersOverlap) {
    constexpr int kSteps = 12;
    for (const std::int64_t staleness : {0, 1, 2}) {
        Workers workers(2, staleness, kSteps, {kCompute, 0, 0, 0});
        workers.stall(0, 2, kCompute);
        workers.stall(1, 6, kCompute);
        workers.run();
        EXPECT_EQ(workers.end(kSteps - 1), (kSteps + (staleness == 0 ? 2 : 1)) * kCompute);
    }
}

TEST(Staleness, AWorkerThatIsAlwaysSlowSetsThePeriod) {
    for (const std::int64_t staleness : {0, 1, 2, 5}) {
        Workers workers(3, staleness, 24, {kCompute, 1000, 0, 1000});
        workers.slow(2, 2);
        workers.run();
        EXPECT_EQ(workers.last_period(), 2 * kCompute + (staleness == 0 ? 2000 : 0));
    }
}

// With the same kernels' times a later bound lets nobody begin later, and what no bound can beat is
// the work of the worker that has most of it.
TEST(Staleness, JitterCostsLessTheFurtherWorkersMayBeApart) {
    plan::Cluster cluster;
    cluster.jitter.distribution = plan::JitterDistribution::lognormal;
    cluster.jitter.relative_sd = 0.5;
    cluster.jitter.seed = 7;
    constexpr int kSteps = 30;
    Picoseconds before = 0, longest = 0;
    for (const std::int64_t staleness : {0, 1, 2, 4, 30}) {
        Workers workers(4, staleness, kSteps, {kCompute, 0, 0, 0});
        workers.jitter(cluster);
        workers.run();
        longest = 0;
        for (std::size_t w = 0; w < 4; ++w)
            longest = std::max(longest, workers.worked(w));
        const Picoseconds end = workers.end(kSteps - 1);
        EXPECT_GE(end, longest);
        if (staleness > 0) {
            EXPECT_LE(end, before);
        }
        if (staleness == 1) {
            EXPECT_LT(end, before);
        }
        before = end;
    }
    EXPECT_EQ(before, longest) << "more steps than there are: nobody waits";
}

// Beside one step's parameters and gradients each of the s others under way has its own; the
// server's states are those of ZeRO-1, with masters of fp32 parameters, too.
TEST(Staleness, EveryStepUnderWayHasItsParametersAndGradients) {
    for (const char* precision : {"bf16", "fp32"})
        for (const std::int64_t staleness : {0, 1, 3}) {
            const std::int64_t workers = 4;
            Sets sets = sets_of(workers, staleness);
            sets.push_back(std::string("training.precision=") + precision);
            sets.push_back("model.n_embd=64");
            const plan::Plan plan = plan_of(sets);
            const plan::Program& program = plan.programs.front();
            const bool wide = std::string(precision) == "fp32";
            const std::int64_t elements = program.buckets.front().padded();
            const auto aligned = [](std::int64_t bytes) { return plan::aligned(bytes); };
            const std::int64_t width = wide ? 4 : 2;
            EXPECT_EQ(resident_bytes(program, plan::MemoryCategory::parameters),
                      (staleness + 1) * aligned(width * elements));
            EXPECT_EQ(resident_bytes(program, plan::MemoryCategory::gradients),
                      (staleness + 1) *
                          aligned(plan::size_bytes(plan::dims_of(scenario(sets)).gradient_dtype) *
                                  elements));
            EXPECT_EQ(resident_bytes(program, plan::MemoryCategory::optimizer),
                      aligned((wide && staleness == 0 ? 8 : 12) * elements / workers));
        }
}

// What is predicted of a scenario: the accounts are exact, and steps take no longer than those that
// wait for all.
TEST(Staleness, PredictionsAddUp) {
    const sim::Profile profile = sim::load_profile(library() + "/profiles/a100-80gb-sxm.json");
    for (const Sets& more :
         {Sets{}, Sets{"layout.pipeline_parallel=2"},
          Sets{"layout.tensor_parallel=2", "layout.sequence_parallel=true"},
          Sets{"cluster.jitter={\"distribution\": \"lognormal\", \"relative_sd\": 0.2}"}}) {
        double synchronous = 0;
        for (const std::int64_t staleness : {0, 1, 3}) {
            Sets sets = {"layout.zero_stage=1", "layout.data_parallel_mode=parameter_server",
                         set("layout.staleness", staleness), "layout.data_parallel=4",
                         "layout.global_batch_size=16"};
            sets.insert(sets.end(), more.begin(), more.end());
            const sim::Prediction prediction = sim::simulate(scenario(sets), profile, {}, "");
            ASSERT_EQ(prediction.stuck, "");
            const auto& accounts = prediction.step.breakdown_s;
            const double sum = std::accumulate(accounts.begin(), accounts.end(), 0.0);
            EXPECT_NEAR(sum / prediction.step.time_s, 1, 1e-12);
            if (staleness == 0) synchronous = prediction.step.time_s;
            if (more.empty() || more.front().find("jitter") == std::string::npos) {
                EXPECT_LE(prediction.step.time_s, synchronous);
            }
        }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
