// Where choices stand when they are sorted by expert, in order among those of one: what permute,
// spread and drop_rows go by. A block per expert looks at all choices, so that places are the same
// from run to run.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "runtime/cuda/scratch_memory.hpp"

namespace orrery::runtime::cuda {

// In memory of the device's that the stream has to itself until the next order.
struct ChoiceOrder {
    std::int64_t experts = 0;
    std::int32_t* places = nullptr;  // [choices]; -1: nowhere
    std::int32_t* starts = nullptr;  // [experts + 1]: the first place of each, the end of all
    std::int32_t* ends = nullptr;    // [experts]: behind the last place that is taken

    __device__ std::int64_t place(std::int64_t choice) const { return places[choice]; }
};

// Of choices of experts [first, first + experts); others stand nowhere. With a capacity each has as
// many places. `more` numbers behind the order are for the caller.
struct OrderedChoices {
    ChoiceOrder order;
    std::int32_t* more = nullptr;
};
OrderedChoices order_choices(const std::int32_t* choice, std::int64_t choices, std::int64_t first,
                             std::int64_t experts, std::int64_t capacity, std::int64_t more,
                             ScratchMemory& memory, cudaStream_t stream);

}  // namespace orrery::runtime::cuda
