// Decisions at the end of a step, by runtime/kernels/scalar_rules.hpp: one thread each.
#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/scalar_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

constexpr Grid kOneThread{1, 1};

__global__ void update_loss_scale_kernel(UpdateLossScale op) {
    runtime::update_loss_scale(op.rule, *op.overflow > 0, *op.scale, op.counters);
}

__global__ void loss_share_kernel(LossShare op) {
    *op.share = op.loss ? static_cast<double>(*static_cast<const float*>(op.loss.data)) : 0;
}

__global__ void judge_loss_kernel(JudgeLoss op) {
    const bool overflow = op.overflow != nullptr && *op.overflow > 0;
    *op.spiked =
        runtime::judge_loss(op.rule, *op.loss, overflow, op.accepted, *op.count) ? 1.0F : 0.0F;
}

}  // namespace

void update_loss_scale(const UpdateLossScale& op, cudaStream_t stream) {
    launch("update_loss_scale", update_loss_scale_kernel, kOneThread, stream, op);
}

void loss_share(const LossShare& op, cudaStream_t stream) {
    check_types({op.loss});
    launch("loss_share", loss_share_kernel, kOneThread, stream, op);
}

void judge_loss(const JudgeLoss& op, cudaStream_t stream) {
    launch("judge_loss", judge_loss_kernel, kOneThread, stream, op);
}

}  // namespace orrery::runtime::cuda
