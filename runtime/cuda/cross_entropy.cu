// The four kernels of the vocabulary-parallel loss: a block per row of logits; the loss by one
// block.
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/elements.hpp"
#include "runtime/kernels/loss_rules.hpp"
#include "runtime/kernels/softmax_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// A logit as it counts.
__device__ Capped logit_at(const LogitsPart& part, const Buffer& logits, std::int64_t at) {
    return capped(load(logits, at), static_cast<float>(part.soft_cap));
}

__global__ void max_kernel(CrossEntropyMax op) {
    for (std::int64_t row = blockIdx.x; row < op.part.rows; row += gridDim.x) {
        float largest = RunningSum{}.largest;
        for (std::int64_t i = threadIdx.x; i < op.part.valid_columns; i += blockDim.x)
            largest =
                Largest{}(largest, logit_at(op.part, op.logits, row * op.part.columns + i).value);
        largest = largest_over_block(largest);
        if (threadIdx.x == 0) static_cast<float*>(op.largest.data)[row] = largest;
    }
}

// Of exponentials in fp64: a vocabulary is many of them.
__global__ void sum_kernel(CrossEntropySum op) {
    for (std::int64_t row = blockIdx.x; row < op.part.rows; row += gridDim.x) {
        const bool ignored = op.targets[row] < 0;
        const std::int64_t valid = ignored ? 0 : op.part.valid_columns;
        const float largest = static_cast<const float*>(op.largest.data)[row];
        double total = 0;
        for (std::int64_t i = threadIdx.x; i < valid; i += blockDim.x)
            total +=
                std::exp(logit_at(op.part, op.logits, row * op.part.columns + i).value - largest);
        total = sum_over_block(total);
        if (threadIdx.x > 0) continue;
        auto* const sums = static_cast<float*>(op.sums.data) + 2 * row;
        const std::int64_t target = column_of(op.part, op.targets[row]);
        sums[0] = ignored ? sum_of_ignored(op.part) : static_cast<float>(total);
        sums[1] = 0;
        if (target >= 0)
            sums[1] = logit_at(op.part, op.logits, row * op.part.columns + target).value - largest;
    }
}

__global__ void loss_kernel(CrossEntropy op) {
    const auto* const sums = static_cast<const float*>(op.sums.data);
    double total = 0;
    for (std::int64_t row = threadIdx.x; row < op.rows; row += blockDim.x)
        total +=
            std::log(static_cast<double>(sums[2 * row])) - static_cast<double>(sums[2 * row + 1]);
    total = sum_over_block(total);
    if (threadIdx.x > 0) return;
    auto& loss = *static_cast<float*>(op.loss.data);
    const double before = op.accumulate ? static_cast<double>(loss) : 0;
    loss = static_cast<float>(before + op.factor * total);
}

__global__ void backward_kernel(CrossEntropyBackward op) {
    const float scale = gradient_scale(op);
    for (std::int64_t row = blockIdx.x; row < op.part.rows; row += gridDim.x) {
        const std::int64_t valid = op.targets[row] < 0 ? 0 : op.part.valid_columns;
        const float largest = static_cast<const float*>(op.largest.data)[row];
        const float share = scale / static_cast<const float*>(op.sums.data)[2 * row];
        const std::int64_t target = column_of(op.part, op.targets[row]);
        for (std::int64_t i = threadIdx.x; i < op.part.columns; i += blockDim.x) {
            const std::int64_t at = row * op.part.columns + i;
            const Capped logit = i < valid ? logit_at(op.part, op.logits, at) : Capped{};
            float gradient = i < valid ? std::exp(logit.value - largest) * share : 0.0F;
            if (i == target) gradient -= scale;
            store(op.logits, at, gradient * logit.slope);
        }
    }
}

}  // namespace

void cross_entropy_max(const CrossEntropyMax& op, cudaStream_t stream) {
    launch("cross_entropy_max", max_kernel, {blocks_for(op.part.rows)}, stream, op);
}

void cross_entropy_sum(const CrossEntropySum& op, cudaStream_t stream) {
    launch("cross_entropy_sum", sum_kernel, {blocks_for(op.part.rows)}, stream, op);
}

void cross_entropy(const CrossEntropy& op, cudaStream_t stream) {
    launch("cross_entropy", loss_kernel, {1}, stream, op);
}

void cross_entropy_backward(const CrossEntropyBackward& op, cudaStream_t stream) {
    launch("cross_entropy_backward", backward_kernel, {blocks_for(op.part.rows)}, stream, op);
}

}  // namespace orrery::runtime::cuda
