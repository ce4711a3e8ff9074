// Memory of a prediction: the plan's peak, what lies outside the plan, and how sure the verdict is.
#include <algorithm>
#include <cmath>

#include "plan/memory/arena.hpp"
#include "sim/communicators.hpp"
#include "sim/cuda_graphs.hpp"
#include "sim/prediction.hpp"
#include "sim/stack_prior.hpp"

namespace orrery::sim {
namespace {

// Standard deviation of predicted peaks of other people's stacks over the peak: published peaks are
// met within 2–5 % on average (torchtitan, Zero Bubble, Megatron-Core's own records).
constexpr double kRelativeDeviation = 0.04;
constexpr double kTightBelow = 0.9;

std::int64_t bytes_of(double megabytes) {
    return static_cast<std::int64_t>(megabytes * 1e6);
}

// Probability that a heavy-tailed error (Student's t with two degrees of freedom) stays below x
// standard deviations: ½ + x ÷ (2·√(2 + x²)). Memory errors have long tails, and this needs no
// libm.
double probability_below(double x) {
    return 0.5 + x / (2 * std::sqrt(2 + x * x));
}

// That a rank issues in a step, the mean over the pipeline.
double ops_of_rank(const plan::Plan& plan) {
    double mean = 0;
    for (const plan::Program& program : plan.programs) {
        std::vector<std::size_t> of_procedure;
        for (const plan::Procedure& procedure : program.procedures) {
            std::size_t& count = of_procedure.emplace_back();
            for (const plan::BlockUse& use : procedure.uses)
                count += plan.blocks[static_cast<std::size_t>(use.block)].ops.size();
        }
        std::size_t ops = 0;
        for (const plan::Step& step : program.steps)
            ops += step.procedure < 0 ? 1 : of_procedure[static_cast<std::size_t>(step.procedure)];
        mean += static_cast<double>(ops) / static_cast<double>(plan.programs.size());
    }
    return mean;
}

// Of a rank's process, beside its arena: as the profile measured it, a process with the ranks of a
// node, or as the framework's preset has it.
std::int64_t process_bytes(const plan::Plan& plan, const plan::Scenario& scenario,
                           const Profile& profile, const plan::Communicators& asked, double ops) {
    const plan::Framework& framework = scenario.training.framework;
    if (!profile.process)
        return bytes_of(framework.context_mb) +
               communicators(framework, plan.mesh, asked) * bytes_of(framework.communicator_mb);
    const std::int64_t ranks = std::min(scenario.cluster.devices_per_node, plan.mesh.ranks());
    const ProcessProfile& process = *profile.process;
    return std::llround(process.shared_bytes.value / static_cast<double>(ranks) +
                        process.rank_bytes.value + process.op_bytes.value * ops);
}

// Held without use: a share, by a stack with a caching allocator; between its pieces, by an arena.
std::int64_t lost_bytes(const plan::Framework& framework, std::int64_t arena, std::int64_t live) {
    if (performs_the_plan(framework)) return arena - live;
    return static_cast<std::int64_t>(framework.fragmentation * static_cast<double>(live));
}

// Of the node whose ranks keep the most there, of what it has.
template <typename Tier>
NodeMemory fullest_node(const plan::Plan& plan, const plan::Cluster& cluster,
                        std::int64_t plan::Program::*bytes, Tier plan::Cluster::*tier) {
    const auto fuller = [](const NodeMemory& a, const NodeMemory& b) {
        if (a.capacity_bytes == b.capacity_bytes) return a.bytes > b.bytes;
        return static_cast<double>(a.bytes) * static_cast<double>(b.capacity_bytes) >
               static_cast<double>(b.bytes) * static_cast<double>(a.capacity_bytes);
    };
    NodeMemory fullest;
    for (plan::Rank first = 0; first < plan.mesh.ranks(); first += cluster.devices_per_node) {
        NodeMemory node;
        node.ranks = std::min(cluster.devices_per_node, plan.mesh.ranks() - first);
        for (plan::Rank rank = first; rank < first + node.ranks; ++rank)
            node.bytes += plan.program_of(rank).*bytes;
        const plan::Cluster& kind = cluster.node_kind(cluster.kind_of_device(first));
        node.capacity_bytes = static_cast<std::int64_t>((kind.*tier).capacity_GB * 1e9);
        if (first == 0 || fuller(node, fullest)) fullest = node;
    }
    return fullest;
}

// By pipeline rank, the device with least memory among those that it runs on.
std::vector<const Profile*> smallest_devices(const plan::Plan& plan, const plan::Cluster& cluster,
                                             const Profile& profile) {
    std::vector<const Profile*> smallest(plan.programs.size(), &profile);
    if (cluster.other_nodes.empty()) return smallest;
    std::vector<bool> seen(plan.programs.size());
    for (plan::Rank rank = 0; rank < plan.mesh.ranks(); ++rank) {
        const auto stage = static_cast<std::size_t>(plan.mesh.coordinates(rank).pipeline);
        const Profile& device = profile.of_kind(cluster.kind_of_device(rank));
        if (!seen[stage] ||
            device.hardware.capacity_bytes.value < smallest[stage]->hardware.capacity_bytes.value)
            smallest[stage] = &device;
        seen[stage] = true;
    }
    return smallest;
}

}  // namespace

// As Megatron-LM makes them (megatron/core/parallel_state.py).
std::int64_t communicators(const plan::Mesh& mesh) {
    std::vector<plan::GroupKind> kinds = {plan::GroupKind::tensor, plan::GroupKind::context,
                                          plan::GroupKind::pipeline, plan::GroupKind::embedding,
                                          plan::GroupKind::world};
    if (mesh.shard > 0)
        kinds.insert(kinds.end(), {plan::GroupKind::shard, plan::GroupKind::replica});
    else
        kinds.push_back(plan::GroupKind::data);
    if (mesh.expert > 0) kinds.push_back(plan::GroupKind::expert);
    if (mesh.expert > 0 && mesh.shard > 0)
        kinds.insert(kinds.end(), {plan::GroupKind::expert_shard, plan::GroupKind::expert_replica});
    else if (mesh.expert > 0)
        kinds.push_back(plan::GroupKind::expert_data);
    return std::count_if(kinds.begin(), kinds.end(),
                         [&](plan::GroupKind kind) { return mesh.group_size(kind) > 1; });
}

bool performs_the_plan(const plan::Framework& framework) {
    return framework.fragmentation == 0;
}

std::int64_t communicators(const plan::Framework& framework, const plan::Mesh& mesh,
                           const plan::Communicators& asked) {
    return performs_the_plan(framework) ? asked.count() : communicators(mesh);
}

// What is not known of the stack makes it need more: measured ones all did, for the same layouts.
double fit_probability(double need, double capacity, const StackPrior& prior) {
    const double spare = capacity - need;
    double deviation = kRelativeDeviation;
    if (spare > 0 && prior.memory_more > 0)
        deviation = std::sqrt(deviation * deviation + prior.memory_more * prior.memory_more);
    return probability_below(spare / (deviation * need));
}

Verdict verdict_of(double fit_probability) {
    if (fit_probability < 0.5) return Verdict::exceeds;
    return fit_probability < kTightBelow ? Verdict::tight : Verdict::fits;
}

std::string_view name(Verdict verdict) {
    switch (verdict) {
        case Verdict::fits:
            return "fits";
        case Verdict::tight:
            return "tight";
        case Verdict::exceeds:
            return "exceeds";
    }
    return "";
}

const StageMemory& MemoryPrediction::worst() const {
    return *std::max_element(
        stages.begin(), stages.end(), [](const StageMemory& a, const StageMemory& b) {
            return static_cast<double>(a.peak_bytes) * static_cast<double>(b.capacity_bytes) <
                   static_cast<double>(b.peak_bytes) * static_cast<double>(a.capacity_bytes);
        });
}

MemoryPrediction predict_memory(const plan::Plan& plan, const plan::Scenario& scenario,
                                const Profile& profile) {
    const plan::Framework& framework = scenario.training.framework;
    MemoryPrediction memory;
    const std::vector<const Profile*> devices = smallest_devices(plan, scenario.cluster, profile);
    const double ops = ops_of_rank(plan);
    const std::vector<plan::Communicators> asked = plan::communicators_of(plan);
    for (std::size_t rank = 0; rank < plan.programs.size(); ++rank) {
        const plan::Program& program = plan.programs[rank];
        const Profile& device = *devices[rank];
        const plan::MemoryPeak peak = plan::memory_peak(plan, program);
        StageMemory stage;
        stage.bytes = peak.bytes;
        stage.arena_bytes = program.arena_bytes;
        stage.live_bytes = peak.live;
        stage.lost_bytes = lost_bytes(framework, program.arena_bytes, peak.live);
        stage.process_bytes = process_bytes(plan, scenario, device, asked[rank], ops) +
                              graph_bytes(plan, program, scenario);
        stage.other_bytes = stage.lost_bytes + stage.process_bytes;
        stage.peak_bytes = peak.live + stage.other_bytes;
        stage.peak_at = peak.at;
        stage.capacity_bytes = static_cast<std::int64_t>(device.hardware.capacity_bytes.value);
        stage.host_bytes = program.host_bytes;
        stage.disk_bytes = program.disk_bytes;
        memory.stages.push_back(std::move(stage));
    }
    const StageMemory& worst = memory.worst();
    const double need = static_cast<double>(worst.peak_bytes);
    memory.capacity_bytes = worst.capacity_bytes;
    memory.capacity_source = devices[static_cast<std::size_t>(&worst - memory.stages.data())]
                                 ->hardware.capacity_bytes.source;
    memory.fit_probability = fit_probability(need, static_cast<double>(memory.capacity_bytes),
                                             stack_prior(framework, profile));
    memory.verdict = verdict_of(memory.fit_probability);
    const plan::Cluster& cluster = scenario.cluster;
    memory.host =
        fullest_node(plan, cluster, &plan::Program::host_bytes, &plan::Cluster::host_memory);
    memory.disk = fullest_node(plan, cluster, &plan::Program::disk_bytes, &plan::Cluster::storage);
    if (memory.host.exceeded() || memory.disk.exceeded()) {
        memory.verdict = Verdict::exceeds;
        memory.fit_probability = 0;
    }
    return memory;
}

}  // namespace orrery::sim
