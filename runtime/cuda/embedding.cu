// embedding: a block per row. embedding_backward: a block per entry of the table, which looks for
// its rows and adds them up in ascending order, whatever the number of threads.
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {
namespace {

__global__ void embedding_kernel(Embedding op) {
    const auto scale = static_cast<float>(op.scale);
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const std::int64_t entry = op.tokens[row] - op.part.first;
        const bool here = entry >= 0 && entry < op.part.rows;
        for (std::int64_t i = threadIdx.x; i < op.width; i += blockDim.x)
            store(op.y, row * op.width + i,
                  here ? load(op.table, entry * op.width + i) * scale : 0.0F);
    }
}

// Entry of the table that a row looked up.
__device__ std::int64_t entry_of(const EmbeddingBackward& op, std::int64_t row) {
    return op.tokens != nullptr ? op.tokens[row] - op.part.first : op.position_rows.of(row);
}

// Rows that looked an entry up, ascending: as many as there is room for, of the rows [from, end).
struct FoundRows {
    std::int64_t from, end;
    int count;
};
constexpr int kWarps = kThreads / kWarp;
constexpr int kRoom = 1024;

struct FoundSpace {
    std::int64_t rows[kRoom];
    unsigned found_by[kWarps];  // which lanes of each warp have found one
};

// Looks on from row `from`, a row per thread at a time, until the list may not hold what a further
// round finds.
__device__ FoundRows find_rows(const EmbeddingBackward& op, std::int64_t entry, std::int64_t from,
                               FoundSpace& space) {
    const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    FoundRows found{from, from, 0};
    for (; found.end < op.rows && found.count + kThreads <= kRoom; found.end += kThreads) {
        const std::int64_t row = found.end + threadIdx.x;
        const bool mine = row < op.rows && entry_of(op, row) == entry;
        const unsigned lanes = __ballot_sync(kAllLanes, mine);
        if (lane == 0) space.found_by[warp] = lanes;
        __syncthreads();
        int place = found.count + __popc(lanes & ((1U << lane) - 1));
        for (unsigned w = 0; w < kWarps; ++w) {
            const int here = __popc(space.found_by[w]);
            if (w < warp) place += here;
            found.count += here;
        }
        if (mine) space.rows[place] = row;
        __syncthreads();
    }
    return found;
}

__global__ void embedding_backward_kernel(EmbeddingBackward op) {
    auto& space = *reinterpret_cast<FoundSpace*>(shared_memory);
    const auto scale = static_cast<float>(op.scale);
    for (std::int64_t entry = blockIdx.x; entry < op.part.rows; entry += gridDim.x) {
        FoundRows found = find_rows(op, entry, 0, space);
        if (found.count == 0 && found.end >= op.rows && op.accumulate) continue;
        for (std::int64_t corner = 0; corner < op.width; corner += blockDim.x) {
            const std::int64_t column = corner + threadIdx.x;
            float sum = 0;
            if (found.from > 0) found = find_rows(op, entry, 0, space);
            for (;;) {
                for (int i = 0; column < op.width && i < found.count; ++i)
                    sum += load(op.dy, space.rows[i] * op.width + column);
                if (found.end >= op.rows) break;
                __syncthreads();
                found = find_rows(op, entry, found.end, space);
            }
            __syncthreads();
            if (column >= op.width) continue;
            const std::int64_t at = entry * op.width + column;
            sum *= scale;
            store(op.dtable, at, op.accumulate ? sum + load(op.dtable, at) : sum);
        }
    }
}

}  // namespace

void embedding(const Embedding& op, cudaStream_t stream) {
    check_types({op.table, op.y});
    launch("embedding", embedding_kernel, {blocks_for(op.rows)}, stream, op);
}

void embedding_backward(const EmbeddingBackward& op, cudaStream_t stream) {
    check_types({op.dy, op.dtable});
    launch("embedding_backward", embedding_backward_kernel,
           {blocks_for(op.part.rows), kThreads, sizeof(FoundSpace)}, stream, op);
}

}  // namespace orrery::runtime::cuda
