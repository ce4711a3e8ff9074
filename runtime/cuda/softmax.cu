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
            return score_of(op.rules, op.mask, load(op.scores, row * keys + key), head, query, key)
                .value;
        };
        const std::int64_t first = first_key_of(op.mask, query);
        const RunningSum before = sum_before_keys(op.rules, head);
        float largest = before.largest;
        for (std::int64_t key = first + threadIdx.x; key <= query; key += blockDim.x)
            largest = Largest{}(largest, score_at(key));
        largest = largest_over_block(largest);
        float sum = 0;
        for (std::int64_t key = first + threadIdx.x; key <= query; key += blockDim.x)
            sum += std::exp(score_at(key) - largest);
        sum = sum_over_block(sum);
        if (op.rules.sinks) sum += std::exp(before.largest - largest);
        for (std::int64_t key = threadIdx.x; key < keys; key += blockDim.x) {
            const float p =
                sees(op.mask, query, key) ? std::exp(score_at(key) - largest) / sum : 0.0F;
            store(op.probabilities, row * keys + key, p);
        }
    }
}

// dscores = p·(dp − Σ dp·p), times the slope of the cap.
__global__ void softmax_backward_kernel(SoftmaxBackward op) {
    const std::int64_t keys = op.shape.sequence;
    const auto cap = static_cast<float>(op.rules.soft_cap);
    for (std::int64_t row = blockIdx.x; row < op.shape.maps() * keys; row += gridDim.x) {
        const std::int64_t at = row * keys;
        float sum = 0;
        for (std::int64_t key = threadIdx.x; key < keys; key += blockDim.x)
            sum += load(op.dprobabilities, at + key) * load(op.probabilities, at + key);
        sum = sum_over_block(sum);
        for (std::int64_t key = threadIdx.x; key < keys; key += blockDim.x) {
            const float slope = cap > 0 ? capped(load(op.scores, at + key), cap).slope : 1.0F;
            const float dscore =
                load(op.probabilities, at + key) * (load(op.dprobabilities, at + key) - sum);
            store(op.dscores, at + key, dscore * slope);
        }
    }
}

// Probability of the sink of row `at` of a map, by that of the likeliest key, whose score is known.
// By the threads of a warp.
__device__ float sink_probability(const SoftmaxBackward& op, std::int64_t at, float sink) {
    const int keys = static_cast<int>(op.shape.sequence);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    float likeliest = 0;
    int key = lane < keys ? lane : 0;
    for (int i = lane; i < keys; i += kWarp) {
        const float p = load(op.probabilities, at + i);
        if (!(p > likeliest)) continue;
        likeliest = p;
        key = i;
    }
    const float largest = over_lanes(likeliest, kWarp, Largest{});
    const int candidate = likeliest == largest ? -key : -keys;
    key = -over_lanes(candidate, kWarp, Largest{});
    const float score =
        capped(load(op.scores, at + key), static_cast<float>(op.rules.soft_cap)).value;
    return largest * std::exp(sink - score);
}

// A block per head, a warp per row: −Σ over rows of the sink's probability times Σ dp·p.
__global__ void map_sink_gradient_kernel(SoftmaxBackward op) {
    const AttentionShape& shape = op.shape;
    const std::int64_t keys = shape.sequence, lane = threadIdx.x % kWarp;
    for (std::int64_t head = blockIdx.x; head < shape.heads; head += gridDim.x) {
        const float sink = load(op.rules.sinks, head);
        float sum = 0;
        for (std::int64_t row = threadIdx.x / kWarp; row < shape.batch * keys;
             row += blockDim.x / kWarp) {
            const std::int64_t map = row / keys * shape.heads + head;
            const std::int64_t at = (map * keys + row % keys) * keys;
            float along = 0;
            for (std::int64_t key = lane; key < keys; key += kWarp)
                along += load(op.dprobabilities, at + key) * load(op.probabilities, at + key);
            along = over_lanes(along, kWarp, Sum{});
            const float p = sink_probability(op, at, sink);
            if (lane == 0) sum -= p * along;
        }
        sum = sum_over_block(sum);
        if (threadIdx.x == 0)
            store(op.dsinks, head, op.accumulate ? load(op.dsinks, head) + sum : sum);
    }
}

}  // namespace

void softmax(const Softmax& op, cudaStream_t stream) {
    check_types({op.scores, op.probabilities, op.rules.sinks});
    launch("softmax", softmax_kernel, {blocks_for(op.shape.maps() * op.shape.sequence)}, stream,
           op);
}

// Gradients of sinks first: dscores may be written over dprobabilities.
void softmax_backward(const SoftmaxBackward& op, cudaStream_t stream) {
    check_types(
        {op.dprobabilities, op.probabilities, op.dscores, op.scores, op.rules.sinks, op.dsinks});
    if (op.rules.sinks)
        launch("softmax_backward of sinks", map_sink_gradient_kernel, {blocks_for(op.shape.heads)},
               stream, op);
    launch("softmax_backward", softmax_backward_kernel,
           {blocks_for(op.shape.maps() * op.shape.sequence)}, stream, op);
}

}  // namespace orrery::runtime::cuda
