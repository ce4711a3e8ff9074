#include "sim/cuda_graphs.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "plan/assemble/bind_steps.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/ir/link.hpp"
#include "sim/cost/kernel_cost.hpp"
#include "sim/machine.hpp"

namespace orrery::sim {
namespace {

// The blocks of a part's passes.
std::vector<std::int32_t> blocks_of(const plan::StagePart& part) {
    std::vector<std::int32_t> blocks;
    for (const std::int32_t block :
         {part.forward, part.recompute, part.backward, part.backward_input, part.backward_weight})
        if (block >= 0 && std::find(blocks.begin(), blocks.end(), block) == blocks.end())
            blocks.push_back(block);
    return blocks;
}

// Whether the op's size follows from how many rows came to experts.
bool has_counted_rows(const plan::Op& op) {
    return std::visit(
        [](const auto& of) {
            if constexpr (requires { of.expected + of.split; }) return true;
            return false;
        },
        op.spec);
}

// Ops of a block that a layer's graph cannot hold, [first, second): whose sizes follow from how
// many rows came, which the host reads, and what is between them. Of experts with as many rows for
// each whatever is chosen there are none.
std::pair<std::size_t, std::size_t> counted_ops(const plan::Block& block, bool padded) {
    std::pair<std::size_t, std::size_t> counted{0, 0};
    for (std::size_t i = 0; i < block.ops.size() && !padded; ++i) {
        const plan::Op& op = block.ops[i];
        if (!has_counted_rows(op) && op.stream != plan::Stream::expert_comm) continue;
        if (counted.second == 0) counted.first = i;
        counted.second = i + 1;
    }
    return counted;
}

// What a graph's pool holds of a block: the scratch that captured ops write.
std::int64_t captured_scratch(const plan::Block& block, bool padded) {
    const auto [first, last] = counted_ops(block, padded);
    if (first == last) return block.scratch_bytes;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        if (i >= first && i < last) continue;
        for (const plan::TensorId id : block.ops[i].writes) {
            const plan::Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
            if (tensor.role == plan::Role::scratch) bytes += tensor.bytes();
        }
    }
    return std::min(bytes, block.scratch_bytes);
}

void capture_layers(const plan::Plan& plan, bool padded, std::vector<trace::InGraph>& ops) {
    const std::vector<std::uint32_t> first = plan.first_ops();
    for (const plan::Program& program : plan.programs)
        for (const plan::Stage& stage : program.stages)
            for (const plan::StagePart& part : stage.parts)
                for (const std::int32_t block : blocks_of(part)) {
                    if (part.layer < 0) continue;
                    const auto at = static_cast<std::size_t>(block);
                    const auto counted = counted_ops(plan.blocks[at], padded);
                    bool begins = true;  // a graph
                    for (std::size_t i = 0; i < plan.blocks[at].ops.size(); ++i) {
                        const bool apart = i >= counted.first && i < counted.second;
                        ops[first[at] + i] = apart    ? trace::InGraph::no
                                             : begins ? trace::InGraph::first
                                                      : trace::InGraph::later;
                        begins = apart;
                    }
                }
}

void capture_step(const plan::Plan& plan, std::vector<trace::InGraph>& ops) {
    std::size_t number = 0;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops) {
            if (op.phase != plan::Phase::optimizer && !plan::is_copy(op.kind()))
                ops[number] = trace::InGraph::later;
            ++number;
        }
}

// The most passes of a stage that are between forward and backward at once.
std::int64_t most_in_flight(const plan::Program& program, std::int32_t stage) {
    std::int64_t now = 0, most = 0;
    for (const plan::Step& step : program.steps) {
        if (step.action.stage != stage) continue;
        const plan::ActionKind kind = step.action.kind;
        if (kind == plan::ActionKind::forward) most = std::max(most, ++now);
        if (kind == plan::ActionKind::backward || kind == plan::ActionKind::backward_input) --now;
    }
    return most;
}

// Kernels of a graph write where they wrote when they were captured. A caching allocator gives each
// graph memory of its own for that; an arena has a place for it that others use in their turn.
bool has_pools(const plan::Framework& framework) {
    return framework.fragmentation > 0;
}

