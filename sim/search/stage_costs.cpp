#include "sim/search/stage_costs.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/assemble/build_plan.hpp"
#include "plan/blocks/dims.hpp"
#include "plan/ir/link_key.hpp"
#include "plan/passes/program_builder.hpp"
#include "plan/scenario/diagnostic.hpp"
#include "sim/engine/drawn_cluster.hpp"

namespace orrery::sim {
namespace {

constexpr std::int64_t kUnitStages = 4;          // first, middle, middle with more layers, last
constexpr std::int64_t kLongestPattern = 12;     // of kinds of layers
constexpr std::size_t kMostParts = 16;           // of units, that are kept for the next
constexpr std::size_t kMostLinkedOps = 1 << 19;  // of their orders, likewise: some 20 MB

// Layers after which the kinds of a model's layers begin anew.
std::int64_t pattern_of(const plan::Model& model) {
    if (model.kind_of_layer.empty()) return 1;
    const auto& kinds = model.kind_of_layer;
    const auto layers = static_cast<std::int64_t>(kinds.size());
    for (std::int64_t period = 1; period <= std::min(kLongestPattern, layers); ++period) {
        bool repeats = true;
        for (std::size_t i = static_cast<std::size_t>(period); i < kinds.size(); ++i)
            repeats = repeats && kinds[i] == kinds[i - static_cast<std::size_t>(period)];
        if (repeats) return period;
    }
    return std::min(kLongestPattern, layers);
}

// Layers that a stage has more of from one plan to the next.
std::int64_t period_of(const plan::Scenario& unit) {
    const std::int64_t of_recompute = std::max<std::int64_t>(1, unit.layout.recompute_every);
    return std::lcm(pattern_of(unit.model), of_recompute);
}

// From so many on each layer adds the same: rings of gathered parameters and of reduced gradients
// have all their slots.
std::int64_t least_layers(const plan::Scenario& unit, std::int64_t period) {
    if (!plan::sharding_of(unit).gradients) return period;
    const std::int64_t slots = unit.training.framework.zero_prefetch + 1;
    return (slots + period - 1) / period * period;
}

// Exchanges with data- and pipeline-parallel ranks take no time: they are added layout by layout.
void silence_other_ranks(const plan::Plan& plan, Machine& machine) {
    std::vector<bool> silent;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            silent.push_back(
                plan::is_communication(op.kind()) && op.group != plan::GroupKind::tensor &&
                op.group != plan::GroupKind::context && op.group != plan::GroupKind::expert);
    for (const auto& table : machine.tables)
        for (std::size_t op = 0; op < silent.size(); ++op) {
            if (!silent[op]) continue;
            table->durations[op] = 0;
            table->network[op] = {};
        }
    for (EngineTrack& track : machine.input.tracks) {
        std::fill(track.transfer_to_peer.begin(), track.transfer_to_peer.end(), 0);
        for (auto& hops : track.statistic_to_peer)
            std::fill(hops.begin(), hops.end(), 0);
        std::fill(track.use_to_peer.begin(), track.use_to_peer.end(), NetworkUse{});
    }
}

// The cluster, or one like it with room for a plan of more stages than it was made for. What passes
// between the stages is left out of account; groups within them lie as they do.
plan::Cluster with_room(plan::Cluster cluster, std::int64_t ranks) {
    if (cluster.devices() >= ranks) return cluster;
    if (cluster.intra_node.kind == plan::IntraNodeKind::hybrid_cube_mesh ||
        cluster.intra_node.kind == plan::IntraNodeKind::torus || cluster.nodes > 1) {
        if (cluster.inter_node.kind == plan::InterNodeKind::none) {
            cluster.inter_node.kind = plan::InterNodeKind::ethernet;
            cluster.inter_node.nics_per_node = 1;
            cluster.inter_node.bandwidth_Gbps = 100;
        }
        cluster.nodes = (ranks + cluster.devices_per_node - 1) / cluster.devices_per_node;
        return cluster;
    }
    // With a link for each pair each has its share of what a device sends.
    if (cluster.intra_node.kind == plan::IntraNodeKind::xgmi)
        cluster.intra_node.bandwidth_GBps *=
            static_cast<double>(ranks - 1) /
            static_cast<double>(std::max<std::int64_t>(1, cluster.devices_per_node - 1));
    cluster.devices_per_node = ranks;
    return cluster;
}

// What one plan says of the stage of one of its programs.
struct Sample : SampledTimes, SampledBytes {};

struct Samples {
    std::vector<Sample> stages;
    std::int64_t boundary_bytes = 0;
};

// Of a plan with so many layers on each stage.
Samples samples_of(plan::Scenario unit, const std::vector<std::int64_t>& layers,
                   UnitMachines& machines) {
    plan::Layout& layout = unit.layout;
    unit.cluster = with_room(std::move(unit.cluster), layout.ranks());
    layout.layers_per_stage = layers;
    unit.model.layers = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
    if (!unit.model.kind_of_layer.empty()) {
        const auto pattern = static_cast<std::size_t>(pattern_of(unit.model));
        std::vector<std::int32_t> kinds;
        for (std::int64_t l = 0; l < unit.model.layers; ++l)
            kinds.push_back(unit.model.kind_of_layer[static_cast<std::size_t>(l) % pattern]);
        unit.model.kind_of_layer = std::move(kinds);
    }
    plan::PlanParts parts = machines.take_parts(unit);
    plan::Plan plan = plan::assemble_plan(unit, parts, plan::Slots::without_offsets);
    Samples samples;
    samples.boundary_bytes =
        plan::message_bytes(plan.blocks[static_cast<std::size_t>(plan.exchange_block)].ops.front());
    const std::vector<SampledTimes> times = machines.sampled_times_of(plan, unit);
    for (std::size_t p = 0; p < plan.programs.size(); ++p)
        samples.stages.push_back({times[p], sampled_bytes(plan, plan.programs[p])});
    parts.put_back(std::move(plan));
    machines.put_back(std::move(parts));
    return samples;
}

// What `two` has more than `one`, by the layers that it has more; and of a stage like `at`, with
// `few` layers, what it has beside these.
StageCosts costs_of(const Sample& at, std::int64_t few, const Sample& one, const Sample& two,
                    std::int64_t more) {
    const auto layers = static_cast<double>(few), added = static_cast<double>(more);
    const auto even = [&](auto value) {
        const double layer = (value(two) - value(one)) / added;
        return ByLayers{value(at) - layer * layers, layer};
    };
    const auto of = [&](double Sample::*member) {
        return even([member](const Sample& sample) { return sample.*member; });
    };
    const auto of_pass = [&](std::array<double, kPasses> Sample::*member, std::size_t pass) {
        return even([&](const Sample& sample) { return (sample.*member)[pass]; });
    };
    StageCosts costs;
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
        costs.lead[pass] = of_pass(&Sample::lead, pass);
        costs.busy[pass] = of_pass(&Sample::busy, pass);
        costs.tail[pass] = of_pass(&Sample::tail, pass);
        costs.undisturbed[pass] = of_pass(&Sample::undisturbed, pass);
        costs.launched[pass] = of_pass(&Sample::launched, pass);
        costs.while_running[pass] = of_pass(&Sample::while_running, pass);
    }
    // A schedule that splits some backward passes runs the others whole.
    const auto both = [](std::array<ByLayers, kPasses>& passes) {
        if (passes[1].base == 0 && passes[1].layer == 0)
            passes[1] = {passes[2].base + passes[3].base, passes[2].layer + passes[3].layer};
    };
    both(costs.busy);
    both(costs.undisturbed);
    if (costs.launched[1].base == 0 && costs.launched[1].layer == 0)
        costs.launched[1] = costs.launched[2];
    costs.elements = of(&Sample::elements);
    costs.expert_elements = of(&Sample::expert_elements);
    const double stepped = two.stepped - one.stepped;
    if (stepped > 0) costs.step_per_element = (two.step_seconds - one.step_seconds) / stepped;
    costs.step_seconds = std::max(0.0, at.step_seconds - costs.step_per_element * at.stepped);
    costs.whole_states = of(&Sample::whole_states);
    costs.shared_states = of(&Sample::shared_states);
    costs.shared_expert_states = of(&Sample::shared_expert_states);
    costs.fixed = of(&Sample::fixed);
    costs.until_backward = of(&Sample::until_backward);
    costs.until_weights = of(&Sample::until_weights);
    costs.between_halves = of(&Sample::between_halves);
    costs.at_end = of(&Sample::at_end);
    costs.host_states = of(&Sample::host_states);
    costs.host_shared_states = of(&Sample::host_shared_states);
    costs.host_in_flight = of(&Sample::host_in_flight);
    costs.groups = at.groups;
    return costs;
}

// Of a plan without a pipeline, and one with more layers.
UnitCosts costs_of_one_stage(const plan::Scenario& unit, std::int64_t few, std::int64_t more,
                             UnitMachines& machines) {
    const Samples one = samples_of(unit, {few}, machines);
    const Samples two = samples_of(unit, {few + more}, machines);
    UnitCosts costs;
    costs.boundary_bytes = one.boundary_bytes;
    costs.stages[static_cast<std::size_t>(StagePlace::only)] =
        costs_of(one.stages[0], few, one.stages[0], two.stages[0], more);
    return costs;
}

// A layer more is the same wherever it is: the two middle stages say what it costs.
UnitCosts costs_of_pipeline(const plan::Scenario& unit, std::int64_t few, std::int64_t more,
                            UnitMachines& machines) {
    const Samples samples = samples_of(unit, {few, few, few + more, few}, machines);
    const auto& stages = samples.stages;
    UnitCosts costs;
    costs.boundary_bytes = samples.boundary_bytes;
    const auto set = [&](StagePlace place, const Sample& at) {
        costs.stages[static_cast<std::size_t>(place)] =
            costs_of(at, few, stages[1], stages[2], more);
    };
    set(StagePlace::first, stages[0]);
    set(StagePlace::middle, stages[1]);
    set(StagePlace::last, stages[3]);
    return costs;
}

}  // namespace

