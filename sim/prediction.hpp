// What a simulation says of a scenario: the numbers of docs/simulate-json.md, in one value that the
// text report, --json and validation all read. simulate() is the whole way from scenario to
// prediction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"
#include "sim/engine/engine.hpp"
#include "sim/replay/measured.hpp"
#include "sim/stack_prior.hpp"
#include "sim/step_interval.hpp"
#include "trace/accounts.hpp"
#include "trace/copies.hpp"
#include "trace/step_sums.hpp"
#include "trace/trace.hpp"

namespace orrery::sim {

// One pipeline rank's memory at the first moment of the most live bytes.
struct StageMemory {
    std::array<std::int64_t, plan::kMemoryCategories> bytes{};  // by plan::MemoryCategory
    // Outside what the plan accounts for: what the allocator loses, the driver's context,
    // communicators.
    std::int64_t other_bytes = 0;
    std::int64_t live_bytes = 0;      // sum of bytes: what a framework's allocator has handed out
    std::int64_t lost_bytes = 0;      // of other_bytes, what the allocator holds without use
    std::int64_t process_bytes = 0;   // of other_bytes, the rest
    std::int64_t arena_bytes = 0;     // what the runtime allocates for the plan
    std::int64_t peak_bytes = 0;      // sum of bytes and other_bytes
    std::string peak_at;              // "2F5 attention"
    std::int64_t capacity_bytes = 0;  // of the smallest device among its ranks'
    std::int64_t host_bytes = 0;      // of a rank, off the device
    std::int64_t disk_bytes = 0;
};

// What the ranks of the fullest node keep off their devices; capacity 0: the cluster does not say.
struct NodeMemory {
    std::int64_t ranks = 0;
    std::int64_t bytes = 0;
    std::int64_t capacity_bytes = 0;

    bool exceeded() const { return bytes > capacity_bytes; }
};

enum class Verdict : std::uint8_t { fits, tight, exceeds };
std::string_view name(Verdict verdict);

struct MemoryPrediction {
    std::int64_t capacity_bytes = 0;  // of the worst stage's device
    std::string capacity_source;
    std::vector<StageMemory> stages;  // by pipeline rank
    NodeMemory host;
    NodeMemory disk;
    double fit_probability = 0;
    Verdict verdict = Verdict::fits;

    // That which fills most of its device.
    const StageMemory& worst() const;
};

// Of the chunks of layers that pipeline ranks compute the one that takes longest, and why.
struct HeaviestChunk {
    std::int32_t stage = 0;
    std::int32_t pipeline_rank = 0;
    double time_s = 0;       // of one micro-batch, forward and backward, mean over its ranks
    double mean_s = 0;       // of all chunks
    std::string op;          // "head.forward logits": of which it has most more than the mean chunk
    double op_excess_s = 0;  // that much, of one micro-batch
};

// Of experts' rows, which do not come to all ranks alike.
struct RoutingSkew {
    double fullest = 1;  // rows of the fullest rank of an expert group over the mean
    double added_s = 0;  // what the step takes longer for it
};

// What is slow in the cluster, as drawn: how much longer a step takes for it.
struct StragglerCost {
    double even_s = 0;  // the step, were all devices and links as fast as their like, every time
    // Of the mean rank, what each account has more than there; sums to time_s − even_s.
    std::array<double, trace::kAccounts> added_s{};
    // Of those that the layout uses.
    std::int64_t slow_devices = 0, slow_nodes = 0, slow_intra_links = 0, slow_networks = 0;
    // That which costs most alone, among the slowest of each of the four.
    struct Worst {
        plan::StragglerOf of = plan::StragglerOf::device;
        std::int64_t device = -1;  // or …
        std::int64_t node = -1;
        plan::Rank rank = 0;  // of it, or the first in the node
        double factor = 1;
        double alone_added_s = 0;
    };
    std::optional<Worst> worst;
};

// Step times of a cluster that is drawn again and again, each with seeds of its own.
struct StepDraws {
    std::vector<double> times_s;  // by draw; 0 is the scenario's own

