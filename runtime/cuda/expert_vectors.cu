// expert_activation, expert_bias, weigh_rows, gate_rows, and their backward: a block per row;
// sum_sources: a thread per element. How
// many rows are in use, and whose they are, each block finds from the counts.
#include "runtime/cuda/at_once.cuh"
#include "runtime/cuda/column_sums.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/activation_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// The first row of each local expert, then the end of all, [local + 1] in shared memory.
__device__ const std::int64_t* row_ends(const ExpertPlaces& places) {
    auto* const ends = reinterpret_cast<std::int64_t*>(shared_memory);
    const std::int64_t local = places.local(), first = places.first_of(places.member);
    for (std::int64_t i = threadIdx.x; i < local; i += blockDim.x)
        ends[i + 1] = places.rows_of(first + i);
    __syncthreads();
    if (threadIdx.x == 0) {
        ends[0] = 0;
        for (std::int64_t i = 0; i < local; ++i)
            ends[i + 1] += ends[i];
    }
    __syncthreads();
    return ends;
}

// The host knows how many rows there may be, and each block finds how many there are.
Grid grid_for(const ExpertPlaces& places) {
    return {blocks_for(places.room), kThreads,
            static_cast<std::size_t>(places.local() + 1) * sizeof(std::int64_t)};
}

__device__ std::int64_t expert_of(const std::int64_t* ends, std::int64_t row) {
    std::int64_t expert = 0;
    while (ends[expert + 1] <= row)
        ++expert;
    return expert;
}

template <int kAtOnce>
__global__ void expert_activation_kernel(ExpertActivation op) {
    const bool gated = is_gated(op.form);
    const auto limit = static_cast<float>(op.limit);
    const std::int64_t rows = row_ends(op.places)[op.places.local()];
    for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const std::int64_t from = row * (gated ? 2 * op.width : op.width);
        const float weight = op.weights.data != nullptr ? load(op.weights, row) : 1.0F;
        for (std::int64_t i = threadIdx.x * kAtOnce; i < op.width; i += blockDim.x * kAtOnce) {
            Elements<kAtOnce> x = load_at_once<kAtOnce>(op.x, from + i), up{};
            if (gated) up = load_at_once<kAtOnce>(op.x, from + op.width + i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j) {
                float y = curve_at(op.form, x.of[j], limit).value;
                if (gated) y *= factor_at(op.form, up.of[j], limit).value;
                x.of[j] = y * weight;
            }
            store_at_once<kAtOnce>(op.y, row * op.width + i, x);
        }
    }
}

template <int kAtOnce>
__global__ void expert_activation_backward_kernel(ExpertActivationBackward op) {
    const bool gated = is_gated(op.form), weighs = op.weights.data != nullptr;
    const auto limit = static_cast<float>(op.limit);
    const std::int64_t rows = row_ends(op.places)[op.places.local()];
    for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const std::int64_t from = row * (gated ? 2 * op.width : op.width);
        const float weight = weighs ? load(op.weights, row) : 1.0F;
        float along = 0;
        for (std::int64_t i = threadIdx.x * kAtOnce; i < op.width; i += blockDim.x * kAtOnce) {
            Elements<kAtOnce> x = load_at_once<kAtOnce>(op.x, from + i), up{};
            const Elements<kAtOnce> dy = load_at_once<kAtOnce>(op.dy, row * op.width + i);
            if (gated) up = load_at_once<kAtOnce>(op.x, from + op.width + i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j) {
                const CurvePoint curve = curve_at(op.form, x.of[j], limit);
                const CurvePoint factor =
                    gated ? factor_at(op.form, up.of[j], limit) : CurvePoint{1, 0};
                along += dy.of[j] * (curve.value * factor.value);
                x.of[j] = curve.slope * factor.value * (dy.of[j] * weight);
                up.of[j] = curve.value * factor.slope * (dy.of[j] * weight);
            }
            store_at_once<kAtOnce>(op.dx, from + i, x);
            if (gated) store_at_once<kAtOnce>(op.dx, from + op.width + i, up);
        }
        if (!weighs) continue;
        along = sum_over_block(along);
        if (threadIdx.x == 0) store(op.dweights, row, along);
    }
}

ORRERY_HOST_DEVICE std::int64_t bias_sums(const ExpertBiasBackward& op) {
    return op.places.local() * (op.by_source ? op.places.ranks : 1);
}

