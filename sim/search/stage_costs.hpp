// What a stage of a layout costs, found once for all layouts that share it: from a real plan of a
// pipeline of four stages of a few layers each, one of which has more, with the layout's own
// degrees of tensor and context parallelism. A layer more adds the same each time, so that this
// gives stages of any number of layers; what data-parallel ranks exchange and how far they share
// states out is left open. Every technique of the plan is in it, whatever it is: nothing here knows
// one.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/assemble/plan_parts.hpp"
#include "plan/ir/digest.hpp"
#include "plan/ir/link.hpp"
#include "plan/ir/mesh.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/gemm_model.hpp"
#include "sim/cost/profile.hpp"
#include "sim/machine.hpp"
#include "sim/network/mixed_network.hpp"
#include "sim/search/made.hpp"
#include "sim/search/unit_sample.hpp"

namespace orrery::sim {

// A number that grows evenly with the layers of a stage.
struct ByLayers {
    double base = 0;   // of no layer
    double layer = 0;  // of each
    double of(double layers) const { return base + layer * layers; }
};

// Where a stage is in the pipeline: what it has beside layers.
enum class StagePlace : std::uint8_t { first, middle, last, only };
inline constexpr std::size_t kStagePlaces = 4;

struct StageCosts {
    // Of a micro-batch's passes, communication with data- and pipeline-parallel ranks aside: from
    // having its input to its first kernel, from there to the end of its last one, and on to what
    // the next stage waits for. Only the second keeps the rank from its next pass. The first is
    // below 0 where kernels go before that need no input: layers that are made again.
    std::array<ByLayers, kPasses> lead, busy, tail;
    // Of busy, kernels that run beside no communication, which more of that would slow down.
    std::array<ByLayers, kPasses> undisturbed;
    // What a pass takes longer if its host launches nothing before it has its input.
    std::array<ByLayers, kPasses> launched;
    // After the last backward pass: norms, scaling and the optimizer, of which the share of states
    // that a rank steps counts.
    ByLayers elements;  // parameters of a rank, those of experts left out
    ByLayers expert_elements;
    double step_seconds = 0;  // whatever it steps
    double step_per_element = 0;

    // Bytes on the device. States: all that a rank would hold alone, and of that what is divided
    // among the ranks that share states out.
    ByLayers whole_states, shared_states;
    ByLayers shared_expert_states;  // likewise, of experts' parameters
    ByLayers fixed;                 // workspace, scalars, frames, rings: its base once per rank
    // Of a micro-batch: from its forward pass to the end of its (first half of) backward; from
    // forward to the end of the second half; from the first half to the second.
    ByLayers until_backward, until_weights, between_halves;
    // While a pass runs, beside all that; and after the last one.
    std::array<ByLayers, kPasses> while_running;
    ByLayers at_end;
    // Bytes off the device: states as above, and of a micro-batch from forward to backward.
    ByLayers host_states, host_shared_states, host_in_flight;
    plan::GroupSet groups;  // that its ops name
};

struct UnitCosts {
    std::array<StageCosts, kStagePlaces> stages;  // those that the pipeline has
    std::int64_t boundary_bytes = 0;              // of one transfer between stages
    double gradient_bytes = 0;                    // of an element on its way to other ranks
    double parameter_bytes = 0;                   // of one that is gathered
    std::string error;  // the device cannot compute so; the rest is then meaningless
};

// Of a stage where pipeline ranks, of so many chunks each, share out the vocabulary: a middle
// one's, and its part of what the first and the last have beside layers.
StageCosts with_shared_ends(const UnitCosts& unit, double ranks, double chunks);

// The layout of the plan that costs are taken from: layouts that share it share the costs, as far
// as nothing but the layout differs. Of a valid scenario; `splits_backward` is of its schedule.
plan::Layout unit_layout(const plan::Scenario& scenario, bool splits_backward);

// The orders of ops of plans, each linked once while it is kept: those of the last so many ops are.
class LinkedOrders {
  public:
    using Programs = std::shared_ptr<const std::vector<plan::LinkedProgram>>;
    Programs of(const plan::Plan& plan);

  private:
    std::mutex mutex_;
    std::unordered_map<plan::Digest, Programs, plan::DigestHash> kept_;
    std::deque<plan::Digest> order_;  // in which they were linked
    std::size_t ops_ = 0;
};

// What the machines of plans that costs are taken from share: the network, for each mesh its ranks,
// folded, and for each order of ops what is linked of it.
class UnitMachines {
  public:
    // Of nodes of one kind, which the profile is of; it must outlive this.
    UnitMachines(const plan::Cluster& cluster, const Profile& profile, CollectiveTable collectives);

    // What the passes of the plan of such a unit take, by program. Of a scenario with the cluster,
    // or with one like it that has room for the plan's ranks.
    std::vector<SampledTimes> sampled_times_of(const plan::Plan& plan, const plan::Scenario& unit);

    // Parts of the plan of such a unit, if there are any of one of the last; they go back once its
    // plan is done with.
    plan::PlanParts take_parts(const plan::Scenario& unit);
    void put_back(plan::PlanParts parts);

  private:
    Machine build(const plan::Plan& plan, const plan::Scenario& unit,
                  const std::vector<plan::LinkedProgram>& linked);

    const Profile& profile_;
    CollectiveTable collectives_;
    plan::Cluster cluster_;
    MixedNetwork network_;
    Made<std::array<std::int64_t, 7>, Classes, NumbersHash<7>> classes_;
    LinkedOrders linked_;
    NeighbourRatios ratios_;
    std::mutex mutex_;
    std::deque<plan::PlanParts> parts_;  // those put back last at the end
};

// Of a scenario with such a layout.
UnitCosts unit_costs(const plan::Scenario& unit, UnitMachines& machines);

}  // namespace orrery::sim
