// embedding: a block per row. embedding_backward: a block per entry of the table, which adds up its
// rows in ascending order, whatever the number of threads. Where tokens say the entries, rows are
// listed by entry first: to look through all rows for each of 128,000 entries takes longer than to
// read the gradient.
#include <limits>

#include "runtime/cuda/at_once.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/cuda/scratch_memory.hpp"

namespace orrery::runtime::cuda {
namespace {

template <int kAtOnce>
__global__ void embedding_kernel(Embedding op) {
    const auto scale = static_cast<float>(op.scale);
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const std::int64_t entry = op.tokens[row] - op.part.first;
        const bool here = entry >= 0 && entry < op.part.rows;
        for (std::int64_t i = threadIdx.x * kAtOnce; i < op.width; i += blockDim.x * kAtOnce) {
            Elements<kAtOnce> y{};
            if (here) y = load_at_once<kAtOnce>(op.table, entry * op.width + i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j)
                y.of[j] *= scale;
            store_at_once<kAtOnce>(op.y, row * op.width + i, y);
        }
    }
}

// The rows of each entry: of entry e they stand in rows from ends[e] − counts[e] to ends[e], in no
// order. The lists of entries follow each other in no order either.
struct RowLists {
    std::int32_t* counts = nullptr;  // [entries]
    std::int32_t* taken = nullptr;   // of rows, by all entries; after the counts
    std::int32_t* ends = nullptr;    // [entries]
    std::int32_t* rows = nullptr;    // null: nothing is listed
};

__global__ void clear_lists_kernel(RowLists lists, std::int64_t entries) {
    for (std::int64_t i = first_of_thread(); i <= entries; i += threads_of_grid())
        lists.counts[i] = 0;
}

// f(row, entry) for rows of entries that are here.
template <typename F>
__device__ void with_each_token(const EmbeddingBackward& op, const F& f) {
    for (std::int64_t row = first_of_thread(); row < op.rows; row += threads_of_grid()) {
        const std::int64_t entry = op.tokens[row] - op.part.first;
        if (entry >= 0 && entry < op.part.rows) f(row, entry);
    }
}
__global__ void count_rows_kernel(EmbeddingBackward op, RowLists lists) {
    with_each_token(op, [&](std::int64_t, std::int64_t entry) {
        atomicAdd(lists.counts + entry, std::int32_t{1});
    });
}
__global__ void place_lists_kernel(RowLists lists, std::int64_t entries) {
    for (std::int64_t i = first_of_thread(); i < entries; i += threads_of_grid())
        if (const std::int32_t count = lists.counts[i])
            lists.ends[i] = atomicAdd(lists.taken, count);
}
__global__ void list_rows_kernel(EmbeddingBackward op, RowLists lists) {
    with_each_token(op, [&](std::int64_t row, std::int64_t entry) {
        lists.rows[atomicAdd(lists.ends + entry, std::int32_t{1})] = static_cast<std::int32_t>(row);
    });
}

RowLists list_rows(const EmbeddingBackward& op, ScratchMemory& scratch, cudaStream_t stream) {
    ORRERY_CHECK(op.rows < std::numeric_limits<std::int32_t>::max(), "rows are listed by 32 bits");
    const std::int64_t entries = op.part.rows;
    RowLists lists;
    lists.counts = scratch.numbers<std::int32_t>(2 * entries + 1 + op.rows);
    lists.taken = lists.counts + entries;
    lists.ends = lists.taken + 1;
    lists.rows = lists.ends + entries;
    const Grid of_entries{blocks_of_threads(entries)}, of_rows{blocks_of_threads(op.rows)};
    launch("lists of rows, cleared", clear_lists_kernel, of_entries, stream, lists, entries);
    launch("lists of rows, counted", count_rows_kernel, of_rows, stream, op, lists);
    launch("lists of rows, placed", place_lists_kernel, of_entries, stream, lists, entries);
    launch("lists of rows", list_rows_kernel, of_rows, stream, op, lists);
    return lists;
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

// All rows of an entry that has a list with room for it, each put where it belongs by how many are
// before it.
__device__ FoundRows sort_rows(const RowLists& lists, std::int64_t entry, std::int64_t end,
                               FoundSpace& space) {
    const std::int32_t count = lists.counts[entry];
    const std::int32_t* const rows = lists.rows + lists.ends[entry] - count;
    for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < count; i += kThreads) {
        int before = 0;
        for (std::int32_t k = 0; k < count; ++k)
            before += rows[k] < rows[i] ? 1 : 0;
        space.rows[before] = rows[i];
    }
    __syncthreads();
    return {0, end, count};
}

template <int kAtOnce>
__global__ void embedding_backward_kernel(EmbeddingBackward op, RowLists lists) {
    auto& space = *reinterpret_cast<FoundSpace*>(shared_memory);
    const auto scale = static_cast<float>(op.scale);
    for (std::int64_t entry = blockIdx.x; entry < op.part.rows; entry += gridDim.x) {
        const bool listed = lists.rows != nullptr && lists.counts[entry] <= kRoom;
        if (listed && lists.counts[entry] == 0 && op.accumulate) continue;
        FoundRows found =
            listed ? sort_rows(lists, entry, op.rows, space) : find_rows(op, entry, 0, space);
        if (found.count == 0 && found.end >= op.rows && op.accumulate) continue;
        for (std::int64_t corner = 0; corner < op.width; corner += kThreads * kAtOnce) {
            const std::int64_t column = corner + threadIdx.x * kAtOnce;
            Elements<kAtOnce> sum{};
            if (found.from > 0) found = find_rows(op, entry, 0, space);
            for (;;) {
                for (int i = 0; column < op.width && i < found.count; ++i)
                    add_to<kAtOnce>(sum, op.dy, space.rows[i] * op.width + column);
                if (found.end >= op.rows) break;
                __syncthreads();
                found = find_rows(op, entry, found.end, space);
            }
            __syncthreads();
            if (column >= op.width) continue;
            const std::int64_t at = entry * op.width + column;
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j)
                sum.of[j] *= scale;
            if (op.accumulate) add_to<kAtOnce>(sum, op.dtable, at);
            store_at_once<kAtOnce>(op.dtable, at, sum);
        }
    }
}

}  // namespace

void embedding(const Embedding& op, cudaStream_t stream) {
    check_types({op.table, op.y});
    with_at_once(op.width, {op.table, op.y}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("embedding", embedding_kernel<kAtOnce>, rows_grid<kAtOnce>(op.rows, op.width),
               stream, op);
    });
}

void embedding_backward(const EmbeddingBackward& op, ScratchMemory& scratch, cudaStream_t stream) {
    check_types({op.dy, op.dtable});
    const RowLists lists =
        op.tokens != nullptr && op.rows > 0 ? list_rows(op, scratch, stream) : RowLists{};
    with_at_once(op.width, {op.dy, op.dtable}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("embedding_backward", embedding_backward_kernel<kAtOnce>,
               {blocks_for(op.part.rows), kThreads, sizeof(FoundSpace)}, stream, op, lists);
    });
}

}  // namespace orrery::runtime::cuda
