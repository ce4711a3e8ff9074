#include "trace/describe_plan.hpp"

#include <utility>

#include "plan/check.hpp"
#include "plan/memory/arena.hpp"

namespace orrery::trace {
namespace {

OpName name_of(const plan::Mesh& mesh, const plan::Block& block, const plan::Op& op) {
    OpName name{block.name, op.label, op.kind(), op.phase, op.stream, op.group};
    name.flops = plan::flops(op);
    if (plan::is_copy(op.kind())) {
        name.bytes = name.sent_bytes = static_cast<double>(plan::message_bytes(op));
        return name;
    }
    if (!plan::is_communication(op.kind())) {
        name.bytes = plan::bytes_moved(block, op);
        return name;
    }
    const int ranks =
        op.kind() == plan::OpKind::exchange ? 2 : static_cast<int>(mesh.group_size(op.group));
    name.bytes = static_cast<double>(plan::message_bytes(op));
    name.sent_bytes = plan::bytes_sent_per_rank(op.kind(), name.bytes, ranks);
    return name;
}

std::vector<StepActions> actions_of(const plan::Program& program) {
    std::vector<StepActions> actions;
    for (const plan::Step& step : program.steps) {
        StepActions& of_step = actions.emplace_back(1, step.action);
        for (std::size_t i = 1; i < step.transfers.size(); ++i)
            of_step.push_back(step.transfers[i].action);
    }
    return actions;
}

std::vector<std::int16_t> layers_of(const plan::Program& program,
                                    const plan::LinkedProgram& linked) {
    std::vector<std::int16_t> layers;
    layers.reserve(linked.size());
    for (std::size_t i = 0; i < linked.size(); ++i) {
        const std::int32_t procedure = program.steps[linked.step[i]].procedure;
        layers.push_back(procedure < 0 ? std::int16_t{-1}
                                       : static_cast<std::int16_t>(
                                             program.procedures[static_cast<std::size_t>(procedure)]
                                                 .uses[linked.use[i]]
                                                 .layer));
    }
    return layers;
}

}  // namespace

Trace describe_plan(const plan::Plan& plan, std::vector<plan::LinkedProgram> linked) {
    ORRERY_CHECK(linked.size() == plan.programs.size(), "every program is linked");
    Trace trace;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            trace.ops.push_back(name_of(plan.mesh, block, op));
    for (std::size_t p = 0; p < plan.programs.size(); ++p) {
        const plan::Program& program = plan.programs[p];
        ProgramOps ops;
        ops.pipeline_rank = program.pipeline_rank;
        ops.actions = actions_of(program);
        ops.layer = layers_of(program, linked[p]);
        ops.op = std::move(linked[p].op);
        ops.step = std::move(linked[p].step);
        ops.live_bytes = plan::live_bytes_by_step(plan, program);
        trace.programs.push_back(std::move(ops));
    }
    return trace;
}

}  // namespace orrery::trace