__global__ void expert_bias_kernel(ExpertBias op) {
    const std::int64_t* const ends = row_ends(op.places);
    for (std::int64_t row = blockIdx.x; row < ends[op.places.local()]; row += gridDim.x) {
        const std::int64_t bias = expert_of(ends, row) * op.width;
        const float weight = op.weights.data != nullptr ? load(op.weights, row) : 1.0F;
        for (std::int64_t i = threadIdx.x; i < op.width; i += blockDim.x)
            store(op.y, row * op.width + i,
                  load(op.x, row * op.width + i) + weight * load(op.biases, bias + i));
    }
}

// Over the rows of one expert at a time; by source, over those of one rank.
template <int kAtOnce>
__global__ void __launch_bounds__(kSumThreads<kAtOnce>)
    expert_bias_gradient_kernel(ExpertBiasBackward op) {
    const std::int64_t* const ends = row_ends(op.places);
    const std::int64_t groups = column_groups<kAtOnce>(op.width), local = op.places.local();
    for (std::int64_t piece = blockIdx.x; piece < bias_sums(op) * groups; piece += gridDim.x) {
        const std::int64_t sum_number = piece / groups;
        const std::int64_t source = sum_number / local, i = sum_number % local;
        std::int64_t begin = ends[i], end = ends[i + 1];
        if (op.by_source) {
            const std::int64_t expert = op.places.first_of(op.places.member) + i;
            begin += op.places.rows_before(source, expert);
            end = begin + op.places.count(source, expert);
        }
        sum_group<kAtOnce>(
            begin, end, piece % groups, op.width,
            [&](std::int64_t row, std::int64_t first) {
                const float weight = op.weights.data != nullptr ? load(op.weights, row) : 1.0F;
                Elements<kAtOnce> term = load_at_once<kAtOnce>(op.dy, row * op.width + first);
                ORRERY_UNROLLED
                for (int j = 0; j < kAtOnce; ++j)
                    term.of[j] *= weight;
                return term;
            },
            [&](std::int64_t column, float sum) {
                ToColumn{op.dbiases, op.accumulate}(sum_number * op.width + column, sum);
            });
    }
}

__global__ void expert_bias_weight_gradient_kernel(ExpertBiasBackward op) {
    const std::int64_t* const ends = row_ends(op.places);
    for (std::int64_t row = blockIdx.x; row < ends[op.places.local()]; row += gridDim.x) {
        const std::int64_t bias = expert_of(ends, row) * op.width;
        float along = 0;
        for (std::int64_t i = threadIdx.x; i < op.width; i += blockDim.x)
            along += load(op.dy, row * op.width + i) * load(op.biases, bias + i);
        along = sum_over_block(along);
        if (threadIdx.x == 0) store(op.dweights, row, along);
    }
}

// A sum of 2^i addends waits in place i for the next one: a running sum joins all that stand before
// it, so that the last addend, of a power of two, ends with the sum of all.
constexpr int kPairs = 16;

__global__ void sum_sources_kernel(SumSources op) {
    for (std::int64_t i = first_of_thread(); i < op.elements; i += threads_of_grid()) {
        float waiting[kPairs], sum = 0;
        for (std::int64_t source = 0; source < op.sources; ++source) {
            sum = load(op.x, source * op.elements + i);
            bool joins = true;
            ORRERY_UNROLLED
            for (int pair = 0; pair < kPairs; ++pair) {
                if (!joins) continue;
                joins = (source >> pair & 1) != 0;
                if (joins)
                    sum = waiting[pair] + sum;
                else
                    waiting[pair] = sum;
            }
        }
        store(op.y, i, sum);
    }
}

// y = weight·x of a row.
__device__ void weigh_row(const Buffer& x, const Buffer& y, std::int64_t row, std::int64_t width,
                          float weight) {
    for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x)
        store(y, row * width + i, load(x, row * width + i) * weight);
}

// dx = weight·dy; Σ dy·x for every thread of the block. dx may be dy.
__device__ float weigh_row_backward(const Buffer& dy, const Buffer& x, const Buffer& dx,
                                    std::int64_t row, std::int64_t width, float weight) {
    float along = 0;
    for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        const float gradient = load(dy, row * width + i);
        along += gradient * load(x, row * width + i);
        store(dx, row * width + i, gradient * weight);
    }
    return sum_over_block(along);
}