plan::Layout unit_layout(const plan::Scenario& scenario, bool splits_backward) {
    plan::Layout unit = scenario.layout;
    const std::int64_t most =
        *std::max_element(unit.layers_per_stage.begin(), unit.layers_per_stage.end());
    if (unit.recompute == plan::Recompute::every_k)
        unit.recompute_every = plan::layers_per_group(scenario.layout, most);
    unit.schedule = splits_backward ? "zb-h1" : "1f1b";
    if (unit.pipeline_parallel > 1) unit.pipeline_parallel = kUnitStages;
    unit.virtual_pipeline = 1;
    // So many that groups of experts are whole, twice if the layout has them twice.
    const std::int64_t group = unit.expert_parallel * unit.expert_tensor_parallel;
    const std::int64_t least =
        group / std::gcd(group, unit.tensor_parallel * unit.context_parallel);
    unit.data_parallel = least * std::min<std::int64_t>(2, unit.data_parallel / least);
    unit.zero_group_size = 0;
    unit.global_batch_size = kUnitMicroBatches * unit.data_parallel * unit.micro_batch_size;
    unit.layers_per_stage.clear();
    // Embedding and head whole, wherever they go: with_shared_ends divides them.
    unit.vocabulary_parallel = plan::VocabularyParallel::none;
    return unit;
}

