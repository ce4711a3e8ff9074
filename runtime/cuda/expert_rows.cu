// permute, unpermute, group_rows, spread_rows, spread_weights: rows on their way to experts and
// back. A block per row, or several for a run of rows; results are summed in the order of choices.
#include "runtime/cuda/choice_order.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {
namespace {

__global__ void order_kernel(const std::int32_t* choice, std::int64_t choices, std::int64_t first,
                             std::int64_t capacity, ChoiceOrder order) {
    __shared__ int of_warp[kWarps];
    const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    for (std::int64_t expert = blockIdx.x; expert < order.experts; expert += gridDim.x) {
        int before = 0;
        for (std::int64_t i = threadIdx.x; i < choices; i += blockDim.x) {
            const std::int64_t local = choice[i] - first;
            if (choice[i] >= 0 && local >= 0 && local < expert) ++before;
            if (expert == 0 && (choice[i] < 0 || local < 0 || local >= order.experts))
                order.places[i] = -1;
        }
        before = sum_over_block(before);
        const auto start = static_cast<int>(capacity > 0 ? expert * capacity : before);
        int next = start;
        for (std::int64_t from = 0; from < choices; from += blockDim.x) {
            const std::int64_t i = from + threadIdx.x;
            const bool own = i < choices && choice[i] == first + expert;
            const unsigned lanes = __ballot_sync(kAllLanes, own);
            if (lane == 0) of_warp[warp] = __popc(lanes);
            __syncthreads();
            int place = next, taken = 0;
            for (unsigned w = 0; w < blockDim.x / kWarp; ++w) {
                if (w < warp) place += of_warp[w];
                taken += of_warp[w];
            }
            if (own) order.places[i] = place + __popc(lanes & ((1U << lane) - 1));
            next += taken;
            __syncthreads();
        }
        if (threadIdx.x > 0) continue;
        order.starts[expert] = start;
        order.ends[expert] = next;
        if (expert + 1 == order.experts)
            order.starts[expert + 1] =
                static_cast<int>(capacity > 0 ? order.experts * capacity : next);
    }
}

template <typename Word>
__device__ void copy_words(const void* from, void* to, std::int64_t words, std::int64_t first,
                           std::int64_t step) {
    for (std::int64_t i = first; i < words; i += step)
        static_cast<Word*>(to)[i] = static_cast<const Word*>(from)[i];
}

struct __align__(16) Words {
    std::uint64_t low, high;
};

// Shared out over the threads that have numbers [first, first + step, …).
__device__ void copy_bytes(const void* from, void* to, std::int64_t bytes, std::int64_t first,
                           std::int64_t step) {
    const auto address = reinterpret_cast<std::uintptr_t>(from) |
                         reinterpret_cast<std::uintptr_t>(to) | static_cast<std::uintptr_t>(bytes);
    if (address % sizeof(Words) == 0)
        copy_words<Words>(from, to, bytes / static_cast<std::int64_t>(sizeof(Words)), first, step);
    else if (address % 4 == 0)
        copy_words<std::uint32_t>(from, to, bytes / 4, first, step);
    else
        copy_words<std::uint16_t>(from, to, bytes / 2, first, step);
}

__device__ std::byte* at_byte(const Buffer& buffer, std::int64_t byte) {
    return static_cast<std::byte*>(buffer.data) + byte;
}

// Each choice's row to its place; `bytes` of a row.
__global__ void permute_kernel(Permute op, std::int64_t bytes, ChoiceOrder order) {
    for (std::int64_t i = blockIdx.x; i < op.rows * op.chosen; i += gridDim.x) {
        const std::int64_t place = order.place(i);
        if (place < 0) continue;
        copy_bytes(at_byte(op.x, i / op.chosen * bytes), at_byte(op.y, place * bytes), bytes,
                   threadIdx.x, blockDim.x);
        if (op.weights.data != nullptr && threadIdx.x == 0)
            store(op.permuted_weights, place, load(op.weights, i));
    }
}

// Places that nobody took.
__global__ void clear_kernel(Permute op, ChoiceOrder order) {
    for (std::int64_t expert = blockIdx.x; expert < order.experts; expert += gridDim.x) {
        const std::int64_t begin = order.ends[expert], end = order.starts[expert + 1];
        for (std::int64_t i = threadIdx.x; i < (end - begin) * op.width; i += blockDim.x)
            store(op.y, begin * op.width + i, 0);
        if (op.weights.data == nullptr) continue;
        for (std::int64_t i = threadIdx.x; i < end - begin; i += blockDim.x)
            store(op.permuted_weights, begin + i, 0);
    }
}

__global__ void unpermute_kernel(Unpermute op, ChoiceOrder order) {
    auto* const from = reinterpret_cast<std::int64_t*>(shared_memory);  // [chosen·split]
    const std::int64_t split = op.places.split, local = op.places.local();
    const std::int64_t parts = op.chosen * split;
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        for (std::int64_t part = threadIdx.x; part < parts; part += blockDim.x) {
            const std::int64_t choice = row * op.chosen + part / split;
            const std::int64_t place = order.place(choice);
            from[part] = -1;
            if (place < 0) continue;
            const std::int64_t first = op.choice[choice] / local * local;
            const std::int64_t start = order.starts[first];
            const std::int64_t rows = order.starts[first + local] - start;
            from[part] = start * split + part % split * rows + place - start;
        }
        __syncthreads();
        for (std::int64_t column = threadIdx.x; column < op.width; column += blockDim.x) {
            float sum = 0;
            for (std::int64_t part = 0; part < parts; ++part)
                if (from[part] >= 0) sum += load(op.returned, from[part] * op.width + column);
            store(op.y, row * op.width + column, sum);
        }
        if (op.returned_dweights.data != nullptr)
            for (std::int64_t i = threadIdx.x; i < op.chosen; i += blockDim.x) {
                float sum = 0;
                for (std::int64_t share = 0; share < split; ++share)
                    if (from[i * split + share] >= 0)
                        sum += load(op.returned_dweights, from[i * split + share]);
                store(op.dweights, row * op.chosen + i, sum);
            }
        __syncthreads();
    }
}

