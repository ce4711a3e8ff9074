#include "sim/cuda_graphs.hpp"

#include <algorithm>

#include "plan/ir/link.hpp"
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

void capture_layers(const plan::Plan& plan, std::vector<trace::InGraph>& ops) {
    const std::vector<std::uint32_t> first = plan.first_ops();
    for (const plan::Program& program : plan.programs)
        for (const plan::Stage& stage : program.stages)
            for (const plan::StagePart& part : stage.parts)
                for (const std::int32_t block : blocks_of(part)) {
                    if (part.layer < 0) continue;
                    const auto at = static_cast<std::size_t>(block);
                    for (std::size_t i = 0; i < plan.blocks[at].ops.size(); ++i)
                        ops[first[at] + i] = i == 0 ? trace::InGraph::first : trace::InGraph::later;
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

}  // namespace

trace::GraphLaunches graph_launches(const plan::Plan& plan, const plan::Scenario& scenario) {
    trace::GraphLaunches launches;
    const plan::CudaGraphs scope = scenario.training.cuda_graphs.scope;
    if (scope == plan::CudaGraphs::none) return launches;
    std::size_t size = 0;
    for (const plan::Block& block : plan.blocks)
        size += block.ops.size();
    launches.ops.assign(size, trace::InGraph::no);
    if (scope == plan::CudaGraphs::per_layer) {
        capture_layers(plan, launches.ops);
    } else {
        capture_step(plan, launches.ops);
        launches.step = launch_times(scenario.training.framework).forward;
    }
    return launches;
}

std::int64_t graph_bytes(const plan::Plan& plan, const plan::Program& program,
                         const plan::Scenario& scenario) {
    const plan::GraphCapture& capture = scenario.training.cuda_graphs;
    if (capture.scope == plan::CudaGraphs::none) return 0;
    std::int64_t nodes = 0, pools = 0;
    if (capture.scope == plan::CudaGraphs::full_iteration) {
        const trace::GraphLaunches launches = graph_launches(plan, scenario);
        for (const std::uint32_t op : plan::link(plan, program).op)
            if (launches.ops[op] != trace::InGraph::no) ++nodes;
    } else {
        for (const plan::Stage& stage : program.stages) {
            const std::int64_t graphs = most_in_flight(program, stage.index);
            for (const plan::StagePart& part : stage.parts)
                for (const std::int32_t index : blocks_of(part)) {
                    if (part.layer < 0) continue;
                    const plan::Block& block = plan.blocks[static_cast<std::size_t>(index)];
                    nodes += graphs * static_cast<std::int64_t>(block.ops.size());
                    pools += graphs * block.scratch_bytes;
                }
        }
    }
    return pools + static_cast<std::int64_t>(capture.node_kb * 1e3 * static_cast<double>(nodes));
}

}  // namespace orrery::sim
