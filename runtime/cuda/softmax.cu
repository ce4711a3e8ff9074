// softmax and softmax_backward of unfused attention: a block per row of a map.
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/attention_rules.hpp"
#include "runtime/kernels/elements.hpp"
#include "runtime/kernels/softmax_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// Scores are last read by the thread that writes there, after all threads have read them (the sum
// waits for them all): probabilities may lie where the scores do.
__global__ void softmax_kernel(Softmax op) {
    const std::int64_t keys = op.shape.sequence;
    for (std::int64_t row = blockIdx.x; row < op.shape.maps() * keys; row += gridDim.x) {
        const std::int64_t query = row % keys, head = row / keys % op.shape.heads;
        const auto score_at = [&](std::int64_t key) {
            return load(op.scores, row * keys + key) + slope_term(op.mask, head, query, key);
        };
        const std::int64_t first = first_key_of(op.mask, query);
        float largest = RunningSum{}.largest;
        for (std::int64_t key = first + threadIdx.x; key <= query; key += blockDim.x)
            largest = Largest{}(largest, score_at(key));
        largest = largest_over_block(largest);
        float sum = 0;
        for (std::int64_t key = first + threadIdx.x; key <= query; key += blockDim.x)
            sum += std::exp(score_at(key) - largest);
        sum = sum_over_block(sum);
        for (std::int64_t key = threadIdx.x; key < keys; key += blockDim.x) {
            const float p =
                sees(op.mask, query, key) ? std::exp(score_at(key) - largest) / sum : 0.0F;
            store(op.probabilities, row * keys + key, p);
        }
    }
}

// dscores = p·(dp − Σ dp·p).
__global__ void softmax_backward_kernel(SoftmaxBackward op) {
    const std::int64_t keys = op.shape.sequence;
    for (std::int64_t row = blockIdx.x; row < op.shape.maps() * keys; row += gridDim.x) {
        const std::int64_t at = row * keys;
        float sum = 0;
        for (std::int64_t key = threadIdx.x; key < keys; key += blockDim.x)
            sum += load(op.dprobabilities, at + key) * load(op.probabilities, at + key);
        sum = sum_over_block(sum);
        for (std::int64_t key = threadIdx.x; key < keys; key += blockDim.x)
            store(op.dscores, at + key,
                  load(op.probabilities, at + key) * (load(op.dprobabilities, at + key) - sum));
    }
}

}  // namespace

void softmax(const Softmax& op, cudaStream_t stream) {
    launch("softmax", softmax_kernel, {blocks_for(op.shape.maps() * op.shape.sequence)}, stream,
           op);
}

void softmax_backward(const SoftmaxBackward& op, cudaStream_t stream) {
    launch("softmax_backward", softmax_backward_kernel,
           {blocks_for(op.shape.maps() * op.shape.sequence)}, stream, op);
}

}  // namespace orrery::runtime::cuda
