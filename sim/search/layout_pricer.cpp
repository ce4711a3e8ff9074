#include "sim/search/layout_pricer.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "plan/assemble/chosen_schedule.hpp"
#include "plan/check.hpp"
#include "plan/schedule/vocabulary.hpp"
#include "sim/search/estimated_trace.hpp"
#include "sim/search/layout_estimate.hpp"
#include "sim/search/made.hpp"
#include "sim/search/stage_costs.hpp"

namespace orrery::sim {
namespace {

using plan::Layout;

struct UnitHash {
    std::size_t operator()(const plan::Layout& layout) const {
        std::size_t seed = 1;
        for (const std::int64_t value :
             {layout.tensor_parallel, layout.pipeline_parallel, layout.context_parallel,
              layout.data_parallel, layout.micro_batch_size, layout.recompute_every,
              layout.expert_parallel, layout.expert_tensor_parallel,
              static_cast<std::int64_t>(layout.zero_stage),
              static_cast<std::int64_t>(layout.recompute),
              static_cast<std::int64_t>(layout.sequence_parallel),
              static_cast<std::int64_t>(layout.offload.optimizer),
              static_cast<std::int64_t>(layout.schedule.size())})
            seed = mixed(seed, static_cast<std::uint64_t>(value));
        return seed;
    }
};

// Of groups that part a stage's ranks into rows, each as long and its ranks as far apart as every
// other's: by the stage's ranks, how far apart, and how many.
using GroupShapes = Made<std::array<std::int64_t, 3>, GroupShape, NumbersHash<3>>;

// All stages lie alike: those of one stage stand for all. A slow link is where it is, and no other
// group's: winners are simulated with it, estimates are of links that are alike.
Places places_of(const Layout& layout, const plan::Cluster& asked, bool experts,
                 GroupShapes& shapes) {
    std::optional<plan::Cluster> even;
    if (!asked.slow_links.empty()) even = asked.made_even();
    const plan::Cluster& cluster = even ? *even : asked;
    plan::Mesh mesh = mesh_of(layout);
    const std::int64_t stride = mesh.tensor * mesh.context * mesh.data;
    const std::int64_t ranks = mesh.ranks();
    Places places;
    if (mesh.pipeline > 1) {
        places.next = hop_between(0, stride, cluster);
        if (!places.next.same_node)
            places.next.flows = static_cast<int>(std::min(cluster.devices_per_node, ranks));
    }
    mesh.pipeline = 1;
    const auto shape = [&](plan::GroupKind kind) {
        const std::vector<plan::Rank> first = mesh.group(kind, 0);
        const std::int64_t apart = first.size() > 1 ? first[1] - first[0] : 0;
        return shapes.get({stride, apart, std::ssize(first)}, [&] {
            std::vector<std::vector<std::int64_t>> groups;
            std::vector<bool> seen(static_cast<std::size_t>(stride));
            for (plan::Rank rank = 0; rank < stride; ++rank) {
                if (seen[static_cast<std::size_t>(rank)]) continue;
                groups.push_back(mesh.group(kind, rank));
                for (const plan::Rank member : groups.back())
                    seen[static_cast<std::size_t>(member)] = true;
            }
            return shapes_of(groups, cluster).front();
        });
    };
    places.data = shape(plan::GroupKind::data);
    places.shard = mesh.shard > 0 ? shape(plan::GroupKind::shard) : places.data;
    if (mesh.shard > 0) places.replica = shape(plan::GroupKind::replica);
    if (!experts) return places;
    places.expert_data = shape(plan::GroupKind::expert_data);
    places.expert_shard =
        mesh.shard > 0 ? shape(plan::GroupKind::expert_shard) : places.expert_data;
    if (mesh.shard > 0) places.expert_replica = shape(plan::GroupKind::expert_replica);
    return places;
}

CollectiveTable table_of(const Profile& profile) {
    return profile.collectives_json.empty()
               ? CollectiveTable{}
               : parse_collectives(profile.collectives_json, profile.path);
}

// Whether a schedule has backward passes in two halves; a property of the kind.
bool splits(const plan::ScheduleKind& kind) {
    const std::int32_t chunks = kind.chunks == plan::Chunks::one ? 1 : 2;
    for (const auto& row : kind.schedule({2, chunks, 4}).grid)
        for (const plan::Action& action : row)
            if (action.kind == plan::ActionKind::backward_input) return true;
    return false;
}

// Passes over layers alone, of so many micro-batches.
plan::Schedule schedule_of(Layout layout, std::int64_t micro_batches) {
    layout.overlap_expert_communication = false;
    layout.global_batch_size = micro_batches * layout.data_parallel * layout.micro_batch_size;
    return plan::without_pieces(plan::chosen_schedule(layout));
}

ScheduleSkeleton skeleton_of(const Layout& layout, std::int64_t walked) {
    return {
        [layout](const plan::ScheduleShape& of) { return schedule_of(layout, of.micro_batches); },
        {static_cast<std::int32_t>(layout.pipeline_parallel),
         static_cast<std::int32_t>(layout.virtual_pipeline), static_cast<std::int32_t>(walked)}};
}

}  // namespace

EstimateBounds estimate_bounds(const plan::Scenario& scenario) {
    EstimateBounds bounds;
    if (scenario.layout.shares_vocabulary()) bounds = {0.07, 0.12};
    return bounds;
}

// Nodes of one kind of the cluster, as if all were of it.
struct Nodes {
    plan::Cluster cluster;
    const Profile& profile;
    Network network;
    std::unique_ptr<Collectives> collectives;
};

struct LayoutPricer::Memo {
    Memo(const plan::Scenario& scenario, const Profile& profile, std::int64_t nodes_of_units) {
        for (std::size_t kind = 0; kind < scenario.cluster.node_kinds(); ++kind) {
            const plan::Cluster alike = scenario.cluster.all_of_kind(kind);
            const Profile& of_kind = profile.of_kind(kind);
            nodes.push_back({alike, of_kind, Network(alike, table_of(of_kind)),
                             std::make_unique<Collectives>()});
            unit_clusters.push_back(alike);
            unit_clusters.back().nodes = nodes_of_units;
            machines.push_back(std::make_unique<UnitMachines>(unit_clusters.back(), of_kind,
                                                              nodes.back().network.table()));
        }
        for (const plan::ScheduleKind& kind : plan::schedule_kinds())
            splits_backward.push_back(splits(kind));
    }

