// One layout's price, put together from parts that others share: the costs of its stages, its
// schedule's skeleton, the places of its groups. What is alike among stages (their place in the
// pipeline, their number of layers) is computed once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
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

// Walks over skeletons that were made before. Layouts that differ in what their data-parallel ranks
// share out, or in how many there are, often have the same passes.
class PipelineWalks {
  public:
    // Stages in runs of the same times: how many, and their passes.
    struct Run {
        std::int64_t stages = 0;
        std::array<PassTimes, kPasses> passes{};
        bool operator==(const Run&) const = default;
    };
    struct Key {
        const ScheduleSkeleton* skeleton = nullptr;
        std::int64_t micro_batches = 0;
        double hop = 0;
        bool blocks = false;
        std::vector<Run> runs;
        bool operator==(const Key&) const = default;
    };
    const PipelineTimes& get(Key key);

  private:
    struct Hash {
        std::size_t operator()(const Key& key) const;
    };
    Made<Key, PipelineTimes, Hash> made_;
};

// Nodes of one kind, and what stages cost on them.
struct NodeCosts {
    const plan::Cluster& nodes;
    const Profile& profile;
    const Network& network;  // as if all nodes were of the kind
    const UnitCosts& unit;   // without an error
};

struct EstimateParts {
    // By kind of the cluster's nodes, as far as the layout has ranks there. A pipeline rank costs
    // what it does on the slowest of its own; groups and transfers what they do there.
    const std::vector<NodeCosts>& nodes;
    const ScheduleSkeleton& skeleton;
    const Places& places;
    PipelineWalks& walks;
};

LayoutEstimate estimate_of(const plan::Scenario& valid, const EstimateParts& parts);

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
    std::vector<std::array<PassTimes, kPasses>> passes;  // by stage
    double hop = 0;                                      // of a message to the next stage
    bool blocks = false;                                 // its sender, as long
    bool asks_all_ranks = false;  // the optimizer: it starts when all have reduced
    double gathered_late = 0;     // what the next step's first passes do not hide
    std::vector<Rank> ranks;      // of the pipeline
};
StepOutline outline_of(const plan::Scenario& valid, const EstimateParts& parts);

// The mesh of the plan that a layout would have.
plan::Mesh mesh_of(const plan::Layout& layout);

}  // namespace orrery::sim