    double mean_s() const;
    // The smallest time that at least so large a share of the draws does not exceed.
    double quantile_s(double share) const;
};

struct StepPrediction {
    double time_s = 0;
    double low_s = 0;  // central 90 %
    double high_s = 0;
    IntervalParts interval_parts{};                      // of what low_s and high_s are made
    std::array<double, trace::kAccounts> breakdown_s{};  // mean over ranks; sums to time_s
    double bubble_fraction = 0;
    // Where chunks of layers do not take equally long: the longest. What they add to the waiting
    // for pipeline peers is imbalance; bubble is what the schedule alone leaves.
    std::optional<HeaviestChunk> heaviest_chunk;
    std::optional<RoutingSkew> routing;       // where rows come to ranks in unequal numbers
    double dropped_share = 0;                 // of experts' rows, where these have a capacity
    std::optional<StragglerCost> stragglers;  // where the cluster is not even
    std::optional<StepDraws> draws;           // where they were asked for
};

struct ThroughputPrediction {
    double tokens_per_s = 0;
    double tokens_per_s_per_gpu = 0;
    double model_tflops_per_gpu = 0;
    double mfu = 0;         // model FLOPs over the dense peak
    double mfu_causal = 0;  // attention counted at half
    double hfu = 0;         // FLOPs of the ops that run
    double peak_tflops = 0;
    std::string peak_source;
};

struct RunPrediction {
    std::int64_t gpus = 0;
    std::int64_t idle_gpus = 0;                 // of the cluster, that the layout does not use
    std::optional<double> days;                 // unknown without training.tokens
    std::optional<double> gpu_hours;            // of those that the layout uses
    std::optional<double> rented_gpu_hours;     // of the whole cluster, idle devices too
    std::optional<double> cost_usd;             // of the whole cluster; unknown without a price
    std::optional<double> cost_nodes_used_usd;  // of the nodes that the layout uses, whole
    std::optional<double> energy_mwh;           // unknown without a power figure
};

struct Prediction {
    plan::Conserved conserved;
    MemoryPrediction memory;
    StepPrediction step;
    ThroughputPrediction throughput;
    std::array<trace::CommunicationSums, trace::kAccounts> communication{};  // by exposed_* account
    trace::CopySums copies{};  // between tiers of memory
    RunPrediction run;
    std::optional<PriceSources> prices;  // of measured costs; without, all are the profile's
    std::uint64_t op_events = 0;
    std::string stuck;  // a deadlock report; the rest is then meaningless
    trace::StepSums sums;
    trace::Trace trace;  // without keep_trace the events of one rank of each program only
};

struct SimulateOptions {
    bool unfolded = false;                 // every rank for itself
    const MeasuredCosts* costs = nullptr;  // in place of the profile's prices, where measured
    // Keep every event; else they are counted and forgotten, and every number is the same. Where
    // costs were measured they are kept in any case.
    bool keep_trace = true;
    // Simulate a second time, with equal chunks, to part imbalance from bubble; else all of it is
    // bubble.
    bool part_waiting = true;
    // The run is one of those that the constants of its stack were fitted to, as only validation
    // can know: a user's own cluster and stack never are.
    bool of_fitted_source = false;
    // In place of the plan that the scenario asks for; must answer the same scenario.
    const plan::Plan* plan = nullptr;
    // Becomes true: nobody wants the answer any more, and simulate throws Stopped.
    const std::atomic<bool>* stop = nullptr;
    // So many step times, each with the seeds of stragglers and jitter raised by one more; 0: none.
    std::int64_t draws = 0;
};

// Throws ProfileError where the profile cannot price the plan. resolved_json goes into the trace.
Prediction simulate(const plan::Scenario& scenario, const Profile& profile,
                    const SimulateOptions& options, const std::string& resolved_json);

// The same in two: the step, and what its waiting is made of, which takes as long again and is
// often not asked for. All that it is made of must outlive it.
class SimulatedStep {
  public:
    SimulatedStep(const plan::Scenario& scenario, const Profile& profile,
                  const SimulateOptions& options, const std::string& resolved_json);
    ~SimulatedStep();
    SimulatedStep(const SimulatedStep&) = delete;
    SimulatedStep& operator=(const SimulatedStep&) = delete;

    // Its trace, with events where all are kept; its sums unparted, and what is stuck.
    const Prediction& so_far() const;
    Picoseconds length() const;
    // Once. A plan that was given must be complete by now (build_plan.hpp).
    Prediction finish();

  private:
    friend Prediction simulate(const plan::Scenario&, const Profile&, const SimulateOptions&,
                               const std::string&);
    struct Running;
    std::unique_ptr<Running> running_;
};

// Parts of simulate, for tests and benchmarks.
MemoryPrediction predict_memory(const plan::Plan& plan, const plan::Scenario& scenario,
                                const Profile& profile);

// That a rank fits which is said to need so many bytes, and what that is called.
double fit_probability(double need, double capacity, const StackPrior& prior);
Verdict verdict_of(double fit_probability);

// Process groups with more than one member, each of which costs a communicator.
std::int64_t communicators(const plan::Mesh& mesh);

}  // namespace orrery::sim