    std::vector<Nodes> nodes;  // by kind, as what follows
    std::vector<plan::Cluster> unit_clusters;
    std::vector<std::unique_ptr<UnitMachines>> machines;
    std::vector<bool> splits_backward;  // by kind of schedule
    Made<std::array<std::int64_t, 5>, ScheduleSkeleton, NumbersHash<5>> skeletons;
    Made<std::array<std::int64_t, 6>, Places, NumbersHash<6>> places;
    GroupShapes shapes;
};

struct SharedStageCosts::Memo {
    Memo(std::int64_t all_nodes, std::size_t node_kinds) : nodes(all_nodes), units(node_kinds) {}

    std::int64_t nodes;
    std::vector<Made<Layout, UnitCosts, UnitHash>> units;  // by kind of node
};

SharedStageCosts::SharedStageCosts(std::int64_t nodes, std::size_t node_kinds)
    : memo_(std::make_unique<Memo>(nodes, node_kinds)) {}
SharedStageCosts::~SharedStageCosts() = default;

LayoutPricer::LayoutPricer(const plan::Scenario& scenario, const Profile& profile,
                           SharedStageCosts& costs)
    : scenario_(scenario),
      profile_(profile),
      costs_(costs),
      memo_(std::make_unique<Memo>(scenario, profile, costs.memo_->nodes)) {}

LayoutPricer::~LayoutPricer() = default;

// What is put together, kept alive by the pricer and its costs.
struct LayoutPricer::Parts {
    std::string error;  // the rest is then not there
    std::vector<NodeCosts> nodes;
    const ScheduleSkeleton* skeleton = nullptr;
    const Places* places = nullptr;
};

LayoutPricer::Parts LayoutPricer::parts_of(const plan::Scenario& valid) const {
    const Layout& layout = valid.layout;
    const plan::ScheduleKind* kind = plan::find_schedule(layout.schedule);
    ORRERY_CHECK(kind != nullptr, "a search has schedules of a known kind");
    const std::int64_t number = kind - plan::schedule_kinds().data();
    const Layout unit =
        unit_layout(valid, memo_->splits_backward[static_cast<std::size_t>(number)]);
    Parts parts;
    for (std::size_t of = 0; of <= valid.cluster.kind_of_device(layout.ranks() - 1); ++of) {
        const Nodes& alike = memo_->nodes[of];
        const UnitCosts& costs = costs_.memo_->units[of].get(unit, [&] {
            plan::Scenario of_unit = valid;
            of_unit.layout = unit;
            of_unit.cluster = memo_->unit_clusters[of];
            // What a pass could do before its input is there: where transfers block it does not.
            of_unit.training.framework.overlap_pipeline_transfers = plan::TransferOverlap::always;
            return unit_costs(of_unit, *memo_->machines[of]);
        });
        parts.error = costs.error;
        if (!parts.error.empty()) return parts;
        parts.nodes.push_back(
            {alike.cluster, alike.profile, alike.network, *alike.collectives, costs});
    }
    const std::int64_t pipeline = layout.pipeline_parallel;
    const std::int64_t walked = ScheduleSkeleton::walked(layout.micro_batches(), pipeline);
    parts.skeleton = &memo_->skeletons.get({number, pipeline, layout.virtual_pipeline, walked,
                                            static_cast<std::int64_t>(layout.vocabulary_parallel)},
                                           [&] { return skeleton_of(layout, walked); });
    parts.places = &memo_->places.get(
        {layout.tensor_parallel, layout.context_parallel, layout.data_parallel, layout.zero_ranks(),
         pipeline > 1 ? layout.ranks() : 0, layout.expert_parallel * layout.expert_tensor_parallel},
        [&] { return places_of(layout, valid.cluster, valid.model.has_experts(), memo_->shapes); });
    return parts;
}

UnwalkedEstimate LayoutPricer::price_memory(const plan::Scenario& valid) const {
    const Parts parts = parts_of(valid);
    if (!parts.error.empty()) {
        UnwalkedEstimate none;
        none.layout.error = parts.error;
        return none;
    }
    return estimate_of(valid, {parts.nodes, *parts.skeleton, *parts.places});
}

LayoutEstimate LayoutPricer::price(const plan::Scenario& valid) const {
    UnwalkedEstimate estimate = price_memory(valid);
    walk({&estimate, 1});
    return estimate.layout;
}

std::optional<trace::Trace> LayoutPricer::trace(const plan::Scenario& valid) const {
    const Parts parts = parts_of(valid);
    if (!parts.error.empty()) return std::nullopt;
    const StepOutline outline = outline_of(valid, {parts.nodes, *parts.skeleton, *parts.places});
    const auto passes = parts.skeleton->timed(
        schedule_of(valid.layout, valid.layout.micro_batches()), outline.pace);
    return estimated_trace(valid, outline, passes);
}

std::optional<LayoutEstimate> estimate_layout(const plan::Scenario& valid, const Profile& profile) {
    if (!valid.layout.imported.schedule.grid.empty()) return std::nullopt;
    SharedStageCosts costs(valid.cluster.all_nodes(), valid.cluster.node_kinds());
    const LayoutEstimate estimate = LayoutPricer(valid, profile, costs).price(valid);
    if (!estimate.error.empty()) return std::nullopt;
    return estimate;
}

std::optional<EstimatedStep> estimate_step(const plan::Scenario& valid, const Profile& profile) {
    if (!valid.layout.imported.schedule.grid.empty()) return std::nullopt;
    SharedStageCosts costs(valid.cluster.all_nodes(), valid.cluster.node_kinds());
    const LayoutPricer pricer(valid, profile, costs);
    const LayoutEstimate estimate = pricer.price(valid);
    if (!estimate.error.empty()) return std::nullopt;
    return EstimatedStep{estimate, *pricer.trace(valid)};
}

}  // namespace orrery::sim
