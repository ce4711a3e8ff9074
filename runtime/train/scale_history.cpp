#include "runtime/train/scale_history.hpp"

#include <algorithm>
#include <span>

namespace orrery::runtime {

std::vector<ScaleHistory> scale_histories(const BoundProgram& program) {
    std::vector<ScaleHistory> all;
    for (const BoundOp& bound : program.ops)
        for (std::size_t i = 0; bound.op->is<plan::UpdateScales>() && i < bound.reads.size(); ++i) {
            const auto id = static_cast<std::size_t>(bound.op->reads[i]);
            all.push_back({plan::full_name(bound.layer, bound.block->tensors[id].name),
                           bound.reads[i].offset, bound.reads[i].elements});
        }
    return all;
}

std::map<std::string, std::int64_t> scale_histories(const plan::Plan& plan) {
    std::map<std::string, std::int64_t> all;
    for (const plan::Program& program : plan.programs)
        for (const plan::Procedure& procedure : program.procedures)
            for (const plan::BlockUse& use : procedure.uses) {
                const plan::Block& block = plan.blocks[static_cast<std::size_t>(use.block)];
                for (const plan::Op& op : block.ops)
                    for (std::size_t i = 0; op.is<plan::UpdateScales>() && i < op.reads.size();
                         ++i) {
                        const plan::Tensor& tensor =
                            block.tensors[static_cast<std::size_t>(op.reads[i])];
                        all[plan::full_name(use.layer, tensor.name)] = tensor.elements();
                    }
            }
    return all;
}

void begin_scales(Device& device, const BoundProgram& program) {
    for (const ScaleHistory& history : scale_histories(program)) {
        const std::vector<float> zeros(static_cast<std::size_t>(history.elements));
        device.write(history.offset, std::as_bytes(std::span(zeros)));
    }
}

void load_scales(Device& device, const BoundProgram& program, const CheckpointReader& checkpoint) {
    begin_scales(device, program);
    for (const ScaleHistory& history : scale_histories(program)) {
        if (checkpoint.manifest().tensors.count(history.tensor) == 0) continue;
        std::vector<double> saved(static_cast<std::size_t>(history.elements));
        checkpoint.read(history.tensor, Quantity::weight, 0, saved);
        const std::vector<float> values(saved.begin(), saved.end());
        device.write(history.offset, std::as_bytes(std::span(values)));
    }
}

}  // namespace orrery::runtime