// Blocks that copy one run of rows together.
constexpr int kSlices = 4;

// A run is what one member has sent to one expert: in a row both by member and by expert.
__global__ void group_rows_kernel(GroupRows op, std::int64_t bytes) {
    const ExpertPlaces& places = op.places;
    const std::int64_t local = places.local(), first = places.first_of(places.member);
    const std::int64_t runs = places.ranks * local;
    for (std::int64_t piece = blockIdx.x; piece < runs * kSlices; piece += gridDim.x) {
        const std::int64_t member = piece / kSlices / local, own = piece / kSlices % local;
        int by_member = 0, by_expert = 0;
        for (std::int64_t i = threadIdx.x; i < runs; i += blockDim.x) {
            const std::int64_t from = i / local, expert = i % local;
            const auto rows = static_cast<int>(places.count(from, first + expert));
            if (from < member || (from == member && expert < own)) by_member += rows;
            if (expert < own || (expert == own && from < member)) by_expert += rows;
        }
        by_member = sum_over_block(by_member);
        by_expert = sum_over_block(by_expert);
        const std::int64_t rows = places.count(member, first + own);
        copy_bytes(at_byte(op.x, bytes * (op.apart ? by_expert : by_member)),
                   at_byte(op.y, bytes * (op.apart ? by_member : by_expert)), rows * bytes,
                   piece % kSlices * blockDim.x + threadIdx.x, std::int64_t{kSlices} * blockDim.x);
    }
}

__global__ void spread_kernel(SpreadRows op, std::int64_t bytes, ChoiceOrder order) {
    for (std::int64_t i = blockIdx.x; i < op.copies * op.chosen; i += gridDim.x) {
        const std::int64_t place = order.place(i);
        if (place < 0) continue;
        copy_bytes(at_byte(op.x, i / op.chosen * bytes), at_byte(op.y, place * bytes), bytes,
                   threadIdx.x, blockDim.x);
    }
}

__global__ void sum_spread_kernel(SpreadRows op, ChoiceOrder order) {
    for (std::int64_t copy = blockIdx.x; copy < op.copies; copy += gridDim.x)
        for (std::int64_t column = threadIdx.x; column < op.width; column += blockDim.x) {
            float sum = 0;
            for (std::int64_t i = copy * op.chosen; i < (copy + 1) * op.chosen; ++i)
                if (const std::int64_t place = order.place(i); place >= 0)
                    sum += load(op.x, place * op.width + column);
            store(op.y, copy * op.width + column, sum);
        }
}

