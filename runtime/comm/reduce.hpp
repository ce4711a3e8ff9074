// The canonical reduction: each element over the addends in their given order, neighbours in pairs,
// then pairs of these, and so on, whatever the range it is computed in. Every communicator reduces
// with this, so that all give the same bits; and what one of them has of 2^i addends in a row may
// have been summed before, to the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "plan/ir/kinds.hpp"
#include "runtime/comm/communicator.hpp"

namespace orrery::runtime {

// result[i] = ((addends[0] + addends[1]) + (addends[2] + addends[3])) + … at first + i, for i <
// count, in elements of dtype: a sum of n is that of the first 2^i < n, the largest such, and that
// of the rest. (For max, the largest of them; a NaN if there is one.) fp32 and fp64 add in
// themselves; bf16 and fp16 in fp32, rounded once at the end; i32 and u8 wrap around. `result` may
// be the range `first` of an addend, and must not overlap one otherwise. There is at least one
// addend.
void reduce(plan::DType dtype, Reduction reduction, std::span<const void* const> addends,
            std::int64_t first, std::int64_t count, void* result);

}  // namespace orrery::runtime
