// What is decided by a few numbers at the end of a step (runtime/kernels/scalar_rules.hpp).
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/kernels/scalar_rules.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

void update_loss_scale(const UpdateLossScale& op, Team&) {
    runtime::update_loss_scale(op.rule, *op.overflow > 0, *op.scale, op.counters);
}

void loss_share(const LossShare& op, Team&) {
    if (!op.loss)
        *op.share = 0;
    else if (op.loss.dtype == plan::DType::fp64)
        *op.share = *static_cast<const double*>(op.loss.data);
    else
        *op.share = static_cast<double>(*static_cast<const float*>(op.loss.data));
}

void judge_loss(const JudgeLoss& op, Team&) {
    const bool overflow = op.overflow != nullptr && *op.overflow > 0;
    const bool spiked = runtime::judge_loss(op.rule, *op.loss, overflow, op.accepted, *op.count);
    *op.spiked = spiked ? 1 : 0;
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
