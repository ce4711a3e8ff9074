// What a layout costs without building its plan: the costs of its stages, its schedule's skeleton,
// the shapes of its groups, each found once for all layouts that share it, put together. An
// estimate of what simulate() says, within the bounds below
// (tests/sim/search/layout_pricer_test.cpp holds it against that); what a plan's ops do to each
// other across stages, and what communication hides behind which of them, is in it as a mean.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"
#include "sim/prediction.hpp"
#include "trace/trace.hpp"

namespace orrery::sim {

struct LayoutEstimate {
    double step_s = 0;
    double peak_bytes = 0;       // of the fullest rank
    double fit_probability = 0;  // as of MemoryPrediction
    double capacity_bytes = 0;   // of the rank's device
    std::string error;           // the code of why the device cannot compute so; the rest is 0
};

// |estimate ÷ simulation − 1| of nine layouts in ten stays below these. Of memory what the arena
// loses between slots of several sizes is the largest part, most under schedules in a V. Of
// mixtures of experts the bound on the step holds up to ZeRO-1: beyond, gathers and reductions of
// every micro-batch contend with the exchange of rows, and a step is off by up to a third.
// Sums of gradients by source, which take as long as the memory does, are in none.
// Where pipeline ranks share out the vocabulary, nobody waits for its passes in an estimate, which
// counts two micro-batches of what its pieces keep, whatever the schedule.
struct EstimateBounds {
    double step = 0.06;
    double peak = 0.08;
};
EstimateBounds estimate_bounds(const plan::Scenario& scenario);

struct UnwalkedEstimate;  // sim/search/layout_estimate.hpp

// Costs of stages that several pricers share. They do not depend on how many nodes a cluster has:
// all of `nodes` or fewer have the same.
class SharedStageCosts {
  public:
    explicit SharedStageCosts(std::int64_t nodes, std::size_t node_kinds = 1);
    ~SharedStageCosts();
    SharedStageCosts(const SharedStageCosts&) = delete;
    SharedStageCosts& operator=(const SharedStageCosts&) = delete;

  private:
    friend class LayoutPricer;
    struct Memo;
    std::unique_ptr<Memo> memo_;
};

// Prices layouts of one scenario, from several threads at once. What layouts share is made when
// first asked for and kept. Where the cluster's nodes are of several kinds, a pipeline rank costs
// what it does on the slowest of its own.
class LayoutPricer {
  public:
    // What is not layout is `scenario`'s; all must outlive the pricer. The scenarios of those that
    // share `costs` differ in nothing but layout and nodes.
    LayoutPricer(const plan::Scenario& scenario, const Profile& profile, SharedStageCosts& costs);
    ~LayoutPricer();
    LayoutPricer(const LayoutPricer&) = delete;
    LayoutPricer& operator=(const LayoutPricer&) = delete;

    // Of a layout that breaks no rule, and what the rules have settled of its training.
    LayoutEstimate price(const plan::Scenario& valid) const;
    // The same but for the step's time: for one that may not be asked for it, or for many that are
    // then timed together. Lives no longer than the pricer.
    UnwalkedEstimate price_memory(const plan::Scenario& valid) const;
    // The step that the price is of, pass by pass (sim/search/estimated_trace.hpp); nothing where
    // the price is an error.
    std::optional<trace::Trace> trace(const plan::Scenario& valid) const;

  private:
    struct Memo;
    struct Parts;
    Parts parts_of(const plan::Scenario& valid) const;

    const plan::Scenario& scenario_;
    const Profile& profile_;
    SharedStageCosts& costs_;
    std::unique_ptr<Memo> memo_;
};

// The same of one scenario's own layout, in milliseconds where its simulation takes seconds.
// Nothing where there is no estimate: of a schedule from a file, of what the device cannot compute.
std::optional<LayoutEstimate> estimate_layout(const plan::Scenario& valid, const Profile& profile);
// And with its step.
struct EstimatedStep {
    LayoutEstimate layout;
    trace::Trace trace;
};
std::optional<EstimatedStep> estimate_step(const plan::Scenario& valid, const Profile& profile);

}  // namespace orrery::sim
