// The kernels of the vocabulary-parallel loss: a block per row of logits; the loss by one
// block.
#include "runtime/cuda/at_once.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/loss_rules.hpp"
#include "runtime/kernels/softmax_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

__device__ Capped capped_logit(const LogitsPart& part, float logit) {
    return capped(logit, static_cast<float>(part.soft_cap));
}

// f(logit) of the row's first `valid` ones, by all threads of the block.
template <int kAtOnce, typename F>
__device__ void for_logits(const LogitsPart& part, const Buffer& logits, std::int64_t row,
                           std::int64_t valid, const F& f) {
    for (std::int64_t i = threadIdx.x * kAtOnce; i < valid; i += blockDim.x * kAtOnce) {
        const Elements<kAtOnce> read = load_at_once<kAtOnce>(logits, row * part.columns + i);
        ORRERY_UNROLLED
        for (int j = 0; j < kAtOnce; ++j)
            if (i + j < valid) f(capped_logit(part, read.of[j]).value);
    }
}

template <int kAtOnce>
__global__ void max_kernel(CrossEntropyMax op) {
    for (std::int64_t row = blockIdx.x; row < op.part.rows; row += gridDim.x) {
        float largest = RunningSum{}.largest;
        for_logits<kAtOnce>(op.part, op.logits, row, op.part.valid_columns,
                            [&](float logit) { largest = Largest{}(largest, logit); });
        largest = largest_over_block(largest);
        if (threadIdx.x == 0) static_cast<float*>(op.largest.data)[row] = largest;
    }
}

// Σ exp(logit − largest), in fp64: a vocabulary is many of them.
struct SumOfRow {
    float largest;
    double total;
};
template <int kAtOnce>
__device__ SumOfRow sum_under(const CrossEntropySum& op, std::int64_t row, bool ignored,
                              float largest) {
    double total = 0;
    for_logits<kAtOnce>(op.part, op.logits, row, ignored ? 0 : op.part.valid_columns,
                        [&](float logit) { total += std::exp(logit - largest); });
    return {largest, sum_over_block(total)};
}

// In one pass: each thread's sum is under the largest logit that it knows by then. An infinite or
// undefined one makes the sum undefined, as in two passes.
template <int kAtOnce>
__device__ SumOfRow sum_and_largest(const CrossEntropySum& op, std::int64_t row) {
    constexpr float kNone = RunningSum{}.largest;
    float largest = kNone;
    double total = 0;
    for_logits<kAtOnce>(op.part, op.logits, row, op.part.valid_columns, [&](float logit) {
        if (logit == kNone) return;
        if (logit > largest) {
            total *= std::exp(largest - logit);
            largest = logit;
        }
        total += std::exp(logit - largest);
    });
    const float of_all = largest_over_block(largest);
    if (largest > kNone) total *= std::exp(largest - of_all);
    return {of_all, sum_over_block(total)};
}

template <int kAtOnce>
__global__ void sum_kernel(CrossEntropySum op) {
    auto* const of_rows = static_cast<float*>(op.largest.data);
    for (std::int64_t row = blockIdx.x; row < op.part.rows; row += gridDim.x) {
        const bool ignored = op.targets[row] < 0;
        const auto [largest, total] = op.finds_largest
                                          ? sum_and_largest<kAtOnce>(op, row)
                                          : sum_under<kAtOnce>(op, row, ignored, of_rows[row]);
        if (threadIdx.x > 0) continue;
        if (op.finds_largest) of_rows[row] = largest;
        auto* const sums = static_cast<float*>(op.sums.data) + 2 * row;
        const std::int64_t target = column_of(op.part, op.targets[row]);
        sums[0] = ignored ? sum_of_ignored(op.part) : static_cast<float>(total);
        sums[1] = 0;
        if (target >= 0)
            sums[1] = capped_logit(op.part, load(op.logits, row * op.part.columns + target)).value -
                      largest;
    }
}