StageCosts with_shared_ends(const UnitCosts& unit, double ranks, double chunks) {
    const auto stage = [&](StagePlace place) -> const StageCosts& {
        return unit.stages[static_cast<std::size_t>(place)];
    };
    const StageCosts &first = stage(StagePlace::first), &last = stage(StagePlace::last);
    StageCosts shared = stage(StagePlace::middle);
    shared.groups |= first.groups | last.groups;
    const auto divide = [&](ByLayers& all, const ByLayers& one, const ByLayers& other) {
        all.base += (one.base + other.base - 2 * all.base) / (ranks * chunks);
    };
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
        divide(shared.busy[pass], first.busy[pass], last.busy[pass]);
        divide(shared.undisturbed[pass], first.undisturbed[pass], last.undisturbed[pass]);
        divide(shared.while_running[pass], first.while_running[pass], last.while_running[pass]);
    }
    for (ByLayers StageCosts::*bytes :
         {&StageCosts::elements, &StageCosts::whole_states, &StageCosts::shared_states})
        divide(shared.*bytes, first.*bytes, last.*bytes);
    // However many micro-batches are in flight, the pieces keep something of two: one whose sums
    // are on their way and the next. Of what they hand over and are handed there are three inputs
    // of the head, and of its gradients, of the embedding's rows and of theirs two each.
    constexpr double kOfPieces = 2, kHanded = 9;
    for (ByLayers StageCosts::*bytes :
         {&StageCosts::until_backward, &StageCosts::until_weights, &StageCosts::between_halves}) {
        const double of_ends = (first.*bytes).base + (last.*bytes).base - 2 * (shared.*bytes).base;
        shared.fixed.base += kOfPieces * of_ends / ranks;
    }
    shared.fixed.base += kHanded * static_cast<double>(unit.boundary_bytes);
    return shared;
}