trace::GraphLaunches captured(const plan::Plan& plan, const plan::Scenario& scenario) {
    trace::GraphLaunches launches;
    const plan::CudaGraphs scope = scenario.training.cuda_graphs.scope;
    if (scope == plan::CudaGraphs::none) return launches;
    std::size_t size = 0;
    for (const plan::Block& block : plan.blocks)
        size += block.ops.size();
    launches.ops.assign(size, trace::InGraph::no);
    if (scope == plan::CudaGraphs::per_layer) {
        capture_layers(plan, scenario.training.routing.pads_to_capacity, launches.ops);
    } else {
        capture_step(plan, launches.ops);
        launches.step = launch_times(scenario.training.framework).forward;
    }
    return launches;
}

// Once a pass: before the first op that needs what the router of the same pass has counted.
void read_counts(const plan::Plan& plan, const plan::Training& training,
                 trace::GraphLaunches& launches) {
    const bool masks = training.framework.count_readings == plan::CountReadings::each_mask;
    if ((training.routing.pads_to_capacity && !masks) ||
        training.cuda_graphs.scope == plan::CudaGraphs::full_iteration)
        return;
    const bool each = training.framework.count_readings == plan::CountReadings::each_product;
    for (const plan::Block& block : plan.blocks) {
        bool routed = false;
        for (const plan::Op& op : block.ops) {
            const bool moves = op.is<plan::GroupedGemm>() || op.is<plan::AllToAllV>();
            const bool reads = each ? moves : routed && has_counted_rows(op);
            routed = op.is<plan::Route>() || (routed && !reads);
            launches.reads_counts.push_back(reads);
        }
    }
}

}  // namespace

trace::GraphLaunches graph_launches(const plan::Plan& plan, const plan::Scenario& scenario,
                                    const Hardware& hardware) {
    trace::GraphLaunches launches = captured(plan, scenario);
    const plan::Framework& framework = scenario.training.framework;
    launches.waits_for_exchanges = host_waits_for_exchanges(scenario, hardware);
    if (!scenario.model.has_experts()) return launches;
    const plan::CountReadings readings =
        hardware.cpu ? plan::CountReadings::none : framework.count_readings;
    if (readings != plan::CountReadings::none) read_counts(plan, scenario.training, launches);
    const bool split = framework.expert_biases == plan::ExpertBiases::split ||
                       framework.expert_products == plan::ExpertProducts::one_by_one;
    if (!split && readings != plan::CountReadings::each_product) return launches;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            launches.launches.push_back(split || op.is<plan::GroupedGemm>()
                                            ? launches_by_expert(op, scenario.training.fp8)
                                            : 1);
    return launches;
}

bool host_waits_for_exchanges(const plan::Scenario& scenario, const Hardware& hardware) {
    return scenario.training.framework.host_waits_for_transfers &&
           plan::blocks_on_transfers(scenario) && !hardware.cpu &&
           scenario.training.cuda_graphs.scope != plan::CudaGraphs::full_iteration;
}

trace::HostIssue host_issue(const plan::Scenario& scenario, const Hardware& hardware) {
    const plan::Framework& framework = scenario.training.framework;
    return {launch_times(framework), framework.launch_queue,
            graph_launches(plan::build_plan(scenario), scenario, hardware)};
}

std::int64_t graph_bytes(const plan::Plan& plan, const plan::Program& program,
                         const plan::Scenario& scenario) {
    const plan::GraphCapture& capture = scenario.training.cuda_graphs;
    if (capture.scope == plan::CudaGraphs::none) return 0;
    std::int64_t nodes = 0, pools = 0;
    if (capture.scope == plan::CudaGraphs::full_iteration) {
        const trace::GraphLaunches launches = captured(plan, scenario);
        for (const std::uint32_t op : plan::link(plan, program).op)
            if (launches.ops[op] != trace::InGraph::no) ++nodes;
    } else {
        const bool padded = scenario.training.routing.pads_to_capacity;
        for (const plan::Stage& stage : program.stages) {
            const std::int64_t graphs = most_in_flight(program, stage.index);
            for (const plan::StagePart& part : stage.parts)
                for (const std::int32_t index : blocks_of(part)) {
                    if (part.layer < 0) continue;
                    const plan::Block& block = plan.blocks[static_cast<std::size_t>(index)];
                    const auto [first, last] = counted_ops(block, padded);
                    nodes += graphs * static_cast<std::int64_t>(block.ops.size() - (last - first));
                    if (has_pools(scenario.training.framework))
                        pools += graphs * captured_scratch(block, padded);
                }
        }
    }
    return pools + static_cast<std::int64_t>(capture.node_kb * 1e3 * static_cast<double>(nodes));
}

}  // namespace orrery::sim
