// One layout's price, put together from parts that others share: the costs of its stages, its
// schedule's skeleton, the places of its groups. What is alike among stages (their place in the
// pipeline, their number of layers) is computed once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/ir/mesh.hpp"
#include "sim/network/collective_cost.hpp"
#include "sim/search/layout_pricer.hpp"
#include "sim/search/made.hpp"
#include "sim/search/schedule_skeleton.hpp"
#include "sim/search/stage_costs.hpp"

namespace orrery::sim {

// Where the groups of data-parallel ranks of a layout lie, and the way to the next stage.
struct Places {
    GroupShape data, shard, replica, expert_data, expert_shard, expert_replica;
    Hop next;
};

// What collectives of data-parallel ranks take on nodes of one kind. Layouts that differ in their
// schedule ask for the same.
struct Collective {
    const GroupShape* shape = nullptr;  // of the pricer's Places
    plan::OpKind kind = plan::OpKind::all_reduce;
    std::int64_t bytes = 0;
    bool operator==(const Collective&) const = default;

    struct Hash {
        std::size_t operator()(const Collective& of) const {
            return mixed(mixed(std::hash<const GroupShape*>()(of.shape),
                               static_cast<std::uint64_t>(of.kind)),
                         static_cast<std::uint64_t>(of.bytes));
        }
    };
};
using Collectives = Made<Collective, double, Collective::Hash>;

// Nodes of one kind, and what stages cost on them.
struct NodeCosts {
    const plan::Cluster& nodes;
    const Profile& profile;
    const Network& network;  // as if all nodes were of the kind
    Collectives& collectives;
    const UnitCosts& unit;  // without an error
};

struct EstimateParts {
    // By kind of the cluster's nodes, as far as the layout has ranks there. A pipeline rank costs
    // what it does on the slowest of its own; groups and transfers what they do there.
    const std::vector<NodeCosts>& nodes;
    const ScheduleSkeleton& skeleton;
    const Places& places;
};

// A step but for its pipeline, whose walk is most of what pricing a layout takes.
struct UnwalkedStep {
    // Ranks of the pipeline, one after another, that have as much to do after their last pass.
    struct Ending {
        std::int64_t ranks = 0;
        double late = 0;  // seconds of the reduction of gradients; as in StepOutline
        double left = 0;  // of the optimizer, and of gathering what it has changed
    };

    const ScheduleSkeleton* skeleton = nullptr;  // the pricer's
    PipelinePace pace;
    std::vector<Ending> endings;
    bool asks_all_ranks = false;  // as in StepOutline
    double gathered_late = 0;

    double seconds(const PipelineTimes& times) const;
    double least_seconds() const;  // no walk says less
};

struct UnwalkedEstimate {
    LayoutEstimate layout;  // without step_s
    UnwalkedStep step;      // nothing, where there is an error
};

// Adds what the steps take. Those with one skeleton are walked side by side, and what is alike
// once.
void walk(std::span<UnwalkedEstimate> estimates);

UnwalkedEstimate estimate_of(const plan::Scenario& valid, const EstimateParts& parts);

// What such a step is made of: the passes of its stages, what follows after the last one, and the
// bytes that are alive.
struct StepOutline {
    struct Rank {
        std::vector<std::int32_t> stages;  // its chunks
        // Seconds after its last pass.
        double reduction = 0;  // of gradients: what no pass hides, and what passes take longer
                               // beside the rest
        double optimizer = 0;
        double gathering = 0;  // of parameters that it has changed
        // Bytes on the device.
        double kept = 0;                   // all the time
        double beside = 0;                 // while a pass runs
        double at_end = 0;                 // after the last one
        std::vector<InFlight> of_a_chunk;  // of a micro-batch
    };
    PipelinePace pace;
    bool asks_all_ranks = false;  // the optimizer: it starts when all have reduced
    double gathered_late = 0;     // what the next step's first passes do not hide
    std::vector<Rank> ranks;      // of the pipeline
};
StepOutline outline_of(const plan::Scenario& valid, const EstimateParts& parts);

// The mesh of the plan that a layout would have.
plan::Mesh mesh_of(const plan::Layout& layout);

}  // namespace orrery::sim