__global__ void weigh_rows_kernel(WeighRows op) {
    const std::int64_t rows = row_ends(op.places)[op.places.local()];
    for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x)
        weigh_row(op.x, op.y, row, op.width, load(op.weights, row));
}

__global__ void weigh_rows_backward_kernel(WeighRowsBackward op) {
    const std::int64_t rows = row_ends(op.places)[op.places.local()];
    for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const float along =
            weigh_row_backward(op.dy, op.x, op.dx, row, op.width, load(op.weights, row));
        if (threadIdx.x == 0) store(op.dweights, row, along);
    }
}

__device__ float gate_at(const Buffer& logits, std::int64_t row) {
    return 1 / (1 + std::exp(-load(logits, row)));
}

__global__ void gate_rows_kernel(GateRows op) {
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x)
        weigh_row(op.x, op.y, row, op.width, gate_at(op.logits, row));
}

__global__ void gate_rows_backward_kernel(GateRowsBackward op) {
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const float gate = gate_at(op.logits, row);
        const float along = weigh_row_backward(op.dy, op.x, op.dx, row, op.width, gate);
        if (threadIdx.x == 0) store(op.dlogits, row, along * gate * (1 - gate));
    }
}

}  // namespace

void expert_activation(const ExpertActivation& op, cudaStream_t stream) {
    check_types({op.x, op.weights, op.y});
    with_at_once(op.width, {op.x, op.y}, [&](auto at_once) {
        launch("expert_activation", expert_activation_kernel<decltype(at_once)::value>,
               grid_for(op.places), stream, op);
    });
}

void expert_activation_backward(const ExpertActivationBackward& op, cudaStream_t stream) {
    check_types({op.dy, op.x, op.weights, op.dx, op.dweights});
    with_at_once(op.width, {op.dy, op.x, op.dx}, [&](auto at_once) {
        launch("expert_activation_backward",
               expert_activation_backward_kernel<decltype(at_once)::value>, grid_for(op.places),
               stream, op);
    });
}

void expert_bias(const ExpertBias& op, cudaStream_t stream) {
    check_types({op.x, op.biases, op.weights, op.y});
    launch("expert_bias", expert_bias_kernel, grid_for(op.places), stream, op);
}

void expert_bias_backward(const ExpertBiasBackward& op, cudaStream_t stream) {
    check_types({op.dy, op.weights, op.biases, op.dbiases, op.dweights});
    with_at_once(op.width, {op.dy}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        Grid grid = grid_for(op.places);  // for its shared memory
        grid.blocks = blocks_for(bias_sums(op) * column_groups<kAtOnce>(op.width));
        grid.threads = kSumThreads<kAtOnce>;
        launch("expert_bias_backward", expert_bias_gradient_kernel<kAtOnce>, grid, stream, op);
    });
    if (op.weights)
        launch("expert_bias_backward of weights", expert_bias_weight_gradient_kernel,
               grid_for(op.places), stream, op);
}

void sum_sources(const SumSources& op, cudaStream_t stream) {
    check_types({op.x, op.y});
    launch("sum_sources", sum_sources_kernel, {blocks_of_threads(op.elements)}, stream, op);
}

void weigh_rows(const WeighRows& op, cudaStream_t stream) {
    check_types({op.x, op.weights, op.y});
    launch("weigh_rows", weigh_rows_kernel, grid_for(op.places), stream, op);
}

void weigh_rows_backward(const WeighRowsBackward& op, cudaStream_t stream) {
    check_types({op.dy, op.x, op.weights, op.dx, op.dweights});
    launch("weigh_rows_backward", weigh_rows_backward_kernel, grid_for(op.places), stream, op);
}

void gate_rows(const GateRows& op, cudaStream_t stream) {
    check_types({op.x, op.logits, op.y});
    launch("gate_rows", gate_rows_kernel, {blocks_for(op.rows)}, stream, op);
}

void gate_rows_backward(const GateRowsBackward& op, cudaStream_t stream) {
    check_types({op.dy, op.x, op.logits, op.dx, op.dlogits});
    launch("gate_rows_backward", gate_rows_backward_kernel, {blocks_for(op.rows)}, stream, op);
}

}  // namespace orrery::runtime::cuda