LinkedOrders::Programs LinkedOrders::of(const plan::Plan& plan) {
    const plan::Digest key = plan::link_key(plan);
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = kept_.find(key); found != kept_.end()) return found->second;
    }
    const auto linked =
        std::make_shared<const std::vector<plan::LinkedProgram>>(plan::link_all(plan));
    const auto ops = [](const std::vector<plan::LinkedProgram>& programs) {
        std::size_t sum = 0;
        for (const plan::LinkedProgram& program : programs)
            sum += program.size();
        return sum;
    };
    const std::lock_guard lock(mutex_);
    if (!kept_.emplace(key, linked).second) return linked;  // another thread was faster
    order_.push_back(key);
    ops_ += ops(*linked);
    while (ops_ > kMostLinkedOps && order_.size() > 1) {
        const auto oldest = kept_.find(order_.front());
        ops_ -= ops(*oldest->second);
        kept_.erase(oldest);
        order_.pop_front();
    }
    return linked;
}

UnitMachines::UnitMachines(const plan::Cluster& cluster, const Profile& profile,
                           CollectiveTable collectives)
    : profile_(profile),
      collectives_(std::move(collectives)),
      cluster_(drawn_cluster(cluster)),
      network_(cluster_, {collectives_}) {}

std::vector<SampledTimes> UnitMachines::sampled_times_of(const plan::Plan& plan,
                                                         const plan::Scenario& unit) {
    const LinkedOrders::Programs linked = linked_.of(plan);
    Machine machine = build(plan, unit, *linked);
    silence_other_ranks(plan, machine);
    machine.input.peers_never_wait = true;  // a pass takes what it takes, not what others keep it
    return sampled_times(plan, machine);
}

Machine UnitMachines::build(const plan::Plan& plan, const plan::Scenario& unit,
                            const std::vector<plan::LinkedProgram>& linked) {
    const plan::Mesh& mesh = plan.mesh;
    const auto folded = [&](const plan::Cluster& cluster) {
        return fold_ranks(mesh, cluster, false, unit.model.has_experts());
    };
    if (cluster_.devices() < mesh.ranks()) {
        const plan::Cluster larger = drawn_cluster(unit.cluster);
        const MixedNetwork network(larger, {collectives_});
        const Classes classes = folded(larger);
        const MachineParts parts{larger, network, classes, linked, ratios_};
        return build_machine(plan, unit, profile_, false, nullptr, &parts);
    }
    const Classes& classes = classes_.get({mesh.tensor, mesh.context, mesh.data, mesh.pipeline,
                                           mesh.shard, mesh.expert, mesh.expert_split},
                                          [&] { return folded(cluster_); });
    const MachineParts parts{cluster_, network_, classes, linked, ratios_};
    return build_machine(plan, unit, profile_, false, nullptr, &parts);
}

plan::PlanParts UnitMachines::take_parts(const plan::Scenario& unit) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(parts_.begin(), parts_.end(),
                                    [&](const plan::PlanParts& kept) { return kept.like(unit); });
    if (found == parts_.end()) return {};
    plan::PlanParts parts = std::move(*found);
    parts_.erase(found);
    return parts;
}

void UnitMachines::put_back(plan::PlanParts parts) {
    const std::lock_guard lock(mutex_);
    parts_.push_back(std::move(parts));
    if (parts_.size() > kMostParts) parts_.pop_front();
}

UnitCosts unit_costs(const plan::Scenario& unit, UnitMachines& machines) {
    UnitCosts costs;
    try {
        const std::int64_t period = period_of(unit);
        const std::int64_t few = least_layers(unit, period);
        costs = unit.layout.pipeline_parallel > 1 ? costs_of_pipeline(unit, few, period, machines)
                                                  : costs_of_one_stage(unit, few, period, machines);
        const plan::Dims dims = plan::dims_of(unit);
        costs.gradient_bytes = static_cast<double>(plan::size_bytes(dims.gradient_dtype));
        costs.parameter_bytes = static_cast<double>(plan::size_bytes(dims.dtype));
    } catch (const plan::ScenarioError& error) {
        costs.error = error.diagnostic().code;
    }
    return costs;
}

}  // namespace orrery::sim
