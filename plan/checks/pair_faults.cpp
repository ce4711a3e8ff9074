#include "plan/checks/pair_faults.hpp"

#include <algorithm>

namespace orrery::plan {
namespace {

struct Touched {
    std::int32_t resident = -1;
    std::int64_t begin = 0, end = 0;
    bool written = false;

    bool meets(const Touched& other) const {
        return resident == other.resident && begin < other.end && other.begin < end &&
               (written || other.written);
    }
};

// What the ops of a step touch beyond their blocks, the shares of all ranks of a group with it.
std::vector<Touched> touched_by(const Plan& plan, const Program& program, const Step& step) {
    std::vector<Touched> all;
    if (step.procedure < 0) return all;
    for (const BlockUse& use : program.procedures[static_cast<std::size_t>(step.procedure)].uses) {
        const Block& block = plan.blocks[static_cast<std::size_t>(use.block)];
        for (const Op& op : block.ops)
            for (const auto* ids : {&op.reads, &op.writes})
                for (const TensorId id : *ids) {
                    const auto t = static_cast<std::size_t>(id);
                    const Slot& slot = use.slots[t];
                    if (slot.frame == Frame::none) continue;
                    const std::int64_t bytes =
                        block.tensors[t].bytes() *
                        (slot.share == GroupKind::none ? 1 : plan.mesh.group_size(slot.share));
                    all.push_back(
                        {step.resident(slot), slot.offset, slot.offset + bytes, ids == &op.writes});
                }
    }
    return all;
}

}  // namespace

void check_pairs(const Plan& plan, const Program& program, std::vector<std::string>& faults) {
    const auto fault = [&](const Step& step, const std::string& what) {
        faults.push_back("pipeline rank " + std::to_string(program.pipeline_rank) + ": " +
                         to_text(step.action) + ' ' + what);
    };
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
        const Step& step = program.steps[s];
        if (!step.beside_last) continue;
        const bool pairs = s > 0 && step.action.kind == ActionKind::backward &&
                           program.steps[s - 1].action.kind == ActionKind::forward &&
                           program.beside_scratch >= 0;
        if (!pairs) {
            fault(step, "is issued in turns with a step before it that is no forward step");
            continue;
        }
        const std::vector<Touched> own = touched_by(plan, program, step);
        for (const Touched& other : touched_by(plan, program, program.steps[s - 1]))
            if (std::any_of(own.begin(), own.end(),
                            [&](const Touched& one) { return one.meets(other); })) {
                fault(step, "shares bytes of resident " + std::to_string(other.resident) +
                                " with the step that it is issued in turns with");
                break;
            }
    }
}

}  // namespace orrery::plan