__global__ void spread_weights_kernel(SpreadWeights op, ChoiceOrder order) {
    for (std::int64_t i = first_of_thread(); i < op.copies * op.chosen; i += threads_of_grid()) {
        const std::int64_t place = order.place(i);
        if (op.apart)
            store(op.y, i, place < 0 ? 0.0F : load(op.x, place));
        else if (place >= 0)
            store(op.y, place, load(op.x, i));
    }
}

template <typename Spread>
ChoiceOrder order_of(const Spread& op, ScratchMemory& memory, cudaStream_t stream) {
    return order_choices(op.choice, op.copies * op.chosen, op.places.first_of(op.places.member),
                         op.places.local(), 0, 0, memory, stream)
        .order;
}

}  // namespace

OrderedChoices order_choices(const std::int32_t* choice, std::int64_t choices, std::int64_t first,
                             std::int64_t experts, std::int64_t capacity, std::int64_t more,
                             ScratchMemory& memory, cudaStream_t stream) {
    std::int32_t* const numbers = memory.numbers<std::int32_t>(choices + 2 * experts + 1 + more);
    OrderedChoices made;
    made.order = {experts, numbers, numbers + choices, numbers + choices + experts + 1};
    made.more = numbers + choices + 2 * experts + 1;
    launch("order of choices", order_kernel, {blocks_for(experts)}, stream, choice, choices, first,
           capacity, made.order);
    return made;
}

void permute(const Permute& op, ScratchMemory& memory, cudaStream_t stream) {
    // Rows are copied whatever they are: choices, too.
    check_types({op.weights, op.permuted_weights});
    ORRERY_CHECK(op.x.dtype == op.y.dtype, "rows that are copied keep their type");
    if (op.capacity > 0) check_types({op.y});
    const ChoiceOrder order =
        order_choices(op.choice, op.rows * op.chosen, 0, op.experts, op.capacity, 0, memory, stream)
            .order;
    launch("permute", permute_kernel, {blocks_for(op.rows * op.chosen)}, stream, op,
           op.width * plan::size_bytes(op.x.dtype), order);
    if (op.capacity > 0)
        launch("permute of none", clear_kernel, {blocks_for(op.experts)}, stream, op, order);
}

void unpermute(const Unpermute& op, ScratchMemory& memory, cudaStream_t stream) {
    check_types({op.returned, op.returned_dweights, op.y, op.dweights});
    const ChoiceOrder order = order_choices(op.choice, op.rows * op.chosen, 0, op.places.experts,
                                            op.capacity, 0, memory, stream)
                                  .order;
    const auto shared = static_cast<std::size_t>(op.chosen * op.places.split);
    launch("unpermute", unpermute_kernel,
           {blocks_for(op.rows), kThreads, shared * sizeof(std::int64_t)}, stream, op, order);
}

void group_rows(const GroupRows& op, cudaStream_t stream) {
    ORRERY_CHECK(op.x.dtype == op.y.dtype, "rows that are copied keep their type");
    launch("group_rows", group_rows_kernel,
           {blocks_for(op.places.ranks * op.places.local() * kSlices)}, stream, op,
           op.width * plan::size_bytes(op.x.dtype));
}

void spread_rows(const SpreadRows& op, ScratchMemory& memory, cudaStream_t stream) {
    check_types({op.x, op.y});
    const ChoiceOrder order = order_of(op, memory, stream);
    if (op.apart)
        launch("spread_rows back", sum_spread_kernel, {blocks_for(op.copies)}, stream, op, order);
    else
        launch("spread_rows", spread_kernel, {blocks_for(op.copies * op.chosen)}, stream, op,
               op.width * plan::size_bytes(op.x.dtype), order);
}

void spread_weights(const SpreadWeights& op, ScratchMemory& memory, cudaStream_t stream) {
    check_types({op.x, op.y});
    const ChoiceOrder order = order_of(op, memory, stream);
    launch("spread_weights", spread_weights_kernel, {blocks_of_threads(op.copies * op.chosen)},
           stream, op, order);
}

}  // namespace orrery::runtime::cuda
