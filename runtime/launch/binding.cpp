#include "runtime/launch/binding.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery::runtime {
namespace {

std::vector<NumaNode> nodes_with_cpus(const Processors& processors) {
    std::vector<NumaNode> nodes = processors.nodes;
    std::erase_if(nodes, [](const NumaNode& node) { return node.cpus.empty(); });
    return nodes;
}

// Those of the node on which this process may run.
CpuList usable_cpus(const Processors& processors, const NumaNode& node) {
    return in_both(node.cpus, processors.allowed);
}

bool is_bound_already(const Processors& processors) {
    return in_both(processors.cpuset, processors.allowed).size() < processors.cpuset.size();
}

// Why no rank is to be bound; empty where they are.
std::string why_none_at_all(plan::BindTo asked, const Processors& processors) {
    if (asked == plan::BindTo::none) return "run.bind is \"none\"";
    const std::size_t nodes = nodes_with_cpus(processors).size();
    if (nodes == 0) return "the kernel tells of no NUMA nodes";
    if (asked == plan::BindTo::numa) return "";
    if (nodes == 1) return "all cores are of one NUMA node";
    if (is_bound_already(processors))
        return fmt::format(
            "what started this process has bound it to cores {} of {} (--set run.bind=numa binds "
            "within them)",
            cpu_list_text(processors.allowed), cpu_list_text(processors.cpuset));
    return "";
}

// Refuses what was asked for and cannot be had.
Binding judged(plan::BindTo asked, const Processors& processors, Binding binding) {
    if (asked == plan::BindTo::numa) {
        if (!binding.why_none.empty()) throw BindingError("run.bind \"numa\": " + binding.why_none);
        for (const RankBinding& rank : binding.ranks)
            if (rank.cpus.empty())
                throw BindingError(fmt::format("run.bind \"numa\": rank {} of this machine: {}",
                                               rank.local_rank, rank.why_not));
    }
    binding.worth_telling = asked == plan::BindTo::numa || (asked == plan::BindTo::automatic &&
                                                            nodes_with_cpus(processors).size() > 1);
    return binding;
}

// Where all cores are of one node, so is the GPU, whether the kernel says it or not.
std::optional<int> node_of(const PciDevice& gpu, const std::vector<NumaNode>& nodes) {
    if (gpu.numa_node) return gpu.numa_node;
    return nodes.size() == 1 ? std::optional(nodes.front().number) : std::nullopt;
}

RankBinding bound_to_gpu(const Processors& processors, const RankDevice& device) {
    RankBinding rank;
    rank.local_rank = device.local_rank;
    const std::vector<NumaNode> nodes = nodes_with_cpus(processors);
    const std::string gpu = device.pci.address.empty() ? "its GPU" : "GPU " + device.pci.address;
    const auto number = node_of(device.pci, nodes);
    if (!number) {
        rank.why_not = fmt::format("the system does not say which NUMA node {} is of", gpu);
        return rank;
    }
    const auto node = std::find_if(nodes.begin(), nodes.end(),
                                   [&](const NumaNode& each) { return each.number == *number; });
    if (node == nodes.end()) {
        rank.why_not = fmt::format("NUMA node {}, of {}, has no cores", *number, gpu);
        return rank;
    }
    rank.cpus = usable_cpus(processors, *node);
    if (rank.cpus.empty())
        rank.why_not = fmt::format(
            "of the cores of NUMA node {} ({}), which {} is of, this process may use none: it has "
            "{}",
            *number, cpu_list_text(node->cpus), gpu, cpu_list_text(processors.allowed));
    else
        rank.nodes = {*number};
    return rank;
}

RankBinding bound_to_share(const std::vector<NumaNode>& usable, std::int64_t cores,
                           std::int64_t local_rank, std::int64_t ranks) {
    RankBinding rank;
    rank.local_rank = local_rank;
    const std::int64_t first = local_rank * cores / ranks;
    const std::int64_t end = std::max(first + 1, (local_rank + 1) * cores / ranks);
    std::int64_t before = 0;
    for (const NumaNode& node : usable) {
        const std::int64_t after = before + static_cast<std::int64_t>(node.cpus.size());
        if (before < end && first < after) {
            rank.nodes.push_back(node.number);
            rank.cpus.insert(rank.cpus.end(), node.cpus.begin(), node.cpus.end());
        }
        before = after;
    }
    std::sort(rank.cpus.begin(), rank.cpus.end());
    return rank;
}

// "rank 2", "ranks 0-3,6".
std::string ranks_text(const CpuList& ranks) {
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", cpu_list_text(ranks));
}

std::string place_text(const RankBinding& rank) {
    if (rank.cpus.empty()) return fmt::format("not: {}", rank.why_not);
    return fmt::format("to NUMA node{} {} (cores {})", rank.nodes.size() == 1 ? "" : "s",
                       fmt::join(rank.nodes, ","), cpu_list_text(rank.cpus));
}

}  // namespace

const RankBinding* Binding::of(std::int64_t local_rank) const {
    for (const RankBinding& rank : ranks)
        if (rank.local_rank == local_rank && !rank.cpus.empty()) return &rank;
    return nullptr;
}

Binding bind_to_gpus(plan::BindTo asked, const Processors& processors,
                     const std::vector<RankDevice>& devices) {
    Binding binding;
    binding.why_none = why_none_at_all(asked, processors);
    if (binding.why_none.empty())
        for (const RankDevice& device : devices)
            binding.ranks.push_back(bound_to_gpu(processors, device));
    return judged(asked, processors, std::move(binding));
}

Binding share_nodes(plan::BindTo asked, const Processors& processors, std::int64_t ranks) {
    Binding binding;
    binding.why_none = why_none_at_all(asked, processors);
    std::vector<NumaNode> usable;
    std::int64_t cores = 0;
    for (NumaNode node : nodes_with_cpus(processors)) {
        node.cpus = usable_cpus(processors, node);
        cores += static_cast<std::int64_t>(node.cpus.size());
        if (!node.cpus.empty()) usable.push_back(std::move(node));
    }
    if (binding.why_none.empty() && usable.empty())
        binding.why_none = "no core that this process may use is of a NUMA node";
    if (binding.why_none.empty())
        for (std::int64_t rank = 0; rank < ranks; ++rank)
            binding.ranks.push_back(bound_to_share(usable, cores, rank, ranks));
    return judged(asked, processors, std::move(binding));
}

std::string binding_text(const Binding& binding) {
    if (!binding.why_none.empty()) return "none: " + binding.why_none;
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < binding.ranks.size();) {
        const std::string place = place_text(binding.ranks[i]);
        CpuList alike;
        for (; i < binding.ranks.size() && place_text(binding.ranks[i]) == place; ++i)
            alike.push_back(static_cast<int>(binding.ranks[i].local_rank));
        texts.push_back(ranks_text(alike) + ' ' + place);
    }
    if (!binding.memory_problem.empty())
        texts.push_back("memory where it is first touched, since " + binding.memory_problem);
    return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace orrery::runtime