// A thread has a row.
__global__ void join_kernel(CrossEntropyJoin op) {
    const auto* const part_sums = static_cast<const float*>(op.part_sums.data);
    const auto* const part_largest = static_cast<const float*>(op.part_largest.data);
    for (std::int64_t row = first_of_thread(); row < op.rows; row += threads_of_grid()) {
        float largest = part_largest[row];
        for (std::int64_t part = 1; part < op.parts; ++part)
            largest = Largest{}(largest, part_largest[part * op.rows + row]);
        const std::int32_t target = op.targets[row];
        double total = 0;
        float of_target = 0;
        for (std::int64_t part = 0; part < op.parts; ++part) {
            const std::int64_t at = part * op.rows + row;
            const double below =
                static_cast<double>(part_largest[at]) - static_cast<double>(largest);
            total += static_cast<double>(part_sums[2 * at]) * std::exp(below);
            if (target / op.width == part)
                of_target = static_cast<float>(static_cast<double>(part_sums[2 * at + 1]) + below);
        }
        auto* const sums = static_cast<float*>(op.sums.data) + 2 * row;
        sums[0] = target < 0 ? 1.0F : static_cast<float>(total);
        sums[1] = target < 0 ? 0.0F : of_target;
        static_cast<float*>(op.largest.data)[row] = largest;
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

template <int kAtOnce>
__global__ void backward_kernel(CrossEntropyBackward op) {
    const float scale = gradient_scale(op);
    for (std::int64_t row = blockIdx.x; row < op.part.rows; row += gridDim.x) {
        const std::int64_t valid = op.targets[row] < 0 ? 0 : op.part.valid_columns;
        const float largest = static_cast<const float*>(op.largest.data)[row];
        const float share = scale / static_cast<const float*>(op.sums.data)[2 * row];
        const std::int64_t target = column_of(op.part, op.targets[row]);
        for (std::int64_t i = threadIdx.x * kAtOnce; i < op.part.columns;
             i += blockDim.x * kAtOnce) {
            Elements<kAtOnce> at = load_at_once<kAtOnce>(op.logits, row * op.part.columns + i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j) {
                const bool counts = i + j < valid;
                const Capped logit = counts ? capped_logit(op.part, at.of[j]) : Capped{};
                float gradient = counts ? std::exp(logit.value - largest) * share : 0.0F;
                if (i + j == target) gradient -= scale;
                at.of[j] = gradient * logit.slope;
            }
            store_at_once<kAtOnce>(op.logits, row * op.part.columns + i, at);
        }
    }
}

template <int kAtOnce>
__global__ void rescale_kernel(CrossEntropyRescale op) {
    const auto* const sums = static_cast<const float*>(op.sums.data);
    for (std::int64_t row = blockIdx.x; row < op.part.rows; row += gridDim.x) {
        const float largest = static_cast<const float*>(op.largest.data)[row];
        const float below = static_cast<const float*>(op.part_largest.data)[row] - largest;
        const float share =
            static_cast<const float*>(op.part_sums.data)[2 * row] * std::exp(below) / sums[2 * row];
        float of_target = (1 - share) * gradient_scale(op);
        if (op.part.soft_cap > 0) {
            const float tanh = (largest + sums[2 * row + 1]) / static_cast<float>(op.part.soft_cap);
            of_target *= 1 - tanh * tanh;
        }
        const std::int64_t target = column_of(op.part, op.targets[row]);
        for (std::int64_t i = threadIdx.x * kAtOnce; i < op.part.columns;
             i += blockDim.x * kAtOnce) {
            Elements<kAtOnce> at = load_at_once<kAtOnce>(op.dlogits, row * op.part.columns + i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j)
                at.of[j] = share * at.of[j] - (i + j == target ? of_target : 0.0F);
            store_at_once<kAtOnce>(op.dlogits, row * op.part.columns + i, at);
        }
        for (std::int64_t i = threadIdx.x; i < op.hidden; i += blockDim.x) {
            const std::int64_t at = row * op.hidden + i;
            store(op.dx, at, share * load(op.part_dx, at) - of_target * load(op.words, at));
        }
    }
}

}  // namespace

void cross_entropy_max(const CrossEntropyMax& op, cudaStream_t stream) {
    check_types({op.logits, op.largest});
    with_at_once(op.part.columns, {op.logits}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("cross_entropy_max", max_kernel<kAtOnce>,
               rows_grid<kAtOnce>(op.part.rows, op.part.columns), stream, op);
    });
}

void cross_entropy_sum(const CrossEntropySum& op, cudaStream_t stream) {
    check_types({op.logits, op.largest, op.sums});
    with_at_once(op.part.columns, {op.logits}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("cross_entropy_sum", sum_kernel<kAtOnce>,
               rows_grid<kAtOnce>(op.part.rows, op.part.columns), stream, op);
    });
}

void cross_entropy_join(const CrossEntropyJoin& op, cudaStream_t stream) {
    check_types({op.part_sums, op.part_largest, op.sums, op.largest});
    launch("cross_entropy_join", join_kernel, {blocks_of_threads(op.rows)}, stream, op);
}

void cross_entropy(const CrossEntropy& op, cudaStream_t stream) {
    check_types({op.sums, op.loss});
    launch("cross_entropy", loss_kernel, {1}, stream, op);
}

void cross_entropy_backward(const CrossEntropyBackward& op, cudaStream_t stream) {
    check_types({op.largest, op.sums, op.logits});
    with_at_once(op.part.columns, {op.logits}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("cross_entropy_backward", backward_kernel<kAtOnce>,
               rows_grid<kAtOnce>(op.part.rows, op.part.columns), stream, op);
    });
}

void cross_entropy_rescale(const CrossEntropyRescale& op, cudaStream_t stream) {
    check_types({op.part_sums, op.part_largest, op.sums, op.largest, op.part_dx, op.words,
                 op.dlogits, op.dx});
    with_at_once(op.part.columns, {op.dlogits}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("cross_entropy_rescale", rescale_kernel<kAtOnce>,
               rows_grid<kAtOnce>(op.part.rows, op.part.columns), stream, op);
    });
}

}  // namespace orrery::runtime::cuda
